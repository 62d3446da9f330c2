"""Operands staged in copies that are indexed by the block's own variables, or by a map of them."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir.build import is_const
from smelt.ir.expr import Expr
from smelt.ir.walk import free_vars, substitute
from smelt.tir.rewrite import Indices

from .. import nodes
from .cache import buffer_at
from .exchange import Relayout, is_outer, stage, stored
from .handles import BlockRV
from .layout import named_buffer
from .maps import IndexFunction, read_map
from .predicate import require_unguarded
from .primitive import Base, primitive
from .region import domain_loops, refreshed
from .require import (
    Kind,
    require_consumers_apart,
    require_kind,
    require_producers_apart,
    require_top,
)
from .state import State


class ReindexPrimitives(Base):
    """reindex, reindex_cache_read, reindex_cache_write."""

    @primitive
    def reindex(self, block: str, buffer: tuple[str, int] | str | nodes.Buffer) -> BlockRV:
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
        s, b = self._at(block)
        old = named_buffer(s, b, buffer)
        return BlockRV(
            _Staging(s, b, old, any(w.buffer is old for w in b.block.writes)).reindexed()
        )

    @primitive
    def reindex_cache_read(
        self,
        block: str,
        read_buffer_index: int | str | nodes.Buffer,
        storage_scope: str,
        index_map: IndexFunction,
    ) -> BlockRV:
        """Stage what a block reads in a copy that a map of the block's variables indexes.

        Before
            for i, j in T.grid(4, 6):
                with T.block("B"):
                    v, w = T.axis.remap("SS", [i, j])
                    B[v, w] = A[v, w] * 2.0
        Step    reindex_cache_read("B", 0, "local", lambda v, w: (w, v))
        After
            A_local = T.alloc_buffer((6, 4), scope="local")
            for ax0, ax1 in T.grid(4, 6):
                with T.block("A_local"):
                    v0, v1 = T.axis.remap("SS", [ax0, ax1])
                    A_local[v1, v0] = A[v0, v1]
            for i, j in T.grid(4, 6):
                with T.block("B"):
                    v, w = T.axis.remap("SS", [i, j])
                    B[v, w] = A_local[w, v] * 2.0
        Needs   a buffer read at one place; a map that gives the elements read different places, of
                variables that choose the element.
        """
        s, b = self._at(block)
        old = buffer_at(s, b, "read", read_buffer_index)
        return BlockRV(_Staging(s, b, old, False).mapped(index_map, storage_scope))

    @primitive
    def reindex_cache_write(
        self,
        block: str,
        write_buffer_index: int | str | nodes.Buffer,
        storage_scope: str,
        index_map: IndexFunction,
    ) -> BlockRV:
        """Let a block write a copy that a map of its variables indexes; a new block copies it back.

        Before
            for i, j in T.grid(4, 6):
                with T.block("B"):
                    v, w = T.axis.remap("SS", [i, j])
                    B[v, w] = A[v, w] * 2.0
        Step    reindex_cache_write("B", 0, "local", lambda v, w: (v // 2, w, v % 2))
        After
            B_local = T.alloc_buffer((2, 6, 2), scope="local")
            for i, j in T.grid(4, 6):
                with T.block("B"):
                    v, w = T.axis.remap("SS", [i, j])
                    B_local[v // 2, w, v % 2] = A[v, w] * 2.0
            for ax0, ax1 in T.grid(4, 6):
                with T.block("B_local"):
                    v0, v1 = T.axis.remap("SS", [ax0, ax1])
                    B[v0, v1] = B_local[v0 // 2, v1, v0 % 2]
        Needs   a complete or reduction block that runs for all values of its variables and writes
                the buffer at one place; a map that gives the elements written different places.
        """
        s, b = self._at(block)
        old = buffer_at(s, b, "write", write_buffer_index)
        return BlockRV(_Staging(s, b, old, True).mapped(index_map, storage_scope))


class _Staging:
    """One buffer of one block, exchanged for a copy."""

    def __init__(self, s: State, b: nodes.BlockRealize, old: nodes.Buffer, writes: bool) -> None:
        """Check that the block's accesses of the buffer can be moved to a copy of it."""
        self.s, self.b, self.old, self.writes = s, b, old, writes
        both = b.block.reads, b.block.writes
        if all(any(r.buffer is old for r in part) for part in both):
            s.fail(
                f"{b.block.name} reads and writes {old.name}",
                legal="a buffer that the block only reads or only writes (see cache_inplace)",
            )
        found = _places(s, b, old)
        if len(found) != 1:
            s.fail(
                f"{b.block.name} uses {old.name} at {len(found)} places",
                legal="a buffer used at one place",
            )
        self.indices = found.pop()
        require_top(s, b)
        if writes:
            require_kind(s, b, Kind.COMPLETE, Kind.REDUCTION)
            require_consumers_apart(s, b, old)
            require_unguarded(s, b, f"more elements of {old.name} would be copied than it writes")
        else:
            require_producers_apart(s, b, old)
        _require_inside(s, b, old, self.indices)
        mentioned = set().union(*[free_vars(e) for e in self.indices])
        self.used = [i for i in b.block.iter_vars if i.var in mentioned]

    def reindexed(self) -> str:
        """A copy with a dimension for every variable that chooses an element."""
        s, old = self.s, self.old
        shape = tuple([i.dom.extent for i in self.used])
        new = nodes.Buffer(s.fresh(f"{old.name}_reindex"), shape, old.type)
        return self._stage(new, tuple([i.var - i.dom.min for i in self.used]))

    def mapped(self, index_map: IndexFunction, scope: str) -> str:
        """A copy whose dimensions are the results of a map of the block's variables."""
        s, b, old = self.s, self.b, self.old
        extents = [i.dom.extent for i in b.block.iter_vars]
        layout = read_map(s, index_map, extents)
        used = {i.var for i in self.used}
        pairs = zip(layout.iters, b.block.iter_vars, strict=True)
        chosen = [x for x, i in pairs if i.var in used]
        point = layout.at([i.var - i.dom.min for i in b.block.iter_vars])
        other = {i.var: i.var.name for i in b.block.iter_vars if i.var not in used}
        for e in point:
            bad = free_vars(e) & other.keys()
            if bad:
                s.fail(
                    f"the index map uses {min(v.name for v in bad)}, which does not choose the "
                    f"element of {old.name}",
                    mark={b: f"uses {old.name}"},
                    legal=f"a map that leaves out {', '.join(other.values())}",
                )
        shape = layout.image(s, f"what {b.block.name} uses of {old.name}", chosen)
        new = nodes.Buffer(s.fresh(f"{old.name}_{scope}"), shape, old.type, scope)
        return self._stage(new, point)

    def _stage(self, new: nodes.Buffer, point: tuple[Expr, ...]) -> str:
        """Change the program; returns the name of the copying block."""
        s, b, old, writes = self.s, self.b, self.old, self.writes

        def copy(at: Indices) -> nodes.BufferStore:
            own = dict(zip([i.var for i in self.used], at, strict=True))
            there, here = (tuple([substitute(e, own) for e in x]) for x in (self.indices, point))
            if writes:
                return nodes.BufferStore(old, nodes.BufferLoad(new, here), there)
            return nodes.BufferStore(new, nodes.BufferLoad(old, there), here)

        def swap(block: nodes.Block) -> nodes.Block:
            return refreshed(s, Relayout(old, new, lambda _: point).stmt(block))

        name, nest = stored(s, new.name, [i.dom for i in self.used], copy)
        stage(s, [new], [b], swap, nest, s.top(b, s.scope(b).block), writes)
        return name


def _require_inside(
    s: State, b: nodes.BlockRealize, buffer: nodes.Buffer, indices: Sequence[Expr]
) -> None:
    """Refuse a copy over a block's whole domain where only a condition keeps it in the buffer."""
    loops = domain_loops(b.block.iter_vars)
    for e, extent in zip(indices, buffer.shape, strict=True):
        ends = s.facts.relax(e, loops)
        if ends is None or not (s.facts.prove(ends[0] >= 0) and s.facts.prove(ends[1] < extent)):
            s.cannot_prove(
                f"{b.block.name} uses {buffer.name} only inside its shape for all of its variables",
                mark={b: f"uses {buffer.name}"},
                legal="an access that no condition guards",
            )


def _places(s: State, b: nodes.BlockRealize, buffer: nodes.Buffer) -> set[tuple[Expr, ...]]:
    """The indices at which a block uses a buffer, an element at a time."""
    regions = [r for r in (*b.block.reads, *b.block.writes) if r.buffer is buffer]
    if is_outer(b.block) or not all(is_const(d.extent, 1) for r in regions for d in r.region):
        s.fail(
            f"{b.block.name} uses many elements of {buffer.name} at once",
            mark={b: f"uses {buffer.name}"},
            legal="a block that uses one element at a time",
        )
    return {tuple([d.min for d in r.region]) for r in regions}
