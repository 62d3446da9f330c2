"""Constant bounds and residues of atoms and polynomials."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any, TypeVar

from smelt.ir import dtype as dt
from smelt.ir import expr
from smelt.ir.node import postorder

from .context import Bounds, Context
from .interval_set import of_both, of_either
from .poly import INTS, Poly, factors


def type_bounds(dtype: str) -> Bounds:
    """The values of a narrow or unsigned type; int32 and int64 count as unbounded."""
    base = dt.scalar(dtype)
    if base in INTS or not (dt.is_int(base) or base == "bool"):
        return None, None
    return dt.limits(base)


def intersect(a: Bounds, b: Bounds) -> Bounds:
    """What lies in both."""
    return of_either(max, a[0], b[0]), of_either(min, a[1], b[1])


def union(a: Bounds, b: Bounds) -> Bounds:
    """What contains both."""
    return of_both(min, a[0], b[0]), of_both(max, a[1], b[1])


def multiply(a: Bounds, b: Bounds) -> Bounds:
    """The products of members."""
    (al, ah), (bl, bh) = a, b
    if al is not None and ah is not None and bl is not None and bh is not None:
        products = (al * bl, al * bh, ah * bl, ah * bh)
        return min(products), max(products)
    low: int | None = None
    high: int | None = None
    if al is not None and bl is not None and al >= 0 and bl >= 0:
        low = al * bl
    elif ah is not None and bh is not None and ah <= 0 and bh <= 0:
        low = ah * bh
    elif al is not None and bh is not None and al >= 0 and bh <= 0:
        high = al * bh
    elif ah is not None and bl is not None and ah <= 0 and bl >= 0:
        high = ah * bl
    return low, high


def poly_bounds(cx: Context, p: Poly) -> Bounds:
    """Inclusive constant bounds of a polynomial, term by term."""
    low: int | None = p.const
    high: int | None = p.const
    known = cx.known
    for t, c in p.terms.items():
        b = known.get(t)
        if b is None:
            b = atom_bounds(cx, t)
        tl, th = b if c > 0 else (b[1], b[0])
        low = None if low is None or tl is None else low + tl * c
        high = None if high is None or th is None else high + th * c
        if low is None and high is None:
            break
    return low, high


def expr_bounds(cx: Context, e: expr.Expr) -> Bounds:
    """Inclusive constant bounds of any integer or bool expression."""
    if e.dtype in INTS:
        p = cx.poly(e)
        return intersect(poly_bounds(cx, p), _stated(cx, p)) if cx.facts else poly_bounds(cx, p)
    if isinstance(e, expr.IntImm):
        return e.value, e.value
    if not (dt.is_int(e.dtype) or dt.kind(e.dtype) == "bool"):
        return None, None
    return atom_bounds(cx, cx.simplify(e))


def _stated(cx: Context, p: Poly) -> Bounds:
    """What the facts say about the same sum: p + c >= 0 or -p + c >= 0."""
    low: int | None = None
    high: int | None = None
    for f in cx.facts:
        if f.terms == p.terms:
            low = p.const - f.const if low is None else max(low, p.const - f.const)
        elif len(f.terms) == len(p.terms) and f.terms == {t: -c for t, c in p.terms.items()}:
            high = p.const + f.const if high is None else min(high, p.const + f.const)
    return low, high


def atom_bounds(cx: Context, e: expr.Expr) -> Bounds:
    """Inclusive constant bounds of one simplified term."""
    found = cx.known.get(e)
    if found is None:
        stated = cx.ranges.get(e)
        rule = _RULES.get(type(e))
        if rule is not None:
            found = rule(cx, e)
            if stated is not None:
                found = intersect(found, stated)
        elif stated is not None:
            found = stated
        else:
            found = type_bounds(e.dtype)
        cx.known[e] = found
    return found


def _constant(cx: Context, e: expr.IntImm) -> Bounds:
    return e.value, e.value


def _product(cx: Context, e: expr.Mul) -> Bounds:
    if e.dtype not in INTS:
        return type_bounds(e.dtype)
    chain = [e]  # products lean to the left, and may do so for long
    while type(e.a) is expr.Mul and e.a not in cx.known:
        e = e.a
        chain.append(e)
    found: Bounds = None, None
    for m in reversed(chain):
        if m.a is m.b:
            found = _square(*_of(cx, m.a))
        else:
            first = cx.known[m.a] if type(m.a) is expr.Mul else _of(cx, m.a)
            found = multiply(first, _of(cx, m.b))
        cx.known[m] = found
    return found


def _square(low: int | None, high: int | None) -> Bounds:
    least = 0
    if low is not None and low > 0:
        least = low * low
    elif high is not None and high < 0:
        least = high * high
    return least, None if low is None or high is None else max(low * low, high * high)


def _of(cx: Context, e: expr.Expr) -> Bounds:
    """Bounds of an operand of an atom, by its normal form where it has one."""
    return poly_bounds(cx, cx.poly(e)) if e.dtype in INTS else atom_bounds(cx, e)


def _floor_div(cx: Context, e: expr.FloorDiv) -> Bounds:
    (al, ah), (bl, bh) = _of(cx, e.a), _of(cx, e.b)
    if bl is None or bl <= 0:
        return type_bounds(e.dtype)
    low: int | None
    high: int | None
    if al is None:
        low = None
    elif al < 0:
        low = al // bl
    else:
        low = 0 if bh is None else al // bh
    if ah is None:
        high = None
    elif ah >= 0:
        high = ah // bl
    else:
        high = -1 if bh is None else ah // bh
    return low, high


def _floor_mod(cx: Context, e: expr.FloorMod) -> Bounds:
    (al, ah), (bl, bh) = _of(cx, e.a), _of(cx, e.b)
    if bl is None or bl <= 0:
        return type_bounds(e.dtype)
    high = None if bh is None else bh - 1
    if al is not None and al >= 0 and ah is not None:
        high = ah if high is None else min(high, ah)
    return 0, high


def _trunc_mod(cx: Context, e: expr.TruncMod) -> Bounds:
    (al, ah), (bl, bh) = _of(cx, e.a), _of(cx, e.b)
    if bl is None or bh is None or bl <= 0:
        return type_bounds(e.dtype)
    return (0 if al is not None and al >= 0 else 1 - bh), (
        0 if ah is not None and ah <= 0 else bh - 1
    )


def _trunc_div(cx: Context, e: expr.Div | expr.TruncDiv) -> Bounds:
    (al, ah), (bl, _) = _of(cx, e.a), _of(cx, e.b)
    if bl is None or bl <= 0:
        return type_bounds(e.dtype)
    low = None if al is None else -(-al // bl) if al < 0 else 0
    high = None if ah is None else ah // bl if ah > 0 else 0
    return low, high


def _extreme(cx: Context, e: expr.Min | expr.Max) -> Bounds:
    a, b = _of(cx, e.a), _of(cx, e.b)
    inner, outer = intersect(a, b), union(a, b)
    return (outer[0], inner[1]) if isinstance(e, expr.Min) else (inner[0], outer[1])


def _select(cx: Context, e: expr.Select) -> Bounds:
    return union(_of(cx, e.true_value), _of(cx, e.false_value))


def _call(cx: Context, e: expr.Call) -> Bounds:
    if e.op == "if_then_else":
        return union(_of(cx, e.args[1]), _of(cx, e.args[2]))
    if e.op == "abs" and e.dtype in INTS:
        low, high = _of(cx, e.args[0])
        return 0, None if low is None or high is None else max(-low, high)
    return type_bounds(e.dtype)


def _cast(cx: Context, e: expr.Cast) -> Bounds:
    inner, own = e.value.dtype, type_bounds(e.dtype)
    if not (dt.is_int(inner) or dt.kind(inner) == "bool"):
        return own
    b = _of(cx, e.value)
    return b if fits(b, e.dtype) else own


def fits(b: Bounds, dtype: str) -> bool:
    """Whether every value within the bounds can be stored in the type."""
    if dt.kind(dtype) not in ("int", "uint", "bool"):
        return False
    low, high = dt.limits(dtype)
    return b[0] is not None and b[1] is not None and low <= b[0] and b[1] <= high


_RULES: dict[type, Callable[[Context, Any], Bounds]] = {
    expr.IntImm: _constant,
    expr.Mul: _product,
    expr.FloorDiv: _floor_div,
    expr.FloorMod: _floor_mod,
    **dict.fromkeys((expr.Min, expr.Max), _extreme),
    expr.TruncMod: _trunc_mod,
    **dict.fromkeys((expr.TruncDiv, expr.Div), _trunc_div),
    expr.Select: _select,
    expr.Call: _call,
    expr.Cast: _cast,
}


# ------------------------------------------------------------------------------------ residues


def residue(cx: Context, p: Poly) -> tuple[int, int]:
    """(coefficient, base): the value is coefficient * q + base; coefficient 0 for a constant."""
    coefficient, base = 0, p.const
    for t, c in p.terms.items():
        m, r = atom_residue(cx, t)
        coefficient = gcd(coefficient, m * c)
        base += r * c
        if coefficient == 1:
            return 1, 0
    return (coefficient, base % coefficient) if coefficient else (0, base)


def atom_residue(cx: Context, e: expr.Expr) -> tuple[int, int]:
    """The residue of one simplified term."""
    found = cx.moduli.get(e) or cx.residues.get(e)
    if found is None:
        rule = _RESIDUES.get(type(e))
        found = cx.residues[e] = (1, 0) if rule is None else rule(cx, e)
    return found


def _product_residue(cx: Context, e: expr.Mul) -> tuple[int, int]:
    coefficient, base = 0, 1
    for x in factors(e):
        m, r = residue(cx, cx.poly(x))
        coefficient, base = gcd(coefficient * m, coefficient * r, base * m), base * r
        if coefficient == 1:
            return 1, 0
    return (coefficient, base % coefficient) if coefficient else (0, base)


def _remainder_residue(cx: Context, e: expr.FloorMod) -> tuple[int, int]:
    """x % d = x - k*d: what divides both moduli divides the difference from x."""
    m, r = residue(cx, cx.poly(e.a))
    d, s = residue(cx, cx.poly(e.b))
    c = gcd(m, d, s)
    return (c, r % c) if c > 1 and (d or s) else (1, 0)


def _either_residue(cx: Context, e: expr.Min | expr.Max | expr.Select) -> tuple[int, int]:
    a, b = (e.true_value, e.false_value) if isinstance(e, expr.Select) else (e.a, e.b)
    (ma, ra), (mb, rb) = residue(cx, cx.poly(a)), residue(cx, cx.poly(b))
    c = gcd(ma, mb, ra - rb)
    return (c, ra % c) if c else (0, ra)


_RESIDUES: dict[type, Callable[[Context, Any], tuple[int, int]]] = {
    expr.Mul: _product_residue,
    expr.FloorMod: _remainder_residue,
    **dict.fromkeys((expr.Min, expr.Max, expr.Select), _either_residue),
}


# -------------------------------------------------------------------------------------- depth

_T = TypeVar("_T")


def deep(cx: Context, run: Callable[[], _T], *exprs: expr.Expr) -> _T:
    """The result of a function; parts of expressions nested too deeply are precomputed."""
    try:
        return run()
    except RecursionError:
        for e in exprs:
            precompute(cx, e)
        return run()


def precompute(cx: Context, e: expr.Expr) -> None:
    """Derives what is known of each part, the operands first: each step is a short one then."""
    for part in postorder(e):
        if isinstance(part, expr.Expr):
            cx.simplify(part)
            if part.dtype in INTS:
                for t in cx.poly(part).terms:
                    atom_bounds(cx, t)
                    atom_residue(cx, t)
