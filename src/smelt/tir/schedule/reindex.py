"""reindex: an operand staged in a copy that is indexed by the block's own variables."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir.build import is_const
from smelt.ir.expr import Expr, Var, const
from smelt.ir.walk import substitute
from smelt.tir.nodes import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IterVar,
    Stmt,
    no_op,
    seq,
)

from .check import (
    Kind,
    require_consumers_apart,
    require_kind,
    require_producers_apart,
    require_top,
)
from .handles import BlockRV
from .layout import Relayout, is_outer, named_buffer, refreshed, variables_of
from .primitive import Base, primitive
from .state import Change, State, allocating

__all__ = ["ReindexPrimitives"]


class ReindexPrimitives(Base):
    """reindex."""

    @primitive
    def reindex(self, block: str, buffer: tuple[str, int] | str) -> BlockRV:
        """Stage a buffer in a copy that is indexed by the block's own variables.

        Before
            for i, j in T.grid(4, 6):
                with T.block("B"):
                    v, w = T.axis.remap("SS", [i, j])
                    B[v, w] = A[w, v] + 1.0
        Step    reindex("B", ("read", 0))
        After
            A_reindex = T.alloc_buffer((4, 6))
            for ax0, ax1 in T.grid(4, 6):
                with T.block("A_reindex"):
                    v0, v1 = T.axis.remap("SS", [ax0, ax1])
                    A_reindex[v0, v1] = A[v1, v0]
            for i, j in T.grid(4, 6):
                with T.block("B"):
                    v, w = T.axis.remap("SS", [i, j])
                    B[v, w] = A_reindex[v, w] + 1.0
        Needs   a block that uses the buffer at one place, not both reading and writing it
                otherwise.
        """
        s = self.state
        b = s.realize(block)
        old = named_buffer(s, b, buffer)
        found = _places(s, b, old)
        if len(found) != 1:
            s.fail(
                f"{b.block.name} uses {old.name} at {len(found)} places",
                mark={b: "this block"},
                legal="a buffer used at one place",
            )
        indices = found.pop()
        writes = any(w.buffer is old for w in b.block.writes)
        require_top(s, b)
        if writes:
            require_kind(s, b, Kind.COMPLETE, Kind.REDUCTION)
            require_consumers_apart(s, b, old)
        else:
            require_producers_apart(s, b, old)
        _require_inside(s, b, old, indices)
        return BlockRV(_stage(s, b, old, indices, writes))


def _stage(s: State, b: BlockRealize, old: Buffer, indices: Sequence[Expr], writes: bool) -> str:
    """Change the program; returns the name of the copying block."""
    used = [i for i in b.block.iter_vars if any(i.var in variables_of(e) for e in indices)]
    new = Buffer(s.fresh(f"{old.name}_reindex"), tuple([i.dom.extent for i in used]), old.type)
    name, nest = _copy(s, used, old, new, indices, writes)
    point: tuple[Expr, ...] = tuple([i.var - i.dom.min for i in used])
    inner = refreshed(s, Relayout(old, new, lambda _: point).stmt(b.block))
    place = s.top(b, s.scope(b).block)

    def beside(x: Stmt) -> Stmt:
        if x is b:
            x = BlockRealize(b.values, b.predicate, inner)
        return seq(x, nest) if writes else seq(nest, x)

    changes: dict[Stmt, Change] = {place: beside, s.scope(b).block: allocating(new)}
    if place is not b:
        changes[b.block] = inner
    s.replace(changes)
    return name


def _copy(
    s: State,
    used: Sequence[IterVar],
    old: Buffer,
    new: Buffer,
    indices: Sequence[Expr],
    writes: bool,
) -> tuple[str, Stmt]:
    """The block that copies between the two, in loops over the used variables."""
    iters = [
        IterVar(s.new_var(f"v{k}", i.dom.min, i.dom.extent), i.dom) for k, i in enumerate(used)
    ]
    own: dict[Var, Expr] = {i.var: n.var for i, n in zip(used, iters, strict=True)}
    there = tuple([substitute(e, own) for e in indices])
    here: tuple[Expr, ...] = tuple([n.var - n.dom.min for n in iters])
    store = BufferStore(new, BufferLoad(old, there), here)
    if writes:
        store = BufferStore(old, BufferLoad(new, here), there)
    name = s.fresh_block(new.name)
    block = refreshed(s, Block(name, tuple(iters), (), (), store))
    nest = s.nest(
        [f"ax{k}" for k in range(len(used))],
        [i.dom.extent for i in used],
        lambda loops: BlockRealize(
            tuple([i.dom.min + x for i, x in zip(used, loops, strict=True)]), const(True), block
        ),
    )
    return name, nest


def _require_inside(s: State, b: BlockRealize, buffer: Buffer, indices: Sequence[Expr]) -> None:
    """Refuse a copy over a block's whole domain where only a condition keeps it in the buffer."""
    loops = [For(i.var, i.dom.min, i.dom.extent, no_op()) for i in b.block.iter_vars]
    for e, extent in zip(indices, buffer.shape, strict=True):
        ends = s.facts.relax(e, loops)
        if ends is None or not (s.facts.prove(ends[0] >= 0) and s.facts.prove(ends[1] < extent)):
            s.cannot_prove(
                f"{b.block.name} uses {buffer.name} only inside its shape for all of its variables",
                mark={b: f"uses {buffer.name}"},
                legal="an access that no condition guards",
            )


def _places(s: State, b: BlockRealize, buffer: Buffer) -> set[tuple[Expr, ...]]:
    """The indices at which a block uses a buffer, an element at a time."""
    regions = [r for r in (*b.block.reads, *b.block.writes) if r.buffer is buffer]
    if is_outer(b.block) or not all(is_const(d.extent, 1) for r in regions for d in r.region):
        s.fail(
            f"{b.block.name} uses many elements of {buffer.name} at once",
            mark={b: f"uses {buffer.name}"},
            legal="a block that uses one element at a time",
        )
    return {tuple([d.min for d in r.region]) for r in regions}
