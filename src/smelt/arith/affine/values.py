"""Which values a sum of loop variables takes while its loops run, and how many.

All loops begin at zero. What is not affine, or where factors and extents cannot be compared, has no
answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from smelt.ir.build import value_of
from smelt.ir.expr import INDEX, Expr, Var, const
from smelt.ir.walk import free_vars

from ..analyzer import Analyzer

Known = tuple[Expr, tuple[Var, ...]]
"""An index, and those of its variables whose loops run."""

Terms = tuple[tuple[Var, Expr], ...]
"""A sum of loop variables times factors, in the order of the loops; the first is positive."""

_ZERO, _ONE = const(0, INDEX), const(1, INDEX)


@dataclass(frozen=True, slots=True)
class Progression:
    """A part of an index that takes each of the values step * (low, ..., high) and no other.

    terms      the sum that runs over low, ..., high
    injective  every iteration of its loops gives another value
    """

    terms: Terms
    step: Expr
    low: Expr
    high: Expr
    injective: bool


class SumValues:
    """The values of sums while some loops run.

    extents  of the loops, outermost first; those of one iteration are left out
    known    the progressions found so far, whichever loops run
    """

    def __init__(
        self,
        analyzer: Analyzer,
        extents: Mapping[Var, Expr],
        known: dict[Known, list[Progression] | None],
    ) -> None:
        """Sums are those of an analyzer that knows the variables."""
        self.analyzer, self.extents, self.known = analyzer, extents, known
        self.order = {v: k for k, v in enumerate(extents)}

    def progressions(self, e: Expr) -> list[Progression] | None:
        """An index as parts that do not carry into each other; None where it is no such sum.

        From the smallest factor on, a loop either begins a part beyond all values so far, or
        overlaps with the last one and leaves no gap in it.
        """
        used = free_vars(e)
        key = e, tuple([v for v in self.extents if v in used])
        if key not in self.known:
            self.known[key] = self._progressions(e)
        return self.known[key]

    def _progressions(self, e: Expr) -> list[Progression] | None:
        form = self.linear(e)
        if form is None:
            return None
        simplify, out, span = self.analyzer.simplify, list[Progression](), _ZERO
        for v, c, up in sorted(form[0], key=lambda t: _size(t[1])):
            last = simplify(self.extents[v] - 1)
            sign, ends = (_ONE, (_ZERO, last)) if up else (const(-1, INDEX), (_ZERO - last, _ZERO))
            part = Progression(((v, sign),), c, *ends, True)
            if not out or self.analyzer.can_prove(c > span):
                out.append(part)
            else:
                joined = self.joined(out.pop(), part)
                if joined is None:
                    return None
                out.append(joined)
            span = simplify(span + c * last)
        return out

    def joined(self, a: Progression, b: Progression) -> Progression | None:
        """Two parts as one, the second with the larger step; None where that leaves gaps."""
        an, simplify = self.analyzer, self.analyzer.simplify
        steps = simplify(b.step // a.step)
        if not an.can_prove_equal(steps * a.step, b.step) or not an.can_prove(
            steps <= self.count(a)
        ):
            return None
        terms = [(v, simplify(c * steps)) for v, c in b.terms]
        low, high = simplify(a.low + b.low * steps), simplify(a.high + b.high * steps)
        whole = a.injective and b.injective and an.can_prove_equal(steps, self.count(a))
        return Progression((*a.terms, *terms), a.step, low, high, whole)

    def grouped(self, parts: Sequence[Progression], sums: Iterable[Terms]) -> list[Progression]:
        """Parts, joined where together they are one of some sums."""
        out = list(parts)
        for terms in sums:
            wanted = {v for v, _ in terms}
            members = [p for p in out if any(v in wanted for v, _ in p.terms)]
            joined: Progression | None = members[0] if members else None
            for p in members[1:]:
                joined = None if joined is None else self.joined(joined, p)
            if joined is not None and self.ordered(joined.terms)[0] == terms:
                out = [p for p in out if p not in members] + [joined]
        return out

    def linear(self, e: Expr) -> tuple[list[tuple[Var, Expr, bool]], Expr] | None:
        """Variables, sizes of their factors and whether these are positive; and the rest."""
        found = self.analyzer.linear(e, self.extents)
        if found is None or free_vars(found[1]) & self.extents.keys():
            return None
        out = []
        for v, c in found[0].items():
            up = self.analyzer.can_prove(c > 0)
            if free_vars(c) & self.extents.keys() or not (up or self.analyzer.can_prove(c < 0)):
                return None
            out.append((v, c if up else self.analyzer.simplify(_ZERO - c), up))
        return out, found[1]

    def count(self, p: Progression) -> Expr:
        """How many values a part takes."""
        return self.analyzer.simplify(p.high - p.low + 1)

    def ordered(self, terms: Iterable[tuple[Var, Expr]]) -> tuple[Terms, int]:
        """Terms in order, the first factor positive, and the sign that made it so."""
        out = tuple(sorted(terms, key=lambda t: self.order[t[0]]))
        if not out or self.analyzer.can_prove(out[0][1] > 0):
            return out, 1
        return tuple([(v, self.analyzer.simplify(_ZERO - c)) for v, c in out]), -1


def _size(e: Expr) -> tuple[bool, int, int]:
    """A key that puts numbers first, in order, then what has more parts after what has fewer."""
    value = value_of(e)
    return value is None, value or 0, len(str(e))
