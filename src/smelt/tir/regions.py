"""What the body of a block reads and writes: one region for each distinct access."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir import dtype as dt
from smelt.ir.expr import INDEX, Broadcast, Expr, IntImm, Ramp, Var, const
from smelt.ir.walk import substitute

from .facts import Facts
from .nodes import (
    Allocate,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    LetStmt,
    Range,
    Stmt,
)
from .rewrite import Rewriter, loads

_Touched = tuple[BufferRegion, tuple[For, ...]]
"""A region in terms of loops, and the loops of the block's body around it."""


def full(buffer: Buffer) -> BufferRegion:
    """All of a buffer."""
    return BufferRegion(buffer, tuple([_whole(e) for e in buffer.shape]))


def element(buffer: Buffer, indices: Sequence[Expr]) -> BufferRegion:
    """One element of a buffer."""
    return BufferRegion(buffer, tuple([Range(i, const(1, INDEX)) for i in indices]))


def _whole(extent: Expr) -> Range:
    return Range(const(0, extent.dtype), extent)


def accesses(
    facts: Facts, block: Block
) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
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


def refresh_regions(facts: Facts, block: Block) -> Block:
    """A block with its reads and writes read off its body again."""
    reads, writes = accesses(facts, block)
    return block.replace(reads=reads, writes=writes)


class _Scan(Rewriter):
    """Collects the loads and stores of a block's body with the loops around them."""

    def __init__(self) -> None:
        super().__init__()
        self.loops: list[For] = []
        self.values: dict[Var, Expr] = {}
        self.allocated: set[Buffer] = set()
        self.reads: list[_Touched] = []
        self.writes: list[_Touched] = []
        self.inner_reads: list[_Touched] = []
        self.inner_writes: list[_Touched] = []

    def visit_expr(self, e: Expr) -> Expr:
        if isinstance(e, BufferLoad):
            self.reads.append((self.point(e.buffer, e.indices), tuple(self.loops)))
        return super().visit_expr(e)

    def visit_For(self, s: For) -> Stmt:
        self.loops.append(s)
        self.memo = {}
        self.stmt(s.body)
        self.loops.pop()
        self.memo = {}
        return s

    def visit_LetStmt(self, s: LetStmt) -> Stmt:
        self.expr(s.value)
        self.values[s.var] = substitute(s.value, self.values)
        self.stmt(s.body)
        return s

    def visit_Allocate(self, s: Allocate) -> Stmt:
        self.allocated.add(s.buffer)
        self.stmt(s.body)
        return s

    def visit_BufferStore(self, s: BufferStore) -> Stmt:
        for i in s.indices:
            self.expr(i)
        self.expr(s.value)
        self.writes.append((self.point(s.buffer, s.indices), tuple(self.loops)))
        return s

    def visit_BlockRealize(self, s: BlockRealize) -> Stmt:
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

    def point(self, buffer: Buffer, indices: tuple[Expr, ...]) -> BufferRegion:
        """One element; let-bound variables are replaced by what they stand for."""
        dims = []
        for i, extent in zip(indices, buffer.shape, strict=True):
            at = substitute(i, self.values) if self.values else i
            dims.append(_interval(at) or _whole(extent))
        return BufferRegion(buffer, tuple(dims))


def _interval(index: Expr) -> Range | None:
    """The elements that an index, or all lanes of one, picks; None where only data tells."""
    if loads(index):
        return None
    match index:
        case Broadcast(value):
            return Range(value, const(1, INDEX))
        case Ramp(base, IntImm(_, step), lanes) if step >= 1:
            return Range(base, const(step * (lanes - 1) + 1, INDEX))
    return Range(index, const(1, INDEX)) if dt.lanes(index.dtype) == 1 else None


def _relaxed(facts: Facts, r: BufferRegion, loops: Sequence[For]) -> BufferRegion:
    if not loops:
        return r
    box = facts.box(r.region, r.buffer.shape, loops)
    return BufferRegion(r.buffer, tuple([Range(low, facts.extent(low, high)) for low, high in box]))


def _distinct(
    facts: Facts, touched: Sequence[_Touched], skip: set[Buffer]
) -> tuple[BufferRegion, ...]:
    """The regions while their loops run, each once, without those of some buffers."""
    found: dict[tuple[object, ...], BufferRegion] = {}
    for region, loops in touched:
        if region.buffer not in skip:
            r = _relaxed(facts, region, loops)
            key = (r.buffer, *[x for d in r.region for x in (d.min, d.extent)])
            found.setdefault(key, r)
    return tuple(found.values())
