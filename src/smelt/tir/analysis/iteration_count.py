"""How many values an affine index takes while loops run, and how many iterations a guard lets by.

All loops here begin at zero (`accesses` makes them so). What is not affine, or where coefficients
and extents cannot be compared, has no answer, and callers fall back on what bounds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from smelt.arith.facts import negative_forms
from smelt.ir.build import is_const, logical_not, product, value_of
from smelt.ir.expr import INDEX, Compare, Expr, Not, Var, const
from smelt.ir.walk import free_vars, substitute
from smelt.tir.facts import Facts, conjuncts, least, most
from smelt.tir.nodes import BufferLoad, For
from smelt.tir.script_ops import expr_nodes

Known = tuple[Expr, tuple[Var, ...]]
"""An index, and those of its variables whose loops run."""

Terms = tuple[tuple[Var, Expr], ...]
"""A sum of loop variables times factors, in the order of the loops; the first is positive."""

Limits = tuple[list[Expr], list[Expr]]
"""Expressions that a sum is not below, and such that it is not above."""

_ZERO, _ONE = const(0, INDEX), const(1, INDEX)


@dataclass(frozen=True, slots=True)
class Digit:
    """A part of an index that takes each of the values step * (low, ..., high) and no other.

    terms      the sum that runs over low, ..., high
    injective  every iteration of its loops gives another value
    """

    terms: Terms
    step: Expr
    low: Expr
    high: Expr
    injective: bool


@dataclass(slots=True)
class Guards:
    """Conditions around an access.

    limits   per sum of inner loop variables: what limits it
    outer    conditions on what stands still
    unknown  whether there is a condition that is neither, or one on data
    """

    limits: dict[Terms, Limits] = field(default_factory=dict)
    outer: list[Expr] = field(default_factory=list)
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class Elements:
    """How many elements an access reaches, at most or exactly.

    pattern  accesses with equal patterns and equal smallest indices reach the same elements, or
             (where one of them is under more conditions) some of the same
    """

    count: Expr
    exact: bool
    pattern: tuple[object, ...]


class IterationCounter:
    """Answers for one place in a program: `inner` loops run once through, `outer` ones stand still.

    Counts are those of the iteration of the outer loops that has most. An answer is *attained*
    where the `witness`, one iteration chosen beforehand, certainly has as many: counts that are all
    attained by one witness are true together.
    """

    def __init__(
        self,
        facts: Facts,
        outer: Sequence[For],
        inner: Sequence[For],
        witness: Mapping[Var, Expr],
        known: dict[Known, list[Digit] | None],
    ) -> None:
        """Take the loops, outermost first; the witness gives a value to every outer variable.

        known  the digits found so far, at any place in the program
        """
        self.facts, self.outer, self.witness = facts, outer, witness
        self.extents = {x.var: x.extent for x in inner if not is_const(x.extent, 1)}
        self.order = {v: k for k, v in enumerate(self.extents)}
        self.inner, self.known = [x.var for x in inner], known

    # ------------------------------------------------------------------------------- digits

    def digits(self, e: Expr) -> list[Digit] | None:
        """An index as digits that do not carry into each other; None where it is no such sum.

        From the smallest factor on, a loop either begins a digit beyond all values so far, or
        overlaps with the last one and leaves no gap in it.
        """
        used = free_vars(e)
        key = e, tuple([v for v in self.inner if v in used])
        if key not in self.known:
            self.known[key] = self._digits(e)
        return self.known[key]

    def _digits(self, e: Expr) -> list[Digit] | None:
        form = self._affine(e)
        if form is None:
            return None
        facts, out, span = self.facts, list[Digit](), _ZERO
        for v, c, up in sorted(form[0], key=lambda t: _size(t[1])):
            last = facts.simplify(self.extents[v] - 1)
            sign, ends = (_ONE, (_ZERO, last)) if up else (const(-1, INDEX), (_ZERO - last, _ZERO))
            digit = Digit(((v, sign),), c, *ends, True)
            if not out or facts.prove(c > span):
                out.append(digit)
            else:
                joined = self._joined(out.pop(), digit)
                if joined is None:
                    return None
                out.append(joined)
            span = facts.simplify(span + c * last)
        return out

    def _joined(self, a: Digit, b: Digit) -> Digit | None:
        """Two digits as one, the second with the larger step; None where that leaves gaps."""
        facts = self.facts
        iterations = facts.simplify(b.step // a.step)
        if not facts.equal(iterations * a.step, b.step) or not facts.prove(
            iterations <= self._count(a)
        ):
            return None
        terms = [(v, facts.simplify(c * iterations)) for v, c in b.terms]
        low, high = (
            facts.simplify(a.low + b.low * iterations),
            facts.simplify(a.high + b.high * iterations),
        )
        injective = a.injective and b.injective and facts.equal(iterations, self._count(a))
        return Digit((*a.terms, *terms), a.step, low, high, injective)

    def _grouped(self, digits: Sequence[Digit], limits: Iterable[Terms]) -> list[Digit]:
        """Digits, joined where it is their sum that is limited."""
        out = list(digits)
        for terms in limits:
            wanted = {v for v, _ in terms}
            members = [d for d in out if any(v in wanted for v, _ in d.terms)]
            joined: Digit | None = members[0] if members else None
            for d in members[1:]:
                joined = None if joined is None else self._joined(joined, d)
            if joined is not None and self._sum(joined.terms)[0] == terms:
                out = [d for d in out if d not in members] + [joined]
        return out

    def _affine(self, e: Expr) -> tuple[list[tuple[Var, Expr, bool]], Expr] | None:
        """Inner variables, sizes of their factors and whether these are positive; and the rest."""
        found = self.facts.analyzer.linear(e, tuple(self.extents))
        if found is None or free_vars(found[1]) & self.extents.keys():
            return None
        out = []
        for v, c in found[0].items():
            up = self.facts.prove(c > 0)
            if free_vars(c) & self.extents.keys() or not (up or self.facts.prove(c < 0)):
                return None
            out.append((v, c if up else self.facts.simplify(_ZERO - c), up))
        return out, found[1]

    def _count(self, d: Digit) -> Expr:
        return self.facts.simplify(d.high - d.low + 1)

    def _sum(self, terms: Iterable[tuple[Var, Expr]]) -> tuple[Terms, int]:
        """Terms in order, the first factor positive, and the sign that made it so."""
        ordered = tuple(sorted(terms, key=lambda t: self.order[t[0]]))
        if not ordered or self.facts.prove(ordered[0][1] > 0):
            return ordered, 1
        return tuple([(v, self.facts.simplify(_ZERO - c)) for v, c in ordered]), -1

    # ------------------------------------------------------------------------------- guards

    def guards(self, conditions: Sequence[Expr]) -> Guards:
        """Conditions sorted; those that certainly hold are left out."""
        out = Guards()
        for c in conditions:
            for part in conjuncts(logical_not(c.a) if isinstance(c, Not) else c):
                if _on_data(part):
                    out.unknown = True
                else:
                    self._sort(self.facts.simplify(part), out)
        return out

    def _sort(self, c: Expr, out: Guards) -> None:
        if is_const(c, 1) or self.facts.prove(c):
            return
        if not free_vars(c) & self.extents.keys():
            out.outer.append(c)
            return
        cx = self.facts.analyzer.context
        below = negative_forms(cx, c) if isinstance(c, Compare) and c.a.dtype == INDEX else []
        forms = [self._affine(cx.build(p, INDEX)) for p in below]
        for form in forms or [None]:
            if form is None or not form[0]:
                out.unknown = True
                return
            terms, sign = self._sum([(v, k if up else _ZERO - k) for v, k, up in form[0]])
            lows, highs = out.limits.setdefault(terms, ([], []))
            if sign < 0:
                lows.append(self.facts.simplify(form[1] + 1))
            else:
                highs.append(self.facts.simplify(_ZERO - form[1] - 1))

    def limited(self, d: Digit, limits: Mapping[Terms, Limits]) -> tuple[Expr, bool, Terms | None]:
        """How many values of a digit the limits of its sum leave.

        The second part says whether the witness attains that, the third which limits were used.
        """
        terms, sign = self._sum(d.terms) if limits else ((), 1)
        if terms not in limits:
            return self._count(d), True, None
        lows, highs = limits[terms]
        if sign < 0:
            lows, highs = [_ZERO - e for e in highs], [_ZERO - e for e in lows]
        low, end, attained = d.low, self.facts.simplify(d.high + 1), True
        prove, unknown = self.facts.prove, (None, None)
        for e in lows:
            first, _ = self.facts.relax(e, self.outer) or unknown
            low = low if first is None else most(low, first, prove)
            attained = attained and (self._at_witness(e, first) or self._holds(e <= d.low))
        for e in highs:
            _, last = self.facts.relax(e, self.outer) or unknown
            end = end if last is None else least(end, self.facts.simplify(last + 1), prove)
            attained = attained and (self._at_witness(e, last) or self._holds(e >= d.high))
        count = self.facts.simplify(end - low)
        if self.facts.prove(count >= 1):
            return count, attained, terms
        return most(count, _ZERO, self.facts.prove), False, terms

    def hold(self, conditions: Sequence[Expr]) -> bool:
        """Whether the witness certainly meets conditions on outer variables."""
        return all(self._holds(c) for c in conditions)

    def reachable(self, limits: Iterable[Limits]) -> bool:
        """Whether the witness's first run of the inner loops, all sums 0, is within limits."""
        return all(
            all(self._holds(e <= 0) for e in lows) and all(self._holds(e >= 0) for e in highs)
            for lows, highs in limits
        )

    def _holds(self, condition: Expr) -> bool:
        return self.facts.prove(substitute(condition, self.witness))

    def _at_witness(self, e: Expr, end: Expr | None) -> bool:
        return end is not None and self.facts.equal(substitute(e, self.witness), end)

    # ------------------------------------------------------------------------------- counts

    def executions(self, guards: Guards) -> tuple[Expr, bool]:
        """How often a statement inside the inner loops runs, and whether that is attained."""
        exact = not guards.unknown and self.hold(guards.outer)
        left, factors = dict(self.extents), list[Expr]()
        for terms in guards.limits:
            total = sum([v * c for v, c in terms], _ZERO)
            digits = self._grouped(self.digits(total) or [], [terms])
            independent = all(v in left for v, _ in terms)
            if len(digits) != 1 or not is_const(digits[0].step, 1) or not digits[0].injective:
                independent = False
            if not independent:
                exact = False
                continue
            count, attained, _ = self.limited(digits[0], guards.limits)
            factors.append(count)
            exact = exact and attained
            for v, _ in terms:
                del left[v]
        return self.facts.simplify(product([*factors, *left.values()])), exact

    def elements(self, indices: Sequence[Expr], guards: Guards) -> Elements | None:
        """The elements that an access reaches; exact where the witness reaches as many.

        None where the indices are no sums of digits, or share a loop variable.
        """
        digits: list[list[Digit]] = []
        for i in indices:
            found = self.digits(i)
            if found is None:
                return None
            digits.append(self._grouped(found, guards.limits))
        used = [v for ds in digits for d in ds for v, _ in d.terms]
        if len(set(used)) < len(used):
            return None
        exact = not guards.unknown and self.hold(guards.outer)
        limits, counts, pattern = dict(guards.limits), list[Expr](), list[object]()
        for ds in digits:
            for d in ds:
                count, attained, own = self.limited(d, limits)
                counts.append(count)
                exact = exact and attained
                ends = limits.pop(own) if own is not None else ([], [])
                pattern.append((d.step, d.low, d.high, *map(tuple, ends)))
            pattern.append(None)
        exact = exact and not any(v in used for terms in limits for v, _ in terms)
        exact = exact and self.reachable(limits.values())
        return Elements(self.facts.simplify(product(counts)), exact, tuple(pattern))


def _on_data(c: Expr) -> bool:
    """Whether a condition may have another value each time it is asked."""
    return any(
        isinstance(n, BufferLoad) or (isinstance(n, Var) and n.dtype == "bool")
        for n in expr_nodes(c)
    )


def _size(e: Expr) -> tuple[bool, int, int]:
    """A key that puts numbers first, in order, then what has more parts after what has fewer."""
    value = value_of(e)
    return value is None, value or 0, len(str(e))
