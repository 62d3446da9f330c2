"""Regions: what a block touches while loops run, and which iterations touch a region."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from smelt.ir.build import is_const
from smelt.ir.expr import INDEX, Expr, FloorDiv, FloorMod, Var, const
from smelt.ir.walk import free_vars, substitute
from smelt.tir.nodes import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    Range,
    Stmt,
)
from smelt.tir.rewrite import Rewriter

from .facts import Box, Facts

if TYPE_CHECKING:
    from .state import State

__all__ = ["accesses", "full", "merge_digits", "refresh_regions", "solve", "touched"]

Domain = dict[Var, tuple[Expr, Expr]]


def touched(state: State, b: BlockRealize, region: BufferRegion, loops: Sequence[For]) -> Box:
    """The box of a buffer that a block touches while `loops` (outermost first) run."""
    values = dict(zip([i.var for i in b.block.iter_vars], b.values, strict=True))
    ranges = [Range(substitute(r.min, values), substitute(r.extent, values)) for r in region.region]
    return state.facts.box(ranges, region.buffer.shape, loops)


def full(buffer: Buffer) -> BufferRegion:
    """All of a buffer."""
    return BufferRegion(buffer, tuple([Range(const(0, INDEX), e) for e in buffer.shape]))


# ------------------------------------------------------------------------------------ inverting


def solve(
    facts: Facts, indices: Sequence[Expr], box: Box, variables: Iterable[Var]
) -> tuple[Domain, set[Var]]:
    """The values of block variables for which `indices` may lie in `box`.

    Returns the ranges found, and those variables among them whose range is exact: every value in it
    touches the box and no other does. A variable that is missing may have any value.
    """
    known = set(variables)
    domain: Domain = {}
    exact: set[Var] = set()
    for e, (low, high), precise in _joined(facts, indices, box):
        _solve_one(facts, e, low, high, precise, known, domain, exact)
    return domain, exact


def _joined(
    facts: Facts, indices: Sequence[Expr], box: Box
) -> list[tuple[Expr, tuple[Expr, Expr], bool]]:
    """Indices x // c and x % c become one index x."""
    items = [(e, b, True) for e, b in zip(indices, box, strict=True)]
    while True:
        pair = _quotient_and_rest([e for e, _, _ in items])
        if pair is None:
            return items
        quotient, rest, whole, factor = pair
        (_, (q0, q1), p0), (_, (r0, r1), p1) = items[quotient], items[rest]
        one = facts.equal(q0, q1)
        all_rests = is_const(facts.simplify(r0), 0) and facts.equal(r1, factor - 1)
        low, high = (
            (q0 * factor + r0, q1 * factor + r1)
            if one or all_rests
            else (q0 * factor, q1 * factor + (factor - 1))
        )
        new = (whole, (facts.simplify(low), facts.simplify(high)), (one or all_rests) and p0 and p1)
        items = [x for k, x in enumerate(items) if k not in (quotient, rest)] + [new]


def _quotient_and_rest(items: Sequence[Expr]) -> tuple[int, int, Expr, Expr] | None:
    position = {e: k for k, e in enumerate(items)}
    for k, e in enumerate(items):
        if not isinstance(e, FloorMod):
            continue
        candidates = [FloorDiv(e.a, e.b)]
        if isinstance(e.a, FloorDiv):
            candidates.append(FloorDiv(e.a.a, e.a.b * e.b))
        for q in candidates:
            if q in position:
                return position[q], k, e.a, e.b
    return None


def merge_digits(items: Sequence[Expr]) -> list[Expr]:
    """Values where each pair x // c, x % c has become x."""
    out = list(items)
    while (pair := _quotient_and_rest(out)) is not None:
        quotient, rest, whole, _ = pair
        out = [x for k, x in enumerate(out) if k not in (quotient, rest)] + [whole]
    return out


def _solve_one(
    facts: Facts,
    e: Expr,
    low: Expr,
    high: Expr,
    precise: bool,
    known: set[Var],
    domain: Domain,
    exact: set[Var],
) -> None:
    seen = free_vars(e) & known
    if not seen:
        return
    if len(seen) > 1:
        _solve_digits(facts, e, low, high, known, domain)
        return
    (v,) = seen
    offset = facts.simplify(e - v)
    if v in free_vars(offset):
        _solve_digits(facts, e, low, high, known, domain)
        return
    bounds = (facts.simplify(low - offset), facts.simplify(high - offset))
    if v in domain:
        if facts.equal(domain[v][0], bounds[0]) and facts.equal(domain[v][1], bounds[1]):
            return
        exact.discard(v)
        old = domain[v]
        if facts.prove(old[1] - old[0] <= bounds[1] - bounds[0]):
            return
    domain[v] = bounds
    if precise:
        exact.add(v)


def _solve_digits(
    facts: Facts, e: Expr, low: Expr, high: Expr, known: set[Var], domain: Domain
) -> None:
    """c * v + rest with 0 <= rest < c: v from low // c to high // c; the rest stays free."""
    terms = facts.linear(e, tuple(sorted(free_vars(e) & known, key=lambda v: v.name)))
    if not terms:
        return
    v, c = max(terms, key=lambda t: t[1])
    rest = facts.simplify(substitute(e, {v: const(0, INDEX)}))
    if c > 0 and facts.prove(rest >= 0) and facts.prove(rest < c):
        domain[v] = (facts.simplify(low // c), facts.simplify(high // c))
        if facts.equal(low, high):
            below = facts.simplify(low % c)
            _solve_one(facts, rest, below, below, False, known, domain, set())


# ------------------------------------------------------------------------------------- scanning


class _Scan(Rewriter):
    """Collects the loads and stores of a block's body with the loops around them."""

    def __init__(self) -> None:
        super().__init__()
        self.loops: list[For] = []
        self.reads: dict[tuple[Buffer, tuple[Expr, ...]], tuple[For, ...]] = {}
        self.writes: dict[tuple[Buffer, tuple[Expr, ...]], tuple[For, ...]] = {}
        self.inner_reads: list[tuple[BufferRegion, tuple[For, ...]]] = []
        self.inner_writes: list[tuple[BufferRegion, tuple[For, ...]]] = []

    def visit_expr(self, e: Expr) -> Expr:
        if isinstance(e, BufferLoad):
            self.reads.setdefault((e.buffer, e.indices), tuple(self.loops))
        return super().visit_expr(e)

    def visit_For(self, s: For) -> Stmt:
        self.loops.append(s)
        self.memo = {}
        self.stmt(s.body)
        self.loops.pop()
        self.memo = {}
        return s

    def visit_BufferStore(self, s: BufferStore) -> Stmt:
        for i in s.indices:
            self.expr(i)
        self.expr(s.value)
        self.writes.setdefault((s.buffer, s.indices), tuple(self.loops))
        return s

    def visit_BlockRealize(self, s: BlockRealize) -> Stmt:
        for e in (*s.values, s.predicate):
            self.expr(e)
        values = dict(zip([i.var for i in s.block.iter_vars], s.values, strict=True))
        own = set(s.block.alloc_buffers)
        for regions, out in (
            (s.block.reads, self.inner_reads),
            (s.block.writes, self.inner_writes),
        ):
            for r in regions:
                if r.buffer not in own:
                    ranges = tuple(
                        [
                            Range(substitute(d.min, values), substitute(d.extent, values))
                            for d in r.region
                        ]
                    )
                    out.append((BufferRegion(r.buffer, ranges), tuple(self.loops)))
        return s


def accesses(
    facts: Facts, block: Block
) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """The regions that the body of a block reads and writes, one per distinct access.

    A reduction's reading of its own result is not listed, as everywhere.
    """
    scan = _Scan()
    scan.stmt(block.body)
    if block.init is not None:
        scan.stmt(block.init)
    own = (
        {b for b, _ in scan.writes} | {r.buffer for r, _ in scan.inner_writes}
        if block.init is not None
        else set()
    )
    reads = [
        _relaxed(facts, _point(b, i), loops) for (b, i), loops in scan.reads.items() if b not in own
    ]
    reads += [_relaxed(facts, r, loops) for r, loops in scan.inner_reads if r.buffer not in own]
    writes = [_relaxed(facts, _point(b, i), loops) for (b, i), loops in scan.writes.items()]
    writes += [_relaxed(facts, r, loops) for r, loops in scan.inner_writes]
    local = set(block.alloc_buffers)
    return _distinct(reads, local), _distinct(writes, local)


def refresh_regions(facts: Facts, block: Block) -> Block:
    """A block with its reads and writes read off its body again."""
    reads, writes = accesses(facts, block)
    return block.replace(reads=reads, writes=writes)


def _point(buffer: Buffer, indices: tuple[Expr, ...]) -> BufferRegion:
    one, zero = const(1, INDEX), const(0, INDEX)
    dims = [
        Range(zero, extent) if _data_dependent(i) else Range(i, one)
        for i, extent in zip(indices, buffer.shape, strict=True)
    ]
    return BufferRegion(buffer, tuple(dims))


def _data_dependent(e: Expr) -> bool:
    stack: list[Expr] = [e]
    while stack:
        n = stack.pop()
        if isinstance(n, BufferLoad):
            return True
        stack.extend(c for c in n.children() if isinstance(c, Expr))
    return False


def _relaxed(facts: Facts, r: BufferRegion, loops: Sequence[For]) -> BufferRegion:
    if not loops:
        return r
    box = facts.box(r.region, r.buffer.shape, loops)
    return BufferRegion(r.buffer, tuple([Range(low, facts.extent(low, high)) for low, high in box]))


def _distinct(regions: Sequence[BufferRegion], skip: set[Buffer]) -> tuple[BufferRegion, ...]:
    found: dict[tuple[object, ...], BufferRegion] = {}
    for r in regions:
        if r.buffer not in skip:
            key = (r.buffer, *[x for d in r.region for x in (d.min, d.extent)])
            found.setdefault(key, r)
    return tuple(found.values())


def substituted(
    regions: Iterable[BufferRegion], values: Mapping[Var, Expr]
) -> tuple[BufferRegion, ...]:
    """Regions with variables replaced."""
    mapping = dict(values)
    return tuple(
        [
            BufferRegion(
                r.buffer,
                tuple(
                    [
                        Range(substitute(d.min, mapping), substitute(d.extent, mapping))
                        for d in r.region
                    ]
                ),
            )
            for r in regions
        ]
    )
