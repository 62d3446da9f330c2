"""Whether two accesses in different iterations of a loop can be shown to touch different elements.

Two accesses touch one element only where all their indices agree. An index is a sum of terms; where
each term weighs more than all lighter ones together can, equal sums have equal terms, so that what
the terms say of the loop's variable is equal too. Where this gives the variable itself, different
iterations touch different elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from smelt.arith import Analyzer
from smelt.ir import dtype as dt
from smelt.ir import expr
from smelt.ir.build import is_const, logical_not
from smelt.ir.walk import free_vars, substitute

from .parallel_accesses import Access, Loop

_Terms = tuple[dict[expr.Expr, int], int]
_Span = tuple[int, int]


class Known:
    """The values that variables and sums can have where an access happens.

    spans   smallest and largest value of a variable
    limits  sums of terms, and what they are at most
    iterations   of loops that begin at zero: numbers that their variables stay below
    """

    def __init__(self, spans: dict[expr.Var, _Span]) -> None:
        """Begin with the ranges of loops."""
        self.spans = spans
        self.limits: list[tuple[dict[expr.Expr, int], int]] = []
        self.iterations: dict[expr.Expr, list[expr.Expr]] = {}

    def span(self, e: expr.Expr, proof: Disjointness) -> _Span | None:
        """The smallest and the largest value of a term."""
        match e:
            case expr.Var():
                return self.spans.get(e)
            case expr.FloorMod(_, expr.IntImm(_, n)) if n > 0:
                return 0, n - 1
            case expr.FloorDiv(a, expr.IntImm(_, n)) if n > 0:
                inner = self.total(proof.form(a), proof)
                return None if inner is None else (inner[0] // n, inner[1] // n)
        return None

    def total(self, form: _Terms, proof: Disjointness) -> _Span | None:
        """The smallest and the largest value of a sum."""
        terms = form[0]
        low = high = form[1]
        for limit, most in self.limits:
            factor = _multiple(terms, limit)
            inner = self.plain(limit, proof) if factor else None
            if inner is not None and inner[1] > most:
                terms = {t: c - factor * limit.get(t, 0) for t, c in terms.items()}
                low += factor * inner[0]
                high += factor * most
        rest = self.plain(terms, proof)
        return None if rest is None else (low + rest[0], high + rest[1])

    def plain(self, terms: Mapping[expr.Expr, int], proof: Disjointness) -> _Span | None:
        """The same from the ranges of the terms alone."""
        low = high = 0
        for t, c in terms.items():
            own = self.span(t, proof) if c else (0, 0)
            if own is None:
                return None
            low += min(c * own[0], c * own[1])
            high += max(c * own[0], c * own[1])
        return low, high

    def learn(self, condition: expr.Expr, proof: Disjointness) -> None:
        """What a condition that holds says; other kinds of conditions say nothing."""
        match condition:
            case expr.And(a, b):
                self.learn(a, proof)
                self.learn(b, proof)
            case expr.Not(expr.And(a, b)):
                self.learn(expr.Or(logical_not(a), logical_not(b)), proof)
            case expr.Not(expr.Or(a, b)):
                self.learn(expr.And(logical_not(a), logical_not(b)), proof)
            case expr.Or(a, b):
                possible = [c for c in (a, b) if not self.excludes(c, proof)]
                if len(possible) == 1:
                    self.learn(possible[0], proof)
            case expr.Call(op="likely", args=(c,)):
                self.learn(c, proof)
            case expr.EQ(a, b) if dt.is_int(a.dtype):
                self.at_most(a, b, 0, proof)
                self.at_most(b, a, 0, proof)
            case expr.LT(a, b) | expr.GT(b, a) if dt.is_int(a.dtype):
                self.at_most(a, b, -1, proof)
            case expr.LE(a, b) | expr.GE(b, a) if dt.is_int(a.dtype):
                self.at_most(a, b, 0, proof)

    def at_most(self, a: expr.Expr, b: expr.Expr, more: int, proof: Disjointness) -> None:
        """a <= b + more."""
        terms, rest = proof.form(a - b)
        most = more - rest
        if len(terms) > 1:
            self.limits.append((terms, most))
            return
        for t, c in terms.items():
            own = self.spans.get(t) if isinstance(t, expr.Var) else None
            if isinstance(t, expr.Var) and own is not None:
                if c > 0:
                    self.spans[t] = own[0], min(own[1], most // c)
                else:
                    self.spans[t] = max(own[0], -(most // -c)), own[1]

    def excludes(self, condition: expr.Expr, proof: Disjointness) -> bool:
        """Whether a comparison certainly does not hold."""
        trial = Known(dict(self.spans))
        trial.learn(condition, proof)
        return any(low > high for low, high in trial.spans.values())


class Disjointness:
    """Proofs for one program; what is known of its variables is looked up once."""

    def __init__(self, sizes: Iterable[expr.Var]) -> None:
        """sizes: symbolic ones, at least 1."""
        self.sizes = tuple(sizes)
        self.forms: dict[expr.Expr, _Terms] = {}
        self.spans: dict[expr.Var, _Span | None] = {}
        self.known: dict[tuple[object, object], Known] = {}
        self.lazy: Analyzer | None = None

    @property
    def analyzer(self) -> Analyzer:
        """The slow way, made where the fast one does not do."""
        if self.lazy is None:
            self.lazy = Analyzer()
            for v in self.sizes:
                self.lazy.assume_positive(v)
        return self.lazy

    def form(self, e: expr.Expr) -> _Terms:
        """A sum of terms with constant weights, and a constant."""
        found = self.forms.get(e)
        if found is None:
            found = self.forms[e] = self._form(e)
        return found

    def _form(self, e: expr.Expr) -> _Terms:
        match e:
            case expr.IntImm(_, value):
                return {}, value
            case expr.Add(a, b):
                return _joined(self.form(a), self.form(b), 1)
            case expr.Sub(a, b):
                return _joined(self.form(a), self.form(b), -1)
            case expr.Mul(a, expr.IntImm(_, value)) | expr.Mul(expr.IntImm(_, value), a):
                terms, rest = self.form(a)
                return {t: c * value for t, c in terms.items() if c * value}, rest * value
        return {e: 1}, 0

    def at(self, access: Access) -> Known:
        """What is known where an access happens."""
        key = access.loops, access.guards
        found = self.known.get(key)
        if found is None:
            spans: dict[expr.Var, _Span] = {}
            for x in access.loops:
                own = self.range_of(x)
                if own is not None:
                    spans[x.var] = own
            found = self.known[key] = Known(spans)
            for x in access.loops:
                ends = _arms(x.iterations)
                if is_const(x.low, 0):
                    found.iterations[x.var] = ends
                for end in ends:
                    if not isinstance(end, expr.IntImm):
                        found.at_most(x.var, x.low + end, -1, self)
            for g in access.guards:
                found.learn(g, self)
        return found

    def range_of(self, x: Loop) -> _Span | None:
        """The first and the last value of a loop's variable."""
        if x.var not in self.spans:
            low, iterations = x.low, x.iterations
            if isinstance(low, expr.IntImm) and isinstance(iterations, expr.IntImm):
                self.spans[x.var] = low.value, low.value + max(iterations.value, 1) - 1
            else:
                self.analyzer.bind(x.var, low, iterations)
                first, last = self.analyzer.bounds(x.var)
                self.spans[x.var] = None if first is None or last is None else (first, last)
        return self.spans[x.var]

    # -------------------------------------------------------------------------------- proofs

    def disjoint(self, loop: Loop, a: Access, b: Access, same: set[expr.Var]) -> bool:
        """Whether different iterations of `loop` certainly touch different elements.

        same  variables with one value in both accesses; all others but sizes are free
        """
        if a.indices is None or b.indices is None:
            return False
        here, there = self.at(a), self.at(b)
        mine, others = here.spans.get(loop.var), there.spans.get(loop.var)
        if mine is not None and mine == others and mine[0] >= mine[1]:
            return True  # it happens in one iteration only
        known: list[expr.Expr] = []
        sums: list[expr.Expr] = []
        for x, y in zip(a.indices, b.indices, strict=True):
            known += self.shared_terms(x, y, loop.var, same, here, there)
            if x is y:
                sums.append(x)
            elif self.separate(x, y, same, here, there):
                return True
        # where both happen only if an equation holds, its sides are two more equal sums
        sums += [g.a - g.b for g in a.guards if isinstance(g, expr.EQ) and g in b.guards]
        return self.determines(loop.var, sums, known, same, here)

    def all_disjoint(self, loop: Loop, accesses: Sequence[Access], same: set[expr.Var]) -> bool:
        """Whether different iterations of `loop` certainly touch different elements, whichever of
        several accesses they do; quick, for the many copies that unrolling makes.
        """
        if any(a.indices is None for a in accesses):
            return False
        fixed, known = same | set(self.sizes), list[expr.Expr]()
        at = self.at(replace(accesses[0], guards=()))
        for d in range(len(accesses[0].indices or ())):
            first: dict[expr.Expr, int] | None = None
            low: list[int] = []
            high: list[int] = []
            for a in accesses:
                terms, rest = self.form((a.indices or ())[d])
                own = {t: c for t, c in terms.items() if free_vars(t) <= fixed | {loop.var}}
                first = own if first is None else first
                left = {t: c for t, c in terms.items() if t not in own}
                ends = self.at(a).total((left, rest), self)
                if own != first or ends is None:
                    break
                low.append(ends[0])
                high.append(ends[1])
            else:
                moving = {t: c for t, c in (first or {}).items() if loop.var in free_vars(t)}
                known += self.heavier(moving, max(high) - min(low), at)
        return self.determines(loop.var, (), known, same, at)

    def separate(
        self, x: expr.Expr, y: expr.Expr, same: set[expr.Var], here: Known, there: Known
    ) -> bool:
        """Whether two sums have no value in common, whatever the iterations are."""
        fixed = same | set(self.sizes)
        (p, p0), (q, q0) = self.form(x), self.form(y)
        equal = {t for t, c in p.items() if q.get(t) == c and free_vars(t) <= fixed}
        left = here.total(({t: c for t, c in p.items() if t not in equal}, p0), self)
        right = there.total(({t: c for t, c in q.items() if t not in equal}, q0), self)
        if left is None or right is None:
            return False
        return left[1] < right[0] or right[1] < left[0]

    def shared_terms(
        self,
        x: expr.Expr,
        y: expr.Expr,
        var: expr.Var,
        same: set[expr.Var],
        here: Known,
        there: Known,
    ) -> list[expr.Expr]:
        """Terms in `var` alone that are equal wherever two sums are."""
        (p, p0), (q, q0) = self.form(x), self.form(y)
        fixed = same | set(self.sizes)
        own: dict[expr.Expr, int] = {}
        left: dict[expr.Expr, int] = {}
        right: dict[expr.Expr, int] = {}
        for t in {**p, **q}:
            seen = free_vars(t)
            c, d = p.get(t, 0), q.get(t, 0)
            if seen <= fixed and c == d:
                continue
            if var in seen and seen <= fixed | {var} and c == d:
                own[t] = c
            else:
                left[t], right[t] = c, d
        for t, c in own.items():
            if self.is_digit(t, c, var, (left, p0), (right, q0), here, there):
                return [var]
        width = self.width((left, p0), (right, q0), here, there)
        return [] if width is None else self.heavier(own, width, here)

    def width(self, left: _Terms, right: _Terms, here: Known, there: Known) -> int | None:
        """How far two sums can be from each other."""
        low, high = here.total(left, self), there.total(right, self)
        if low is None or high is None:
            return None
        return max(low[1], high[1]) - min(low[0], high[0])

    def is_digit(
        self,
        t: expr.Expr,
        c: int,
        var: expr.Var,
        left: _Terms,
        right: _Terms,
        here: Known,
        there: Known,
    ) -> bool:
        """Whether a term is var * n, and the rest holds q with 0 <= q < n of the same weight.

        var * n + q then has different values for different values of var, n being any number.
        """
        if not isinstance(t, expr.Mul) or (t.a is not var and t.b is not var):
            return False
        n = t.b if t.a is var else t.a
        rests = []
        for (terms, rest), known in ((left, here), (right, there)):
            low = [q for q, d in terms.items() if d == c and _holds(known.iterations.get(q), n)]
            if not low:
                return False
            rests.append(({q: d for q, d in terms.items() if q is not low[0]}, rest))
        width = self.width(rests[0], rests[1], here, there)
        return width is not None and abs(c) > width

    def heavier(self, terms: Mapping[expr.Expr, int], width: int, known: Known) -> list[expr.Expr]:
        """Terms each of which weighs more than everything lighter, `width` included, can."""
        order = sorted(terms.items(), key=lambda t: abs(t[1]))
        reach: list[int | None] = [width]
        for t, c in order:
            own, below = known.span(t, self), reach[-1]
            fits = own is not None and below is not None
            reach.append(below + abs(c) * (own[1] - own[0]) if fits else None)  # type: ignore[operator, index]
        found: list[expr.Expr] = []
        for (t, c), below in reversed(list(zip(order, reach, strict=False))):
            if below is None or abs(c) <= below:
                break
            found.append(t)
        return found

    def determines(
        self,
        var: expr.Var,
        sums: Sequence[expr.Expr],
        known: Sequence[expr.Expr],
        same: set[expr.Var],
        at: Known,
    ) -> bool:
        """Whether equal values of `sums` and of `known` certainly have equal values of `var`."""
        fixed = same | set(self.sizes)
        queue, seen, equal = list(sums), set(sums), dict.fromkeys(known)
        while True:
            for e in queue:
                moving = {t: c for t, c in self.form(e)[0].items() if not free_vars(t) <= fixed}
                equal.update(dict.fromkeys(self.heavier(moving, 0, at)))
            if var in equal:
                return True
            queue = [x for x in _wholes(list(equal)) if x not in seen]
            if not queue:
                return False
            seen.update(queue)

    # ------------------------------------------------------------------------ the slow way

    def moves_on(self, loop: Loop, a: Access, b: Access, same: set[expr.Var]) -> bool:
        """Whether an index is always further on in later iterations, by their intervals."""
        if a.indices is None or b.indices is None:
            return False
        for x, y in zip(a.indices, b.indices, strict=True):
            moving = loop.var in free_vars(x) and loop.var in free_vars(y)
            if moving and not (self.is_numeric(x, a) and self.is_numeric(y, b)):
                ends = self.ends(loop, x, a, same), self.ends(loop, y, b, same)
                if self.ordered(loop, *ends):
                    return True
        return False

    def is_numeric(self, e: expr.Expr, access: Access) -> bool:
        """Whether the ranges of a sum's terms are numbers: then the fast way sees all."""
        known = self.at(access)
        return all(known.span(t, self) is not None for t in self.form(e)[0])

    def ends(
        self, loop: Loop, e: expr.Expr, access: Access, same: set[expr.Var]
    ) -> tuple[expr.Expr, expr.Expr] | None:
        """The smallest and the largest value of an index in one iteration of a loop."""
        for x in access.loops:
            self.analyzer.bind(x.var, x.low, x.iterations)
        inner = [x for x in access.loops[access.loops.index(loop) + 1 :] if x.var not in same]
        return self.analyzer.interval(e, {x.var: (x.low, x.iterations) for x in inner})

    def ordered(
        self,
        loop: Loop,
        first: tuple[expr.Expr, expr.Expr] | None,
        second: tuple[expr.Expr, expr.Expr] | None,
    ) -> bool:
        """Whether what two intervals hold always grows, or always falls, with the iterations."""
        if first is None or second is None:
            return False
        further = expr.Var("further", loop.var.type)
        self.analyzer.bind(further, 0)
        (x0, x1), (y0, y1) = first, second
        later = {loop.var: loop.var + 1 + further}
        x2, x3, y2, y3 = (substitute(e, later) for e in (x0, x1, y0, y1))
        prove = self.analyzer.can_prove
        return (prove(x1 < y2) and prove(y1 < x2)) or (prove(x0 > y3) and prove(y0 > x3))


def _holds(items: Sequence[expr.Expr] | None, wanted: expr.Expr) -> bool:
    """Whether an expression is among several, as the same object."""
    return items is not None and any(e is wanted for e in items)


def _arms(e: expr.Expr) -> list[expr.Expr]:
    """The operands of nested minima."""
    return [*_arms(e.a), *_arms(e.b)] if isinstance(e, expr.Min) else [e]


def _multiple(terms: Mapping[expr.Expr, int], part: Mapping[expr.Expr, int]) -> int:
    """k > 0 where a sum contains k times a part, else 0."""
    k = 0
    for t, c in part.items():
        own = terms.get(t, 0)
        if own * c <= 0 or own % c or (k and own // c != k):
            return 0
        k = own // c
    return k


def _joined(a: _Terms, b: _Terms, sign: int) -> _Terms:
    terms = dict(a[0])
    for t, c in b[0].items():
        total = terms.get(t, 0) + sign * c
        if total:
            terms[t] = total
        else:
            terms.pop(t, None)
    return terms, a[1] + sign * b[1]


def _wholes(known: Sequence[expr.Expr]) -> list[expr.Expr]:
    """x for each pair x // c, x % c; x // c for x // (c * d) and x // c % d."""
    out: list[expr.Expr] = []
    have = set(known)
    for e in known:
        if not isinstance(e, expr.FloorMod):
            continue
        if expr.FloorDiv(e.a, e.b) in have:
            out.append(e.a)
        if (
            isinstance(e.a, expr.FloorDiv)
            and isinstance(e.a.b, expr.IntImm)
            and isinstance(e.b, expr.IntImm)
        ):
            step = expr.const(e.a.b.value * e.b.value, e.b.type)
            if expr.FloorDiv(e.a.a, step) in have:
                out.append(e.a)
    return out
