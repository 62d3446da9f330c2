"""Loop partitioning: the middle of a tiled loop runs without the conditions of its edges.

Where all conditions inside hold for low <= v < high, the body becomes

    if low <= v and v < high: body without the conditions
    else if v < low:          body (v is a constant where there is one such iteration)
    else:                     body (likewise)

A branch a tile costs nothing, and the loop stays one, so it can still be parallel. Conditions in a
loop with the annotation NO_PARTITION do not count: they are little of what the loops around it do.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import cache
from typing import NamedTuple

from smelt.arith import Analyzer
from smelt.ir import dtype as dt
from smelt.ir.build import all_of, equal, logical_not, maximum, minimum, value_of
from smelt.ir.expr import GE, GT, INDEX, LE, LT, And, Call, Compare, Expr, IntImm, Or, Var, const
from smelt.ir.walk import free_vars, joined
from smelt.tir.nodes import (
    Allocate,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Seq,
    Stmt,
    seq,
    sub_statements,
    walk,
)
from smelt.tir.rewrite import loads, map_stmts, renamed
from smelt.tir.script_ops import NO_PARTITION, expressions

from .accesses import is_self
from .guards import hoist_guards
from .ranges import RangeRewriter, analyzer_for
from .simplify import Simplify
from .tails import Guard, Ragged, moved, ragged

_TILE = ("vectorized", "unrolled")
_HEIGHTS = 4
"""Heights of the last tile: parts of a whole one, so that little is computed twice."""
_EDGES = 4
"""An edge of at most this many iterations is written out, one copy an iteration."""


def partition_loops(func: PrimFunc) -> PrimFunc:
    """Partition every tile loop (one that holds vectorised or unrolled loops) by its conditions."""
    return func.replace(body=_Partition(analyzer_for(func)).stmt(func.body))


def split_interior(func: PrimFunc) -> PrimFunc:
    """Branches in the innermost loop with registers of its own: where all conditions on it hold, a
    copy of the work without them, and another one where all others hold as well. At borders, sums
    side by side go together as far as all of them have something to add, then each by itself."""
    func = func.replace(body=_Interior(analyzer_for(func)).stmt(func.body))
    return hoist_guards(func.replace(body=_Together(analyzer_for(func)).stmt(func.body)))


Ends = tuple[Expr | None, Expr | None]
"""The first value, and the one behind the last; None: no end on that side."""


class _Condition(NamedTuple):
    """A comparison, the variables in it, and the loops around it inside a statement."""

    e: Compare
    variables: Set[Var]
    loops: tuple[For, ...]


class _Conditions(RangeRewriter):
    """Knows the comparisons inside of statements."""

    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__(analyzer)
        self.conditions = cache(self._conditions)

    def _conditions(self, s: Stmt) -> list[_Condition]:
        """All comparisons of branches and guarded values; remembered for the loops around."""
        if isinstance(s, For) and NO_PARTITION in s.annotations:
            return []
        roots = [s.condition] if isinstance(s, IfThenElse) else []
        choices = [n for n in expressions(s) if isinstance(n, Call) and n.op == "if_then_else"]
        found = [
            _Condition(x, free_vars(x), ())
            for root in [*roots, *[n.args[0] for n in choices]]
            for x in joined(root, And, Or)
            if isinstance(x, LT | LE | GT | GE) and dt.is_int(x.a.dtype) and not loads(x)
        ]
        for part in sub_statements(s):
            found += self.conditions(part)
        return [c._replace(loops=(s, *c.loops)) for c in found] if isinstance(s, For) else found

    def spans(self, worst: Sequence[Expr | None], v: Var) -> list[Ends | None]:
        """From where and up to where conditions on a variable hold; None: not known."""
        return [None if w is None else self.analyzer.solve_bounds(w, v) for w in worst]

    def part(self, body: Stmt, condition: Expr) -> Stmt:
        """The body where a condition on the loop's variable holds."""
        with self.analyzer.assume(condition):
            return self.stmt(Simplify(self.analyzer).stmt(body))

    def iteration(self, body: Stmt, v: Var, value: Expr) -> Stmt:
        """The body for one value of the loop's variable."""
        copy = renamed(LetStmt(v, self.analyzer.simplify(value), body))
        return self.stmt(Simplify(self.analyzer).stmt(copy))


class _Interior(_Conditions):
    """Branches in the innermost loops whose body has registers of its own."""

    def loop(self, s: For) -> Stmt:
        new = super().loop(s)
        if new is not s or s.kind != "serial" or not _has_registers(s.body):
            return new
        found = [c for c in self.conditions(s.body) if s.var in c.variables]
        worst = [_worst(c, self.analyzer) for c in found]
        inside = all_of([w for w in worst if w is not None])
        if not found or not all(w is not None for w in worst):
            return s
        others = [c for c in self.conditions(s.body) if s.var not in c.variables]
        around = [_worst(c, self.analyzer) for c in others]
        middle = self.part(s.body, inside)
        if around and all(w is not None for w in around):
            both = all_of([w for w in around if w is not None])
            with self.analyzer.assume(inside):
                middle = IfThenElse(both, self.part(renamed(s.body), both), middle)
        return s.replace(body=IfThenElse(inside, middle, self.outside(s, found, inside)))

    def outside(self, s: For, found: Sequence[_Condition], inside: Expr) -> Stmt:
        """What is left of a loop: where one iteration is on either side, a copy for each."""
        ends = self.spans([_worst(c, self.analyzer) for c in found], s.var)
        start, count = value_of(s.min), value_of(s.extent)
        least, most = [[value_of(x) for e in ends if e is not None and (x := e[n]) is not None]
                       for n in (0, 1)]  # fmt: skip
        if start is not None and count is not None and None not in [*ends, *least, *most]:
            low = max([start, *[n for n in least if n is not None]])
            high = min([start + count, *[n for n in most if n is not None]])
            sides = low - start, start + count - high
            if max(sides) == 1 and low < high:
                first, last = (self.iteration(s.body, s.var, s.min + n) for n in (0, count - 1))
                return IfThenElse(s.var < low, first, last) if all(sides) else (
                    first if sides[0] else last
                )  # fmt: skip
        return self.part(renamed(s.body), logical_not(inside))


class _Together(_Conditions):
    """A loop with sums side by side (unrolled), of which conditions leave out some in some turns:
    the turns that have them all, and before and after these, a loop for each of the sums."""

    def loop(self, s: For) -> Stmt:
        own = [c for c in self.conditions(s.body) if s.var in c.variables]
        inner = [x for c in own for x in c.loops if x.var in c.variables and value_of(x.extent)]
        sides = {x.var: x for x in inner if x.kind == "unrolled"}
        if s.kind != "serial" or len(sides) != 1 or not _apart(s, *sides):
            return super().loop(s)
        worst = [_worst(c, self.analyzer) for c in own]
        every = all_of([w for w in worst if w is not None])
        ends = self.spans(worst, s.var)
        if None in ends:
            return super().loop(s)
        simple, low, high = self.analyzer.simplify, s.min, s.min + s.extent
        for least, most in [e for e in ends if e is not None]:
            low = low if least is None else maximum(low, least)
            high = high if most is None else minimum(high, most)
        low = simple(minimum(low, s.min + s.extent))
        high = simple(maximum(low, high))
        (side,) = sides.values()
        whole = s.replace(min=low, extent=simple(high - low))
        parts = [
            *self.each(s.replace(extent=simple(low - s.min)), side),
            whole.replace(body=self.part(whole.body, every)),
            *self.each(s.replace(min=high, extent=simple(s.min + s.extent - high)), side),
        ]
        return Simplify(self.analyzer).stmt(seq(*map(renamed, parts)))

    def each(self, s: For, side: For) -> list[Stmt]:
        """A loop for each of some sums side by side by itself."""

        def one(n: int) -> Stmt:
            return map_stmts(
                s, For, lambda x: LetStmt(x.var, side.min + n, x.body) if x.var is side.var else x
            )

        return [one(n) for n in range(value_of(side.extent) or 0)]


def _apart(s: For, side: Var) -> bool:
    """Whether each step of an unrolled loop inside of another has sums of its own."""
    parts = [*walk(s)]
    stores = [x for x in parts if isinstance(x, BufferStore)]
    sums = {x.buffer for x in stores}
    read = [e for x in parts if isinstance(x, IfThenElse) for e in loads(x.condition)]
    return (
        all(isinstance(x, For | IfThenElse | Seq | BufferStore) for x in parts)
        and all(any(i is side for i in x.indices) for x in stores)
        and all(is_self(e, x) for x in stores for e in loads(x.value) if e.buffer in sums)
        and not any(e.buffer in sums for e in read)
    )


class _Partition(_Conditions):
    def loop(self, s: For) -> Stmt:
        if NO_PARTITION in s.annotations:
            others = {k: v for k, v in s.annotations.items() if k != NO_PARTITION}
            return super().loop(s.replace(annotations=others))
        tiled = self.tiled(s)
        if tiled is not None:
            return tiled
        found = None if s.kind in (*_TILE, "thread_binding") else self.middle(s)
        if found is None:
            return super().loop(s)
        low, high = found
        start, end = s.min, self.analyzer.simplify(s.min + s.extent)
        low = self.analyzer.simplify(maximum(low, start))
        high = self.analyzer.simplify(minimum(high, end))
        if self.analyzer.can_prove(low >= high):
            return super().loop(s)
        v = s.var
        inside = all_of(v >= low, v < high)
        middle = self.part(s.body, inside)
        before = self.edge(s.body, v, start, low, all_of(v < low))
        after = self.edge(s.body, v, high, end, all_of(v >= high))
        rest = before or after
        if before is not None and after is not None:
            rest = IfThenElse(v < low, before, after)
        body: Stmt = middle if rest is None else IfThenElse(inside, middle, rest)
        return s.replace(body=body)

    def tiled(self, s: For) -> Stmt | None:
        """A loop over tiles of an unknown number of places, the last tile complete: see `tails`."""
        known = [Guard(c.e, c.loops) for c in self.conditions(s.body) if s.var in c.variables]
        tile = ragged(s, known, self.analyzer) if known else None
        if tile is None:
            return None
        v, size, places = tile
        last = self.analyzer.simplify((places - 1) // size)
        with self.analyzer.assume(places > size):
            whole = self.stmt(self.simplified(s.replace(extent=last)))
            self.analyzer.bind(v, last, 1)
            end = self.ends(s.body, tile)
        self.analyzer.bind(v, s.min, s.extent)
        if end is None or not isinstance(whole, For):
            return None
        with self.analyzer.assume(places <= size):
            few = self.few(s.body, tile)
        return s.replace(body=IfThenElse(v < last, whole.body, IfThenElse(places > size, end, few)))

    def ends(self, body: Stmt, tile: Ragged) -> Stmt | None:
        """The last tile, as high as it has to be, in steps; None where it cannot begin earlier."""
        result: Stmt | None = None
        left = (tile.places - 1) % tile.size
        for n in range(_HEIGHTS, 0, -1):
            height = -(-tile.size * n // _HEIGHTS)
            found = moved(renamed(body), tile, height, self.analyzer)
            if found is None:
                return None
            exact = self.stmt(self.simplified(found))
            result = exact if result is None else IfThenElse(left < height, exact, result)
        return result

    def few(self, body: Stmt, tile: Ragged) -> Stmt:
        """The only tile; where it is nearly complete its number of places is known."""
        v, size, places = tile
        start = const(0, INDEX)
        result = self.iteration(body, v, start)
        for n in range(max(size // 2, size - _EDGES) + 1, size + 1):
            with self.analyzer.assume(equal(places, n)):
                exact = self.iteration(body, v, start)
            result = IfThenElse(equal(places, n), exact, result)
        return result

    def simplified(self, s: Stmt) -> Stmt:
        return Simplify(self.analyzer).stmt(s)

    def middle(self, s: For) -> tuple[Expr, Expr] | None:
        """Where all conditions inside hold whatever the inner loops' variables are, or None."""
        low: Expr = s.min
        high: Expr = s.min + s.extent
        useful = False
        found = [c for c in self.conditions(s.body) if s.var in c.variables]
        if not found or not any(isinstance(x, For) and x.kind in _TILE for x in walk(s.body)):
            return None
        ends = self.spans([_worst(c, self.analyzer) for c in found], s.var)
        for a, b in [e for e in ends if e is not None]:
            if a is not None and s.var not in free_vars(a):
                low, useful = maximum(low, a), True
            if b is not None and s.var not in free_vars(b):
                high, useful = minimum(high, b), True
        return (self.analyzer.simplify(low), self.analyzer.simplify(high)) if useful else None

    def edge(self, body: Stmt, v: Var, low: Expr, high: Expr, condition: Expr) -> Stmt | None:
        """The iterations of one edge: a constant where there is one, a copy each of a few."""
        size = self.analyzer.simplify(high - low)
        if self.analyzer.can_prove(size <= 0):
            return None
        upper = self.analyzer.bounds(size)[1]
        if isinstance(size, IntImm) and size.value <= _EDGES and upper is not None:
            iterations = [self.iteration(body, v, low + i) for i in range(size.value)]
            result = iterations[-1]
            for i in range(size.value - 2, -1, -1):
                result = IfThenElse(v <= self.analyzer.simplify(low + i), iterations[i], result)
            return result
        if upper == 1:
            return self.iteration(body, v, low)
        return self.part(renamed(body), condition)


def inside(condition: Expr, loops: Sequence[For], analyzer: Analyzer) -> Expr | None:
    """When comparisons hold in all steps of some loops; None where that is not known."""
    parts = [*joined(condition, And)]
    if not all(isinstance(p, LT | LE | GT | GE) for p in parts):
        return None
    found = [_worst(_Condition(p, free_vars(p), tuple(loops)), analyzer)
             for p in parts if isinstance(p, Compare)]  # fmt: skip
    known = [w for w in found if w is not None]
    return all_of(known) if len(known) == len(parts) else None


def _has_registers(s: Stmt) -> bool:
    return any(isinstance(x, Allocate) for x in walk(s))


def _worst(condition: _Condition, analyzer: Analyzer) -> Expr | None:
    """A comparison as `difference >= 0` for the worst values of the inner variables."""
    e = condition.e
    small, large = (e.a, e.b) if isinstance(e, LT | LE) else (e.b, e.a)
    difference = large - small
    if isinstance(e, LT | GT):
        difference = difference - const(1, INDEX)
    inner = {x.var: (x.min, x.extent) for x in condition.loops if x.var in condition.variables}
    bounds = analyzer.interval(analyzer.simplify(difference), inner)
    if bounds is None:
        return None
    return bounds[0] >= 0
