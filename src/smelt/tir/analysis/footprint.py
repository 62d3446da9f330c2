"""What memory a program touches: per loop and buffer, in one iteration of the loop.

    print(footprint(func))
    footprint(func)["i_0"].bytes          # in one iteration of the loop i_0

Counts are those of the iteration that touches most. Each is an upper bound, and says whether it is
exact: for affine accesses whose guards are affine too, it nearly always is. Symbolic sizes stay in
the counts as expressions.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from smelt.arith import Analyzer
from smelt.arith.affine.sums import merge_digits
from smelt.arith.affine.values import Known, Progression
from smelt.ir import dtype as dt
from smelt.ir.build import ceildiv, logical_not, maximum, product, value_of
from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import EQ, INDEX, Expr, Var, const
from smelt.ir.node import Node
from smelt.ir.walk import free_vars, substitute
from smelt.tir.facts import Box, conjuncts, least
from smelt.tir.nodes import Buffer, For, PrimFunc, Range, While
from smelt.tir.printer import listing

from .accesses import Access, Accesses, Loop, Work
from .iteration_count import Elements, Guards, IterationCounter
from .reroll import merged, rerolled
from .table import table

_ZERO, _ONE = const(0, INDEX), const(1, INDEX)
_Key = tuple[tuple[For, ...], tuple[Expr | None, ...]]
_T = TypeVar("_T", Access, Work)
_Union = tuple[tuple[Expr, ...], Expr, bool]
_BRANCHES = 4  # more branches than this around one another are taken as if both sides ran
_PAIRWISE = 16  # more boxes than this are not compared with each other


@dataclass(frozen=True, slots=True)
class Touched:
    """What one iteration of a loop does to one buffer.

    box            extents of the smallest box that holds all elements touched
    elements       how many different elements are touched, at most
    exact          whether it is exactly that many
    reads, writes  elements loaded and stored, each time counted, at most
    exact_counts   whether it is exactly that many
    opaque         a call that is not understood has the buffer: all of it counts as touched, and
                   loads and stores of the call are not counted
    name           what the function's text calls the buffer
    """

    buffer: Buffer
    name: str
    box: tuple[Expr, ...]
    elements: Expr
    exact: bool
    reads: Expr
    writes: Expr
    exact_counts: bool
    opaque: bool = False

    @property
    def bytes(self) -> Expr:
        """The different bytes touched."""
        bits = dt.bits(self.buffer.type)
        size = self.elements * bits
        return Analyzer().simplify(ceildiv(size, 8) if bits % 8 else self.elements * (bits // 8))

    @property
    def accesses(self) -> Expr:
        """Loads and stores together."""
        return self.reads + self.writes

    @property
    def reuse(self) -> float | None:
        """Accesses per element touched; None where that depends on sizes or is not known."""
        accesses, elements = value_of(self.accesses), value_of(self.elements)
        if self.opaque or accesses is None or not elements:
            return None
        return accesses / elements


@dataclass(frozen=True, slots=True)
class Level:
    """One iteration of a loop; or, with no loop, one run of the function.

    source        the loop
    name          as the function's text has it; "" for the function
    kind          one of LOOP_KINDS, "while", or "function"
    depth         how many loops are around it, the function counting as one
    extent        iterations each time the loop is reached, at most
    trips         iterations in one run of the function, at most
    exact_trips   whether it is exactly that many
    touches       in the order of the parameters, then of the allocations
    operations    arithmetic on elements, at most: a multiply-add counts two
    """

    source: For | While | None
    name: str
    kind: str
    depth: int
    extent: Expr
    trips: Expr
    exact_trips: bool
    touches: tuple[Touched, ...]
    operations: Expr
    exact_operations: bool

    @property
    def bytes(self) -> Expr:
        """The different bytes of memory touched. What is kept in registers is left out."""
        parts = [t.bytes for t in self.touches if t.buffer.scope == "global"]
        return Analyzer().simplify(sum(parts, _ZERO))

    @property
    def exact(self) -> bool:
        """Whether `bytes` is exact."""
        return all(t.exact for t in self.touches if t.buffer.scope == "global")

    @property
    def intensity(self) -> float | None:
        """Operations per byte touched; None where that depends on sizes."""
        work, size = value_of(self.operations), value_of(self.bytes)
        return None if work is None or not size else work / size

    def __getitem__(self, buffer: str | Buffer) -> Touched:
        """What happens to a buffer, given as such or by its name in the function's text."""
        for t in self.touches:
            if t.buffer is buffer or t.name == buffer:
                return t
        names = ", ".join([t.name for t in self.touches]) or "none"
        wanted = buffer.name if isinstance(buffer, Buffer) else buffer
        raise KeyError(
            f"{self.name or 'the function'} touches no buffer {wanted!r}; it touches: {names}"
        )


@dataclass(frozen=True, slots=True)
class Footprint:
    """Levels in the order of the text; the first is the whole function.

    names  what the function's text calls variables and buffers
    """

    func: PrimFunc
    levels: tuple[Level, ...]
    names: Mapping[Node, str]

    @property
    def total(self) -> Level:
        """One run of the function."""
        return self.levels[0]

    def __getitem__(self, loop: str | For | While) -> Level:
        """The level of a loop, given as such or by its name in the function's text."""
        for level in self.levels[1:]:
            if level.source is loop or level.name == loop:
                return level
        names = ", ".join([level.name for level in self.levels[1:]]) or "none"
        wanted = loop if isinstance(loop, str) else "of that identity"
        raise KeyError(f"{self.func.name} has no loop {wanted!r}; it has: {names}")

    def __str__(self) -> str:
        return table(self)


def footprint(func: PrimFunc) -> Footprint:
    """What a tensor program touches, in block form or lowered."""
    if not isinstance(func, PrimFunc):
        raise TypeMismatch(
            f"footprint takes one tensor program (a PrimFunc), got {type(func).__name__}"
        )
    return _Measure(func).result()


# -------------------------------------------------------------------------------- measuring


@dataclass(slots=True, eq=False)
class _Part:
    """The elements that equal accesses touch: their box, how many of it, and which.

    pattern  None: it may be every element of the box, and is where the number is exact
    """

    box: Box
    elements: Expr
    exact: bool
    pattern: tuple[object, ...] | None


class _Measure:
    """Measures one function, and holds what its levels have in common.

    That depends on few of the loops, and is the same where these are.
    """

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.program = Accesses(func)
        self.facts = self.program.facts
        self.accesses = rerolled(self.facts, self.program.accesses)
        self.work = merged(self.program.work)
        self.names = listing(func).names
        buffers = dict.fromkeys([*func.buffers, *[a.buffer for a in self.accesses]])
        self.order = {b: k for k, b in enumerate(buffers)}
        self.witness = _witness(self.program)
        self.lanes = tuple(self.program.lanes.values())
        self.loops: dict[_Key, tuple[For, ...]] = {}
        self.progressions: dict[Known, list[Progression] | None] = {}
        self.guards: dict[object, Guards] = {}
        self.parts: dict[object, _Part] = {}
        self.unions: dict[object, _Union] = {}

    def used(self, nest: tuple[For, ...], exprs: tuple[Expr | None, ...]) -> tuple[For, ...]:
        """The loops that expressions depend on, those of the nest first."""
        key = nest, exprs
        if key not in self.loops:
            names = {v for e in exprs if e is not None for v in free_vars(e)}
            for x in reversed(nest):  # an extent mentions loops around it
                names |= free_vars(x.extent) if x.var in names else set()
            around = dict.fromkeys((*nest, *self.lanes))
            self.loops[key] = tuple([x for x in around if x.var in names])
        return self.loops[key]

    def counter(self, outer: tuple[For, ...], inner: tuple[For, ...]) -> IterationCounter:
        """Counts iterations of inner loops while outer ones stand still."""
        return IterationCounter(self.facts, outer, inner, self.witness, self.progressions)

    def result(self) -> Footprint:
        levels = [self.level(None, ())]
        levels += [self.level(loop, loop.nest) for loop in self.program.loops]
        return Footprint(self.func, tuple(levels), self.names)

    def level(self, loop: Loop | None, outer: tuple[For, ...]) -> Level:
        place = _Iteration(self, outer)
        touches = place.touches([a for a in self.accesses if place.holds(a.nest)])
        work, exact = place.operations([w for w in self.work if place.holds(w.nest)])
        touches.sort(key=lambda t: self.order[t.buffer])
        if loop is None:
            kind, name, source, extent, trips, known = "function", "", None, _ONE, _ONE, True
        else:
            source, extent = loop.source, loop.nest[-1].extent
            kind = source.kind if isinstance(source, For) else "while"
            name = self.names[source.var] if isinstance(source, For) else "while"
            counter = self.counter(self.lanes, outer)
            trips, known = counter.executions(counter.guards(loop.guards))
        return Level(
            source, name, kind, len(outer), extent, trips, known, tuple(touches), work, exact
        )


def _witness(program: Accesses) -> dict[Var, Expr]:
    """The iteration of every loop in which most is likely to happen.

    Where a reduction begins it is the first one, which runs the init; so it is for symbolic sizes,
    of which only the first element is certain to be there. Elsewhere tiles at both ends of an array
    may be cut off: the middle.
    """
    loops = {x.var: x for loop in program.loops for x in loop.nest}
    lanes = {x.var: x for x in program.lanes.values()}
    first: set[Var] = set()
    for condition in {g for a in program.accesses for g in a.guards}:
        for c in conjuncts(condition):
            used = free_vars(c)
            if isinstance(c, EQ) or used - loops.keys() - lanes.keys():
                first |= used
    return dict.fromkeys(lanes, _ZERO) | {
        v: _ZERO if v in first else const(((value_of(x.extent) or 1) - 1) // 2, INDEX)
        for v, x in loops.items()
    }


class _Iteration:
    """One iteration of the innermost of some loops: everything inside it runs once through."""

    def __init__(self, measure: _Measure, outer: tuple[For, ...]) -> None:
        self.measure, self.facts, self.outer = measure, measure.facts, outer
        self.counters: dict[tuple[For, ...], IterationCounter] = {}
        self.counts: dict[_Key, tuple[Expr, bool]] = {}

    def holds(self, nest: tuple[For, ...]) -> bool:
        """Whether a statement in these loops stands inside."""
        return nest[: len(self.outer)] == self.outer

    def counter(self, nest: tuple[For, ...]) -> IterationCounter:
        inner = nest[len(self.outer) :]
        if inner not in self.counters:
            # What is not a vector below a condition on lanes runs if it holds for any of them.
            still = (*self.outer, *[x for x in self.measure.lanes if x not in inner])
            self.counters[inner] = self.measure.counter(still, inner)
        return self.counters[inner]

    def guards(self, nest: tuple[For, ...], conditions: tuple[Expr, ...]) -> Guards:
        known, key = self.measure.guards, self.key(nest, conditions)
        if key not in known:
            known[key] = self.counter(nest).guards(conditions)
        return known[key]

    def key(self, nest: tuple[For, ...], exprs: tuple[Expr | None, ...]) -> tuple[object, ...]:
        """What tells expressions here from those of other levels: the loops of theirs inside."""
        loops, inner = self.measure.used(nest, exprs), set(nest[len(self.outer) :])
        return exprs, loops, tuple([x in inner for x in loops])

    def executions(self, at: Access | Work) -> tuple[Expr, bool]:
        """How often the statement runs, and whether that is exact."""
        key = at.nest, at.guards
        if key not in self.counts:
            self.counts[key] = self.counter(at.nest).executions(self.guards(*key))
        return self.counts[key]

    def sides(self, items: Sequence[_T], depth: int) -> tuple[list[_T], list[_T]] | None:
        """What may run in one iteration, where a branch on outer variables splits it in two."""
        seen = (
            dict.fromkeys(c for x in items for c in self.guards(x.nest, x.guards).outer)
            if depth
            else {}
        )
        for c in seen:
            other = self.facts.simplify(logical_not(c))
            if other in seen:
                outer = [self.guards(x.nest, x.guards).outer for x in items]
                return (
                    [x for x, cs in zip(items, outer, strict=True) if other not in cs],
                    [x for x, cs in zip(items, outer, strict=True) if c not in cs],
                )
        return None

    def operations(self, work: Sequence[Work], depth: int = _BRANCHES) -> tuple[Expr, bool]:
        """The arithmetic of some statements."""
        sides = self.sides(work, depth)
        if sides is not None:
            return self.larger(*[self.operations(side, depth - 1) for side in sides])
        found = [self.executions(w) for w in work]
        counts = [n * w.operations for w, (n, _) in zip(work, found, strict=True)]
        return self.facts.simplify(sum(counts, _ZERO)), all(known for _, known in found)

    def larger(self, a: tuple[Expr, bool], b: tuple[Expr, bool]) -> tuple[Expr, bool]:
        """The larger of two counts; exact where the larger one certainly is so."""
        if self.facts.prove(a[0] >= b[0]):
            return a
        return b if self.facts.prove(b[0] >= a[0]) else (maximum(a[0], b[0]), False)

    def touches(self, accesses: Sequence[Access]) -> list[Touched]:
        """The accesses by buffer."""
        grouped: dict[Buffer, list[Access]] = {}
        for a in accesses:
            grouped.setdefault(a.buffer, []).append(a)
        return [self.touch(b, items) for b, items in grouped.items()]

    def touch(self, buffer: Buffer, accesses: Sequence[Access], depth: int = _BRANCHES) -> Touched:
        sides = self.sides(accesses, depth)
        if sides is not None:
            return self.either(*[self.touch(buffer, side, depth - 1) for side in sides])
        counts, counted = {False: _ZERO, True: _ZERO}, True
        parts: dict[object, _Part] = {}
        for a in accesses:
            if not a.whole:
                count, known = self.executions(a)
                counts[a.write], counted = counts[a.write] + count * a.times, counted and known
            part = self.part(a)
            key = (part.pattern, *[e for ends in part.box for e in ends])
            if key not in parts or part.exact:
                parts[key] = part
        together = buffer, *parts.values()
        if together not in self.measure.unions:
            self.measure.unions[together] = self.union(buffer, list(parts.values()))
        box, elements, exact = self.measure.unions[together]
        opaque = any(a.whole for a in accesses)
        reads, writes = (self.facts.simplify(n) for n in counts.values())
        exact, counted = exact and not opaque, counted and not opaque
        name = self.measure.names[buffer]
        return Touched(buffer, name, box, elements, exact, reads, writes, counted, opaque)

    def either(self, a: Touched, b: Touched) -> Touched:
        """What the one or the other of two branches touches, whichever is more."""
        box = tuple(
            [self.larger((x, True), (y, True))[0] for x, y in zip(a.box, b.box, strict=True)]
        )
        elements, exact = self.larger((a.elements, a.exact), (b.elements, b.exact))
        reads, r = self.larger((a.reads, a.exact_counts), (b.reads, b.exact_counts))
        writes, w = self.larger((a.writes, a.exact_counts), (b.writes, b.exact_counts))
        return Touched(
            a.buffer, a.name, box, elements, exact, reads, writes, r and w, a.opaque or b.opaque
        )

    # ------------------------------------------------------------------------------ elements

    def part(self, a: Access) -> _Part:
        """What equal accesses touch."""
        key = a.buffer, self.key((*a.nest, *a.copies), (*a.indices, *a.guards))
        if key not in self.measure.parts:
            self.measure.parts[key] = self.measured(a)
        return self.measure.parts[key]

    def measured(self, a: Access) -> _Part:
        """The same, not looked up."""
        shape = a.buffer.shape
        inner = (*a.nest[len(self.outer) :], *a.copies)
        ranges = [
            Range(_ZERO, size) if i is None else Range(i, _ONE)
            for i, size in zip(a.indices, shape, strict=True)
        ]
        box = self.facts.box(ranges, shape, inner)
        volume = self.facts.simplify(product(self.extents(box, shape)))
        found = self.elements(a)
        if found is None:
            return _Part(box, volume, False, None)
        elements = least(found.count, volume, self.facts.prove)
        pattern = None if self.facts.equal(elements, volume) else found.pattern
        return _Part(box, elements, found.exact, pattern)

    def extents(self, box: Box, shape: Sequence[Expr]) -> list[Expr]:
        """The sides of a box: the longest that outer loops give it, no longer than the buffer."""
        out = []
        for (low, high), size in zip(box, shape, strict=True):
            side = self.facts.extent(low, high)
            ends = self.facts.relax(side, self.outer) or (size, size)
            longest, whole = self.facts.simplify(ends[1]), self.facts.simplify(size)
            out.append(least(longest, whole, self.facts.prove))
        return out

    def elements(self, a: Access) -> Elements | None:
        """The elements that an access touches, from the factors of its indices."""
        if any(i is None for i in a.indices):
            return None
        indices = merge_digits([i for i in a.indices if i is not None], self.facts.simplify)
        around = (*a.nest, *a.copies)
        return self.counter(around).elements(indices, self.guards(around, a.guards))

    def union(self, buffer: Buffer, parts: Sequence[_Part]) -> _Union:
        """The box around all parts, how many elements they have together, whether that is exact."""
        if not parts:  # conditions that exclude each other: nothing is touched
            return tuple([_ZERO] * len(buffer.shape)), _ZERO, True
        box = parts[0].box
        for p in parts[1:]:
            box = self.facts.union(box, p.box)
        sides = tuple(self.extents(box, buffer.shape))
        if len(parts) == 1:
            return sides, parts[0].elements, parts[0].exact
        for p in parts:
            if p.exact and p.pattern is None and self.same(p.box, box):
                return sides, p.elements, True
        total = self.facts.simplify(sum([p.elements for p in parts], _ZERO))
        volume = self.facts.simplify(product(sides))
        exact = all(p.exact for p in parts) and self.disjoint(parts)
        return sides, total if exact else least(total, volume, self.facts.prove), exact

    def same(self, a: Box, b: Box) -> bool:
        equal = self.facts.equal
        return all(equal(a0, b0) and equal(a1, b1) for (a0, a1), (b0, b1) in zip(a, b, strict=True))

    def disjoint(self, parts: Sequence[_Part]) -> bool:
        """Whether no two boxes share an element in the iteration that is the witness."""
        if len(parts) > _PAIRWISE:
            return False
        prove, at = self.facts.prove, self.measure.witness
        boxes = [
            [(substitute(low, at), substitute(high, at)) for low, high in p.box] for p in parts
        ]
        return all(
            any(prove(a1 < b0) or prove(b1 < a0) for (a0, a1), (b0, b1) in zip(a, b, strict=True))
            for a, b in itertools.combinations(boxes, 2)
        )
