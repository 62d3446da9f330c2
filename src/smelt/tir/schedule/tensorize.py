"""tensorize: a tile replaced by an instruction that does the same."""

from __future__ import annotations

from collections.abc import Mapping

from smelt.ir.expr import INDEX, Expr, const
from smelt.tir.intrin.registry import TensorIntrin
from smelt.tir.rewrite import Indices, Rewriter

from .. import nodes
from .blockize import BlockizePrimitives
from .exchange import is_outer
from .loops import find
from .matching import Matching, OperandPlace
from .primitive import primitive
from .renamed import renamed_copy
from .state import State

Intrinsic = TensorIntrin | tuple[nodes.PrimFunc, nodes.PrimFunc]
"""What an instruction means, and the program that calls it; parameters correspond by place."""


class TensorizePrimitives(BlockizePrimitives):
    """tensorize."""

    @primitive
    def tensorize(
        self, block_or_loop: str, tensor_intrin: str | Intrinsic, preserve_unit_iters: bool = True
    ) -> None:
        """Replace a tile by an instruction that does the same.

        tensor_intrin  (description, implementation), or the name of a registered pair; here `axpy`
                       describes C[0:8] = C[0:8] + A[0] * B[0:8] and does it by vectors

        Before
            for i, k, j in T.grid(2, 4, 8):
                with T.block("C"):
                    vi, vk, vj = T.axis.remap("SRS", [i, k, j])
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        Step    tensorize("j", axpy)
        After
            for i, k in T.grid(2, 4):
                with T.block("C_o"):
                    vi_o, vk_o = T.axis.remap("SR", [i, k])
                    T.reads(C[vi_o, 0:8], A[vi_o, vk_o], B[vk_o, 0:8])
                    T.writes(C[vi_o, 0:8])
                    C[vi_o, 0:8] = C[vi_o, 0:8] + T.broadcast(A[vi_o, vk_o], 8) * B[vk_o, 0:8]
        Needs   a loop or block whose statements equal the description: operands of + * min max and
                or in any order, loops in any order. Each of the description's buffers stands for a
                part of one of the tile's, at an offset, its dimensions in any order and with
                strides; those written do not overlap others. Initial values are taken out first.
        """
        s = self.state
        intrin = self._intrinsic(tensor_intrin)
        s.call.args["tensor_intrin"] = intrin.name
        node = find(s, block_or_loop)
        if isinstance(node, nodes.For) or not is_outer(node.block):
            node = s.realize(self.blockize(block_or_loop, preserve_unit_iters))
        match = Matching(s, intrin.name)
        match.compare(_inner(intrin.desc.body), node.block.body)
        names = dict(zip(intrin.impl.buffers, intrin.desc.buffers, strict=True))
        places = {b: match.places[m] for b, m in names.items() if m in match.places}
        s.replace({node.block: _placed(s, node.block, intrin.impl.body, places)})

    def _intrinsic(self, given: str | Intrinsic) -> TensorIntrin:
        if not isinstance(given, str):
            return TensorIntrin.of_pair(*given)  # registered: the trace names it
        found = TensorIntrin.get(given, allow_missing=True)
        if found is None:
            self.state.fail(f"there is no intrinsic {given!r}", legal=TensorIntrin.nearest(given))
        return found


def _inner(s: nodes.Stmt) -> nodes.Stmt:
    """What a function's root block does."""
    return s.block.body if isinstance(s, nodes.BlockRealize) and not s.values else s


def _placed(
    s: State,
    tile: nodes.Block,
    implementation: nodes.Stmt,
    places: Mapping[nodes.Buffer, OperandPlace],
) -> nodes.Block:
    """A tile done by an implementation, which gets names of its own, where its buffers lie."""
    fresh, rewriter = renamed_copy(s, implementation), _Placing(places)
    if not isinstance(fresh, nodes.BlockRealize) or fresh.values:
        return tile.replace(body=rewriter.stmt(fresh))
    root = fresh.block
    s.block_names.discard(root.name)
    return tile.replace(
        body=rewriter.stmt(root.body),
        alloc_buffers=(*tile.alloc_buffers, *root.alloc_buffers),
        annotations={**tile.annotations, **root.annotations},
    )


class _Placing(Rewriter):
    """Puts an implementation's accesses where the tile's buffers lie."""

    def __init__(self, places: Mapping[nodes.Buffer, OperandPlace]) -> None:
        super().__init__()
        self.places = places

    def access(self, b: nodes.Buffer, indices: Indices) -> tuple[nodes.Buffer, Indices]:
        place = self.places.get(b)
        return (b, indices) if place is None else (place.buffer, place.at(indices))

    def region(self, r: nodes.BufferRegion) -> nodes.BufferRegion:
        """A region as the box that holds it."""
        place = self.places.get(r.buffer)
        if place is None:
            return super().region(r)
        low = place.at([self.expr(d.min) for d in r.region])
        ranges = []
        for first, row in zip(low, place.steps, strict=True):
            extent: Expr = const(1, INDEX)
            for step, d in zip(row, r.region, strict=True):
                extent = extent + (d.extent - 1) * abs(step)
            ranges.append(nodes.Range(first, extent))
        return nodes.BufferRegion(place.buffer, tuple(ranges))
