"""Quotients and remainders, rounding toward minus infinity."""

from __future__ import annotations

from math import gcd

from smelt.ir import dtype as dt
from smelt.ir.expr import Div, Expr, FloorDiv, FloorMod, IntImm, TruncDiv, TruncMod

from .bounds import poly_bounds, residue
from .context import Context, integer_rule, opaque
from .poly import ZERO, Poly, add, atom, factors, scale, subtract
from .prove import nonnegative, positive


@integer_rule(FloorDiv)
def _floor_div(cx: Context, e: FloorDiv) -> Poly:
    return quotient(cx, cx.poly(e.a), cx.poly(e.b), e.dtype)


@integer_rule(FloorMod)
def _floor_mod(cx: Context, e: FloorMod) -> Poly:
    return remainder(cx, cx.poly(e.a), cx.poly(e.b), e.dtype)


@integer_rule(Div, TruncDiv)
def _trunc_div(cx: Context, e: Div | TruncDiv) -> Poly:
    """truncdiv(a, b) = a // b  where a >= 0, b > 0;  = -(-a // b)  where a <= 0, b > 0."""
    a, b = cx.poly(e.a), cx.poly(e.b)
    if positive(cx, b):
        if nonnegative(cx, a):
            return quotient(cx, a, b, e.dtype)
        if nonnegative(cx, scale(a, -1)):
            return scale(quotient(cx, scale(a, -1), b, e.dtype), -1)
    return opaque(cx, e)


@integer_rule(TruncMod)
def _trunc_mod(cx: Context, e: TruncMod) -> Poly:
    """truncmod(a, b) = a % b  where a >= 0, b > 0."""
    a, b = cx.poly(e.a), cx.poly(e.b)
    if positive(cx, b) and nonnegative(cx, a):
        return remainder(cx, a, b, e.dtype)
    return opaque(cx, e)


def quotient(cx: Context, p: Poly, d: Poly, dtype: str) -> Poly:
    """p // d."""
    if d.terms:
        return _symbolic(cx, p, d, dtype)[0]
    c = d.const
    if c == 0:
        return atom(FloorDiv(cx.build(p, dtype), IntImm(dtype, 0)))
    return _quotient(cx, p if c > 0 else scale(p, -1), abs(c), dtype)


def remainder(cx: Context, p: Poly, d: Poly, dtype: str) -> Poly:
    """p % d."""
    if d.terms:
        return _symbolic(cx, p, d, dtype)[1]
    c = d.const
    if c == 0:
        return atom(FloorMod(cx.build(p, dtype), IntImm(dtype, 0)))
    # p % -c = -(-p % c)
    return (
        _remainder(cx, p, c, dtype) if c > 0 else scale(_remainder(cx, scale(p, -1), -c, dtype), -1)
    )


# ---------------------------------------------------------------------------- constant divisors


def _quotient(cx: Context, p: Poly, c: int, dtype: str) -> Poly:
    """(x*c + y) // c  =  x + y // c."""
    if c == 1:
        return p
    whole = {t: k // c for t, k in p.terms.items() if k % c == 0}
    whole_const = p.const // c
    if len(whole) == len(p.terms):
        return Poly(whole, whole_const)
    r = Poly({t: k for t, k in p.terms.items() if k % c}, p.const % c)
    low, high = poly_bounds(cx, r)
    if low is not None and high is not None and low // c == high // c:
        return Poly(whole, whole_const + low // c)
    return add(Poly(whole, whole_const), _proper_quotient(cx, r, c, dtype))


def _proper_quotient(cx: Context, r: Poly, c: int, dtype: str) -> Poly:
    """r // c where no coefficient is a multiple of c and 0 <= r.const < c."""
    g = gcd(c, r.content())
    if g > 1:
        # (x*g + m) // (d*g)  =  (x + m // g) // d
        return _quotient(cx, r.divided(g), c // g, dtype)
    parts = _parts(cx, r, c)
    if parts is not None:
        return _quotient(cx, parts[1], c // parts[0], dtype)
    if len(r.terms) == 1:
        ((t, k),) = r.terms.items()
        if abs(k) > c:
            s = k // c if k > 0 else -(-k // c)
            return add(atom(t, s), _quotient(cx, Poly({t: k - s * c}, r.const), c, dtype))
        if k == 1 and type(t) is FloorDiv and isinstance(t.b, IntImm) and t.b.value > 0:
            # (x // a + m) // c  =  (x + m*a) // (a*c), where a*c is a number of the type
            inner = add(Poly({}, r.const * t.b.value), cx.poly(t.a))
            if c * t.b.value <= dt.limits(dtype)[1]:
                return _quotient(cx, inner, c * t.b.value, dtype)
        match t:
            case FloorMod(a=x, b=IntImm(value=n)) if (
                (k, r.const) == (1, 0) and n > 0 and n % c == 0
            ):
                # (x % (a*c)) // c  =  x // c % a
                return _remainder(cx, _quotient(cx, cx.poly(x), c, dtype), n // c, dtype)
    return atom(FloorDiv(cx.build(r, dtype), IntImm(dtype, c)))


def _parts(cx: Context, r: Poly, c: int) -> tuple[int, Poly, Poly] | None:
    """g, x and y with r = x*g + y, 0 <= y < g and g a divisor of c."""
    if len(r.terms) == 1 and not r.const:
        return None
    for g in sorted({gcd(c, k) for k in r.terms.values()}, reverse=True):
        if g == 1:
            break
        y = Poly({t: k for t, k in r.terms.items() if k % g}, r.const)
        low, high = poly_bounds(cx, y)
        if low is not None and high is not None and low // g == high // g:
            x = {t: k // g for t, k in r.terms.items() if k % g == 0}
            return g, Poly(x, low // g), Poly(y.terms, y.const - low // g * g)
    return None


def _remainder(cx: Context, p: Poly, c: int, dtype: str) -> Poly:
    """(x*c + y) % c  =  y % c."""
    r = Poly({t: k for t, k in p.terms.items() if k % c}, p.const % c)
    if not r.terms:
        return r
    low, high = poly_bounds(cx, r)
    if low is not None and high is not None and low // c == high // c:
        return Poly(r.terms, r.const - low // c * c)
    m, base = residue(cx, r)
    if m and m % c == 0:
        return Poly({}, base % c)
    g = gcd(c, r.content())
    if g > 1:
        # (x*g + m) % (d*g)  =  (x + m // g) % d * g + m % g
        inner = _remainder(cx, r.divided(g), c // g, dtype)
        return add(scale(inner, g), Poly({}, r.const % g))
    parts = _parts(cx, r, c)
    if parts is not None:
        g, x, y = parts
        return add(scale(_remainder(cx, x, c // g, dtype), g), y)
    for t, k in r.terms.items():
        # with further terms only where k is 1: x % a * k is a digit of a fused index
        alone = len(r.terms) == 1 or abs(k) == 1
        match t:
            case FloorMod(a=whole, b=IntImm(value=n)) if alone and n and not n * k % c:
                # (x % (a*c) + y) % c  =  (x + y) % c
                return _remainder(cx, add(subtract(r, atom(t, k)), cx.poly(whole), k), c, dtype)
    if len(r.terms) == 1:
        ((t, k),) = r.terms.items()
        if abs(k) > c:
            return _remainder(cx, Poly({t: k % c if k > 0 else -(-k % c)}, r.const), c, dtype)
    return atom(FloorMod(cx.build(r, dtype), IntImm(dtype, c)))


# ---------------------------------------------------------------------------- symbolic divisors


def _symbolic(cx: Context, p: Poly, d: Poly, dtype: str) -> tuple[Poly, Poly]:
    """Quotient and remainder by a divisor that is not a constant (and not 0)."""
    q, r = _long_division(cx, p, d)
    if not r.terms and r.const == 0:
        return q, r
    if nonnegative(cx, r):
        if positive(cx, subtract(d, r)):
            return q, r
    elif positive(cx, scale(r, -1)) and nonnegative(cx, add(r, d)):
        return Poly(q.terms, q.const - 1), add(r, d)
    split = _common_factor(cx, r, d)
    if split is not None:
        g, x, y = split
        inner_q, inner_r = _divide(cx, x, _over(cx, d, g), dtype)
        return add(q, inner_q), add(cx.order.multiply(inner_r, g), y)
    t = r.single()
    if type(t) is FloorDiv and positive(cx, cx.poly(t.b)) and positive(cx, d):
        # (x // a) // d  =  x // (a*d)
        below = cx.order.multiply(cx.poly(t.b), d)
        nested = quotient(cx, cx.poly(t.a), below, dtype)
        return add(q, nested), atom(FloorMod(t, cx.build(d, dtype)))
    top, bottom = cx.build(r, dtype), cx.build(d, dtype)
    return add(q, atom(FloorDiv(top, bottom))), atom(FloorMod(top, bottom))


def _divide(cx: Context, p: Poly, d: Poly, dtype: str) -> tuple[Poly, Poly]:
    if d.terms:
        return _symbolic(cx, p, d, dtype)
    return quotient(cx, p, d, dtype), remainder(cx, p, d, dtype)


def _over_monomial(cx: Context, t: Expr, lead: Expr) -> Poly | None:
    """t / lead where the atoms of lead are among those of t."""
    items = factors(t)
    for x in factors(lead):
        if x not in items:
            return None
        items.remove(x)
    return atom(cx.order.product(items)) if items else Poly({}, 1)


def _long_division(cx: Context, p: Poly, d: Poly) -> tuple[Poly, Poly]:
    """q and r with p = d*q + r, by the leading term of d."""
    lead, k = max(d.terms.items(), key=lambda tc: (len(factors(tc[0])), cx.order.key(tc[0])))
    q, r = ZERO, p
    for t, c in p.terms.items():
        if c % k == 0 and t in r.terms and r.terms[t] == c:
            part = _over_monomial(cx, t, lead)
            if part is not None:
                part = scale(part, c // k)
                q, r = add(q, part), subtract(r, cx.order.multiply(part, d))
    return q, r


def _over(cx: Context, d: Poly, g: Poly) -> Poly:
    """d / g for a single-term d and a monomial g that divides it."""
    ((t, c),) = d.terms.items()
    ((s, _),) = g.terms.items()
    part = _over_monomial(cx, t, s)
    assert part is not None
    return scale(part, c)


def _common_factor(cx: Context, r: Poly, d: Poly) -> tuple[Poly, Poly, Poly] | None:
    """g, x and y with r = x*g + y, 0 <= y < g, where the monomial g divides d."""
    if len(d.terms) != 1 or d.const:
        return None
    ((whole, k),) = d.terms.items()
    candidates = [whole] if abs(k) > 1 else []
    if len(factors(whole)) > 1:
        candidates += dict.fromkeys(factors(whole))
    for monomial in candidates:
        x, y = ZERO, Poly({}, r.const)
        for t, c in r.terms.items():
            part = _over_monomial(cx, t, monomial)
            x, y = (x, add(y, atom(t, c))) if part is None else (add(x, part, c), y)
        if x.terms or x.const:
            g = atom(monomial)
            if nonnegative(cx, y) and positive(cx, subtract(g, y)):
                return g, x, y
    return None
