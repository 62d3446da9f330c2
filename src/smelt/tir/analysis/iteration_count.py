"""How many elements an access reaches while loops run, and how many iterations a guard lets by.

All loops here begin at zero (`accesses` makes them so). Where an index is no sum whose values are
known, there is no answer, and callers fall back on what bounds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from smelt.arith.affine.values import Known, Progression, SumValues, Terms
from smelt.arith.facts import negative_forms
from smelt.ir.build import is_const, logical_not, product
from smelt.ir.expr import INDEX, Compare, Expr, Not, Var, const
from smelt.ir.walk import free_vars, substitute
from smelt.tir.facts import Facts, conjuncts, least, most
from smelt.tir.nodes import BufferLoad, For
from smelt.tir.script_ops import expr_nodes

Limits = tuple[list[Expr], list[Expr]]
"""Expressions that a sum is not below, and such that it is not above."""

_ZERO = const(0, INDEX)


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
        known: dict[Known, list[Progression] | None],
    ) -> None:
        """Take the loops, outermost first; the witness gives a value to every outer variable.

        known  the progressions found so far, at any place in the program
        """
        self.facts, self.outer, self.witness = facts, outer, witness
        self.extents = {x.var: x.extent for x in inner if not is_const(x.extent, 1)}
        self.sums = SumValues(facts.analyzer, self.extents, known)

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
        forms = [self.sums.linear(cx.build(p, INDEX)) for p in below]
        for form in forms or [None]:
            if form is None or not form[0]:
                out.unknown = True
                return
            terms, sign = self.sums.ordered([(v, k if up else _ZERO - k) for v, k, up in form[0]])
            lows, highs = out.limits.setdefault(terms, ([], []))
            if sign < 0:
                lows.append(self.facts.simplify(form[1] + 1))
            else:
                highs.append(self.facts.simplify(_ZERO - form[1] - 1))

    def limited(
        self, p: Progression, limits: Mapping[Terms, Limits]
    ) -> tuple[Expr, bool, Terms | None]:
        """How many values of a part the limits of its sum leave.

        The second part says whether the witness attains that, the third which limits were used.
        """
        terms, sign = self.sums.ordered(p.terms) if limits else ((), 1)
        if terms not in limits:
            return self.sums.count(p), True, None
        lows, highs = limits[terms]
        if sign < 0:
            lows, highs = [_ZERO - e for e in highs], [_ZERO - e for e in lows]
        low, end, attained = p.low, self.facts.simplify(p.high + 1), True
        prove, unknown = self.facts.prove, (None, None)
        for e in lows:
            first, _ = self.facts.relax(e, self.outer) or unknown
            low = low if first is None else most(low, first, prove)
            attained = attained and (self._at_witness(e, first) or self._holds(e <= p.low))
        for e in highs:
            _, last = self.facts.relax(e, self.outer) or unknown
            end = end if last is None else least(end, self.facts.simplify(last + 1), prove)
            attained = attained and (self._at_witness(e, last) or self._holds(e >= p.high))
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
            parts = self.sums.grouped(self.sums.progressions(total) or [], [terms])
            independent = all(v in left for v, _ in terms)
            if len(parts) != 1 or not is_const(parts[0].step, 1) or not parts[0].injective:
                independent = False
            if not independent:
                exact = False
                continue
            count, attained, _ = self.limited(parts[0], guards.limits)
            factors.append(count)
            exact = exact and attained
            for v, _ in terms:
                del left[v]
        return self.facts.simplify(product([*factors, *left.values()])), exact

    def elements(self, indices: Sequence[Expr], guards: Guards) -> Elements | None:
        """The elements that an access reaches; exact where the witness reaches as many.

        None where the indices are no such sums, or share a loop variable.
        """
        parts: list[list[Progression]] = []
        for i in indices:
            found = self.sums.progressions(i)
            if found is None:
                return None
            parts.append(self.sums.grouped(found, guards.limits))
        used = [v for row in parts for p in row for v, _ in p.terms]
        if len(set(used)) < len(used):
            return None
        exact = not guards.unknown and self.hold(guards.outer)
        limits, counts, pattern = dict(guards.limits), list[Expr](), list[object]()
        for row in parts:
            for p in row:
                count, attained, own = self.limited(p, limits)
                counts.append(count)
                exact = exact and attained
                ends = limits.pop(own) if own is not None else ([], [])
                pattern.append((p.step, p.low, p.high, *map(tuple, ends)))
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
