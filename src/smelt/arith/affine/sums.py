"""What equal sums say about their terms: which variables tell the places of an array apart.

Where each term of a sum weighs more than all lighter ones together can, equal values of the sum
have equal terms; and equal quotients and remainders are those of equal dividends.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from smelt.ir.build import value_of
from smelt.ir.expr import Expr, FloorDiv, FloorMod

from ..bounds import intersect, poly_bounds, union
from ..context import Bounds, Context
from ..poly import Poly, add, atom, constant, subtract
from ..prove import nonnegative
from ..simplify import merge

Simplify = Callable[[Expr], Expr]
Near = Callable[[Poly, int], bool]
"""Whether two values of a sum are certainly less than a distance apart."""


def determined(
    cx: Context, sums: Iterable[Expr], varies: Callable[[Expr], bool], near: Near,
    known: Iterable[Expr] = (),
) -> set[Expr]:  # fmt: skip
    """What has equal values wherever some sums have, and some other expressions.

    varies  whether a term may have another value in the other place
    near    of sums of varying terms
    """
    queue = list(sums)
    equal, seen = dict.fromkeys([*queue, *known]), set(queue)
    while queue:
        for e in queue:
            terms = {t: c for t, c in cx.poly(e).terms.items() if varies(t)}
            equal.update(dict.fromkeys(heavy_terms(terms, near)))
        queue = [e for e in merge_digits(list(equal), cx.simplify) if e not in seen]
        seen.update(queue)
    return set(equal)


def heavy_terms(terms: Mapping[Expr, int], near: Near, more: int = 0) -> list[Expr]:
    """The terms of a sum that are equal wherever two of its values differ by `more` at most."""
    found: list[Expr] = []
    left = dict(sorted(terms.items(), key=lambda t: abs(t[1])))
    while left:
        t, c = left.popitem()
        if near(Poly(dict(left), 0), abs(c) - more):
            found.append(t)
        else:  # of terms of one weight together more may be known than of each
            left = {t: k for t, k in left.items() if abs(k) < abs(c)}
            if not near(Poly(left, 0), abs(c) - more):
                break
    return found


def near(places: Sequence[Context], p: Poly, distance: int) -> bool:
    """Whether two values of a sum are less than a distance apart, whichever place each is from."""
    low, high = functools.reduce(union, [sum_bounds(cx, p) for cx in places])
    if low is None or (high is not None and high - low < distance):
        return low is not None
    rest = subtract(constant(low + distance - 1), p)
    return all(nonnegative(cx, rest) for cx in places)


# --------------------------------------------------------------------------------- quotients


class DigitPair(NamedTuple):
    """The places of x // factor and of x % factor among some expressions, and x."""

    quotient: int
    rest: int
    whole: Expr
    factor: Expr


def merge_digits(items: Sequence[Expr], simplify: Simplify) -> list[Expr]:
    """Expressions where each pair x // c, x % c, under whatever name, has become x."""
    out = list(items)
    while (pair := digit_pair(out, simplify)) is not None:
        out = [x for k, x in enumerate(out) if k not in pair[:2]] + [pair.whole]
    return out


def digit_pair(items: Sequence[Expr], simplify: Simplify) -> DigitPair | None:
    """A quotient and a remainder that are those of one expression."""
    for k, e in enumerate(items):
        if not isinstance(e, FloorMod):
            continue
        quotients: list[Expr] = [FloorDiv(e.a, e.b)]
        if isinstance(e.a, FloorDiv):
            quotients.append(FloorDiv(e.a.a, e.a.b * e.b))
        quotients.append(simplify(quotients[0]))
        for q in [q for q in items if q is not e]:
            whole = e.a if q in quotients else _whole(q, e, quotients, simplify)
            if whole is not None:
                return DigitPair(items.index(q), k, whole, e.b)
    return None


def _whole(q: Expr, e: FloorMod, quotients: Sequence[Expr], simplify: Simplify) -> Expr | None:
    """x where q = x // c and e = x % c under other names; None where it is not seen."""
    if isinstance(q, FloorMod) and q.a in quotients:  # x // c % d and x % c are x % (c * d)
        return FloorMod(e.a, e.b * q.b)
    width, whole = value_of(e.b), value_of(q.b) if isinstance(q, FloorDiv) else None
    if not width or whole is None or whole % width or whole == width:
        return None
    assert isinstance(q, FloorDiv)  # y // (c * d) is x // c where y // d is x
    return e.a if simplify(q.a // (whole // width)) is e.a else None


# ------------------------------------------------------------------------------------- bounds


def sum_bounds(cx: Context, p: Poly) -> Bounds:
    """Inclusive constant bounds of a sum, with what is known of parts of it."""
    return _with_facts(cx, p, cx.facts)


def _with_facts(cx: Context, p: Poly, facts: Sequence[Poly]) -> Bounds:
    found = poly_bounds(cx, p)
    for n, f in enumerate(facts):
        k = _multiple(p, f)
        if k:  # p - k*f is smaller for k > 0, larger for k < 0
            low, high = _with_facts(cx, add(p, f, -k), facts[n + 1 :])
            found = intersect(found, (low, None) if k > 0 else (None, high))
    for v, ends in reversed(cx.symbolic.items()):
        c = p.terms.get(v, 0)
        if c and not any(None in poly_bounds(cx, end) for end in ends):
            rest = subtract(p, atom(v, c))
            below, above = [
                _with_facts(cx, merge(cx, add(rest, end, c), v.dtype), facts)
                for end in (ends if c > 0 else ends[::-1])
            ]
            return intersect(found, (below[0], above[1]))
    return found


def _multiple(p: Poly, part: Poly) -> int:
    """k where p contains k times the terms of a part; 0 where it does not."""
    factors = {divmod(p.terms.get(t, 0), c) for t, c in part.terms.items()}
    k, rest = factors.pop()
    return 0 if factors or rest else k
