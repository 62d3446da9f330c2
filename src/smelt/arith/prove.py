"""Whether a polynomial is never negative: constant bounds, facts, elimination, shifts."""

from __future__ import annotations

from math import gcd

from smelt.ir.expr import Expr, FloorDiv, FloorMod, IntImm, Max, Min, Select

from .bounds import atom_bounds, poly_bounds
from .context import Context
from .poly import INTS, ZERO, Poly, add, atom, factors, scale, subtract

FUEL = 6
"""How many steps a proof may take below one another."""


def positive(cx: Context, p: Poly) -> bool:
    """Whether p > 0 can be shown."""
    return nonnegative(cx, Poly(p.terms, p.const - 1))


def nonnegative(cx: Context, p: Poly, fuel: int = FUEL) -> bool:
    """Whether p >= 0 can be shown."""
    low, high = poly_bounds(cx, p)
    if low is not None and low >= 0:
        return True
    if not p.terms or (high is not None and high < 0) or fuel == 0:
        return False
    if low is not None and high is not None and not cx.facts and not cx.symbolic:
        return len(p.terms) > 1 and _structured(p) and _prove(cx, p, fuel)
    key = (frozenset(p.terms.items()), p.const, fuel)
    found = cx.proofs.get(key)
    if found is None:
        found = cx.proofs[key] = _prove(cx, p, fuel)
    return found


def _structured(p: Poly) -> bool:
    return any(type(t) in _PARTS for t in p.terms)


def _prove(cx: Context, p: Poly, fuel: int) -> bool:
    if cx.facts and _by_facts(cx, p, fuel):
        return True
    if _by_shift(cx, p):
        return True
    step = _eliminate(cx, p, fuel - 1)
    if step is not None:
        return nonnegative(cx, step, fuel - 1)
    return _by_parts(cx, p, fuel)


def _by_facts(cx: Context, p: Poly, fuel: int) -> bool:
    """p >= 0  where p * k + k - 1 - f * m >= 0, f >= 0 is a fact and k, m > 0."""
    for f in cx.facts:
        tried: set[tuple[int, int]] = set()
        for t, c in f.terms.items():
            own = p.terms.get(t, 0)
            if own * c <= 0:
                continue
            g = gcd(own, c)
            k, m = abs(c) // g, abs(own) // g
            if (k, m) in tried:
                continue
            tried.add((k, m))
            wider = Poly(scale(p, k).terms, p.const * k + k - 1)
            if nonnegative(cx, add(wider, f, -m), min(fuel - 1, 2)):
                return True
    return False


def _by_shift(cx: Context, p: Poly) -> bool:
    """Every atom as its lower bound plus a non-negative rest; then all coefficients decide."""
    products = [t for t in p.terms if len(factors(t)) > 1]
    if not products:
        return False
    total = Poly({}, p.const)
    shifted: dict[Expr, Poly] = {}
    for t, c in p.terms.items():
        term = Poly({}, c)
        for x in factors(t):
            if x not in shifted:
                low = atom_bounds(cx, x)[0]
                shifted[x] = Poly({x: 1}, 0 if low is None else low)
            term = cx.order.multiply(term, shifted[x])
        total = add(total, term)
    low = total.const
    for t, c in total.terms.items():
        items = [atom_bounds(cx, x) for x in factors(t)]
        if any(b[0] is None for b in items):
            return False
        if c < 0:
            size = 1
            for bl, bh in items:
                if bl is None or bh is None:
                    return False
                size *= bh - bl
            low += c * size
    return low >= 0


def _eliminate(cx: Context, p: Poly, fuel: int) -> Poly | None:
    """A smaller polynomial, one variable replaced by the end of its range that makes p least."""
    if cx.symbolic:
        inside: dict[Expr, None] = {}
        for t in p.terms:
            for x in factors(t):
                if x in cx.symbolic:
                    inside[x] = None
        for v in reversed(cx.symbolic):
            if v in inside:
                step = _at_end(cx, p, v, *cx.symbolic[v], fuel)
                if step is not None:
                    return step
    for t in p.terms:
        for x in factors(t):
            if type(x) is FloorMod and not isinstance(x.b, IntImm):
                d = cx.poly(x.b)
                if nonnegative(cx, Poly(d.terms, d.const - 1), min(fuel, 2)):
                    step = _at_end(cx, p, x, ZERO, Poly(d.terms, d.const - 1), fuel)
                    if step is not None:
                        return step
    return None


def _at_end(cx: Context, p: Poly, v: Expr, low: Poly, high: Poly, fuel: int) -> Poly | None:
    coefficient, rest = split_by(cx, p, v)
    if coefficient is None:
        return None
    if nonnegative(cx, coefficient, min(fuel, 2)):
        return add(rest, cx.order.multiply(coefficient, low))
    if nonnegative(cx, scale(coefficient, -1), min(fuel, 2)):
        return add(rest, cx.order.multiply(coefficient, high))
    return None


def split_by(cx: Context, p: Poly, v: Expr) -> tuple[Poly | None, Poly]:
    """p = coefficient * v + rest; coefficient None where v occurs in a higher power."""
    coefficient, rest = ZERO, {}
    for t, c in p.terms.items():
        items = factors(t)
        count = items.count(v)
        if count > 1:
            return None, p
        if count:
            items.remove(v)
            part = Poly({cx.order.product(items): c}, 0) if items else Poly({}, c)
            coefficient = add(coefficient, part)
        else:
            rest[t] = c
    return coefficient, Poly(rest, p.const)


def _by_parts(cx: Context, p: Poly, fuel: int) -> bool:
    """Quotients by their defining inequality, min / max / select by their cases."""
    for t, c in p.terms.items():
        kind = type(t)
        if kind is FloorDiv and isinstance(t.b, IntImm) and t.b.value > 0:  # type: ignore[attr-defined]
            # d*(x//d) <= x  and  d*(x//d) >= x - d + 1
            d, x = t.b.value, cx.poly(t.a)  # type: ignore[attr-defined]
            g = gcd(c, d)
            end = x if c < 0 else Poly(x.terms, x.const - d + 1)
            rest = scale(subtract(p, atom(t, c)), d // g)
            rest = Poly(rest.terms, rest.const + d // g - 1)
            if nonnegative(cx, add(rest, end, c // g), fuel - 1):
                return True
        elif kind in (Min, Max):
            rest = subtract(p, atom(t, c))
            cases = [add(rest, cx.poly(x), c) for x in (t.a, t.b)]  # type: ignore[attr-defined]
            either = (kind is Min) == (c < 0)
            proofs = (nonnegative(cx, x, fuel - 1) for x in cases)
            if any(proofs) if either else all(proofs):
                return True
        elif kind is Select and t.dtype in INTS:
            rest = subtract(p, atom(t, c))
            branches = [cx.poly(t.true_value), cx.poly(t.false_value)]  # type: ignore[attr-defined]
            if all(nonnegative(cx, add(rest, x, c), fuel - 1) for x in branches):
                return True
    return False


_PARTS = frozenset({FloorDiv, Min, Max, Select})
