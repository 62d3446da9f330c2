"""What the body of a block reads and writes: one region for each distinct access."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir import dtype as dt
from smelt.ir.expr import INDEX, Broadcast, Expr, IntImm, Ramp, Var, const
from smelt.ir.walk import substitute

from . import nodes
from .facts import Facts
from .rewrite import Rewriter, loads

_Touched = tuple[nodes.BufferRegion, tuple[nodes.For, ...]]
"""A region in terms of loops, and the loops of the block's body around it."""


def full(buffer: nodes.Buffer) -> nodes.BufferRegion:
    """All of a buffer."""
    return nodes.BufferRegion(buffer, tuple([_whole(e) for e in buffer.shape]))


def element(buffer: nodes.Buffer, indices: Sequence[Expr]) -> nodes.BufferRegion:
    """One element of a buffer."""
    return nodes.BufferRegion(buffer, tuple([nodes.Range(i, const(1, INDEX)) for i in indices]))


def _whole(extent: Expr) -> nodes.Range:
    return nodes.Range(const(0, extent.dtype), extent)


def accesses(
    facts: Facts, block: nodes.Block
) -> tuple[tuple[nodes.BufferRegion, ...], tuple[nodes.BufferRegion, ...]]:
    """The regions that the body of a block reads and writes, one per distinct access.

    A reduction's reading of its own result is not listed, as everywhere. A dimension whose index is
    data, or lanes without a pattern, counts as a whole.
    """
    scan = _Scan()
    scan.stmt(block.body)
    if block.init is not None:
        scan.stmt(block.init)
    local = {*block.alloc_buffers, *scan.allocated}
    writes = [*scan.writes, *scan.inner_writes]
    own = {r.buffer for r, _ in writes} if block.init is not None else set()
    return (
        _distinct(facts, [*scan.reads, *scan.inner_reads], local | own),
        _distinct(facts, writes, local),
    )


def refresh_regions(facts: Facts, block: nodes.Block) -> nodes.Block:
    """A block with its reads and writes read off its body again."""
    reads, writes = accesses(facts, block)
    return block.replace(reads=reads, writes=writes)


class _Scan(Rewriter):
    """Collects the loads and stores of a block's body with the loops around them."""

    def __init__(self) -> None:
        super().__init__()
        self.loops: list[nodes.For] = []
        self.values: dict[Var, Expr] = {}
        self.allocated: set[nodes.Buffer] = set()
        self.reads: list[_Touched] = []
        self.writes: list[_Touched] = []
        self.inner_reads: list[_Touched] = []
        self.inner_writes: list[_Touched] = []

    def visit_expr(self, e: Expr) -> Expr:
        if isinstance(e, nodes.BufferLoad):
            self.reads.append((self.point(e.buffer, e.indices), tuple(self.loops)))
        return super().visit_expr(e)

    def visit_For(self, s: nodes.For) -> nodes.Stmt:
        self.loops.append(s)
        self.memo = {}
        self.stmt(s.body)
        self.loops.pop()
        self.memo = {}
        return s

    def visit_LetStmt(self, s: nodes.LetStmt) -> nodes.Stmt:
        self.expr(s.value)
        self.values[s.var] = substitute(s.value, self.values)
        self.stmt(s.body)
        return s

    def visit_Allocate(self, s: nodes.Allocate) -> nodes.Stmt:
        self.allocated.add(s.buffer)
        self.stmt(s.body)
        return s

    def visit_BufferStore(self, s: nodes.BufferStore) -> nodes.Stmt:
        for i in s.indices:
            self.expr(i)
        self.expr(s.value)
        self.writes.append((self.point(s.buffer, s.indices), tuple(self.loops)))
        return s

    def visit_BlockRealize(self, s: nodes.BlockRealize) -> nodes.Stmt:
        for e in (*s.values, s.predicate):
            self.expr(e)
        values = {i.var: substitute(v, self.values) for i, v in s.bindings}
        own, inner = set(s.block.alloc_buffers), Rewriter(values)
        for regions, out in (
            (s.block.reads, self.inner_reads),
            (s.block.writes, self.inner_writes),
        ):
            found = [inner.region(r) for r in regions if r.buffer not in own]
            out += [(r, tuple(self.loops)) for r in found]
        return s

    def point(self, buffer: nodes.Buffer, indices: tuple[Expr, ...]) -> nodes.BufferRegion:
        """One element; let-bound variables are replaced by what they stand for."""
        dims = []
        for i, extent in zip(indices, buffer.shape, strict=True):
            at = substitute(i, self.values) if self.values else i
            dims.append(_interval(at) or _whole(extent))
        return nodes.BufferRegion(buffer, tuple(dims))


def _interval(index: Expr) -> nodes.Range | None:
    """The elements that an index, or all lanes of one, picks; None where only data tells."""
    if loads(index):
        return None
    match index:
        case Broadcast(value):
            return nodes.Range(value, const(1, INDEX))
        case Ramp(base, IntImm(_, step), lanes) if step >= 1:
            return nodes.Range(base, const(step * (lanes - 1) + 1, INDEX))
    return nodes.Range(index, const(1, INDEX)) if dt.lanes(index.dtype) == 1 else None


def _relaxed(facts: Facts, r: nodes.BufferRegion, loops: Sequence[nodes.For]) -> nodes.BufferRegion:
    if not loops:
        return r
    box = facts.box(r.region, r.buffer.shape, loops)
    return nodes.BufferRegion(
        r.buffer, tuple([nodes.Range(low, facts.extent(low, high)) for low, high in box])
    )


def _distinct(
    facts: Facts, touched: Sequence[_Touched], skip: set[nodes.Buffer]
) -> tuple[nodes.BufferRegion, ...]:
    """The regions while their loops run, each once, without those of some buffers."""
    found: dict[tuple[object, ...], nodes.BufferRegion] = {}
    for region, loops in touched:
        if region.buffer not in skip:
            r = _relaxed(facts, region, loops)
            key = (r.buffer, *[x for d in r.region for x in (d.min, d.extent)])
            found.setdefault(key, r)
    return tuple(found.values())
