"""What the body of a block reads and writes: one region for each distinct access."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from smelt.ir import dtype as dt
from smelt.ir.expr import INDEX, Broadcast, Call, Expr, IntImm, Ramp, const
from smelt.ir.node import Node

from . import nodes
from .access import AccessWalk
from .extern import ExternFunction
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
    scan = _Scan(facts)
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


def with_regions(
    func: nodes.PrimFunc, bare: Mapping[nodes.Block, tuple[bool, bool]]
) -> nodes.PrimFunc:
    """A program whose blocks list what they touch where that has not been said.

    bare  which of (reads, writes) are to be read off a block's body
    """
    return func.replace(body=_Regions(Facts(func), bare).stmt(func.body))


class _Regions(Rewriter):
    """Innermost blocks first: those around them touch what they touch."""

    def __init__(self, facts: Facts, bare: Mapping[nodes.Block, tuple[bool, bool]]) -> None:
        super().__init__()
        self.facts, self.bare = facts, bare

    def child(self, node: Node) -> Node:
        return self.stmt(node) if isinstance(node, nodes.Stmt) else node

    def visit_BufferStore(self, s: nodes.BufferStore) -> nodes.Stmt:
        return s

    def visit_Block(self, s: nodes.Block) -> nodes.Block:
        new = self.block_parts(s)
        if s not in self.bare:
            return new
        reads, writes = accesses(self.facts, new)
        no_reads, no_writes = self.bare[s]
        return new.replace(
            reads=reads if no_reads else s.reads, writes=writes if no_writes else s.writes
        )


class _Scan(AccessWalk[nodes.For]):
    """Collects the loads and stores of a block's body with the loops around them."""

    def __init__(self, facts: Facts) -> None:
        super().__init__()
        self.facts = facts
        self.allocated: set[nodes.Buffer] = set()
        self.reads: list[_Touched] = []
        self.writes: list[_Touched] = []
        self.inner_reads: list[_Touched] = []
        self.inner_writes: list[_Touched] = []

    def loop(self, s: nodes.For) -> None:
        self.nested(s, s)

    def allocate(self, buffers: Iterable[nodes.Buffer]) -> None:
        self.allocated.update(buffers)

    def access(self, buffer: nodes.Buffer, indices: tuple[Expr, ...] | None, write: bool) -> None:
        """One element; let-bound variables are replaced by what they stand for."""
        at = [self.value(i) for i in indices or ()]
        dims = [_interval(i) or _whole(e) for i, e in zip(at, buffer.shape, strict=True)]
        found = self.writes if write else self.reads
        found.append((nodes.BufferRegion(buffer, tuple(dims)), self.nest))

    def effect(self, s: nodes.Evaluate) -> None:
        """What an external function is given is touched as far as it reaches, or as a whole."""
        made = ExternFunction.called_by(s)
        if made is None:
            super().effect(s)
            return
        assert isinstance(s.value, Call)
        for given in made.given(s.value.args[1:]):
            buffer, at = given.place.buffer, [self.value(i) for i in given.place.indices]
            region, extents = full(buffer), given.extents
            if extents is not None:
                ends = zip(at, extents, buffer.shape, strict=True)
                if all(self.facts.prove(i + n <= e) for i, n, e in ends):
                    region = nodes.BufferRegion(buffer, tuple(map(nodes.Range, at, extents)))
            if given.reads:
                self.reads.append((region, self.nest))
            if given.writes:
                self.writes.append((region, self.nest))

    def realize(self, s: nodes.BlockRealize) -> None:
        for e in (*s.values, s.predicate):
            self.read(e)
        own = set(s.block.alloc_buffers)
        inner = Rewriter({i.var: self.value(v) for i, v in s.bindings})
        for regions, out in (
            (s.block.reads, self.inner_reads),
            (s.block.writes, self.inner_writes),
        ):
            out += [(inner.region(r), self.nest) for r in regions if r.buffer not in own]


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
