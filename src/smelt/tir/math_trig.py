"""Trigonometric functions and their inverses as expression trees.

sin, cos and tan of float32 reduce every finite argument alike, in float64, after the idea of Payne
and Hanek (SIGNUM Newsletter 18, 1983): x * 2/pi needs only some bits of 2/pi, those that neither
give a multiple of 4 nor vanish. Three pieces (30, 29 and 53 bits) starting at one of four places,
chosen by comparisons, serve all exponents; the first two products are exact in float64.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from smelt.ir.build import all_of, any_of, call, equal, select
from smelt.ir.expr import Expr, cast

from . import math_core
from . import math_tables as tables

_PIECE = 29
_WINDOWS = 4
TWO_OVER_PI = Fraction(
    0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A, 1 << 288
)


def _pieces() -> list[tuple[float, float, float]]:
    """For each window the leading two 29-bit pieces of 2/pi and the 53 bits that follow."""
    scaled = [int(TWO_OVER_PI * (1 << (_PIECE * (i + 1)))) for i in range(_WINDOWS + 2)]
    new = [s - (before << _PIECE) for before, s in pairwise([0, *scaled])]
    piece = [Fraction(s, 1 << (_PIECE * (i + 1))) for i, s in enumerate(new)]
    rest = [TWO_OVER_PI - Fraction(s, 1 << (_PIECE * (i + 1))) for i, s in enumerate(scaled)]
    return [(float(piece[i]), float(piece[i + 1]), float(rest[i + 1])) for i in range(_WINDOWS)]


def _quarter_turns(x: Expr, f: math_core.Format) -> tuple[Expr, Expr]:
    """The quadrant (low two bits of an int32) and the angle left, within pi / 4, as float32.

    Window i is used from 2**(54 + 29 (i - 1)) on: below, the pieces before it still matter;
    from there on, they give whole turns. The rest is left out where it stays under 2**-56.
    """
    d = math_core.FLOAT64
    a, wide = math_core.fabs(x), cast(d.dtype, x)
    windows = _pieces()
    picked = [d.number(c) for c in windows[0]]
    for i in range(1, _WINDOWS):
        beyond = a >= 2.0 ** (54 + _PIECE * (i - 1))
        picked = [select(beyond, d.number(c), p) for c, p in zip(windows[i], picked, strict=True)]
    first, second, third = (wide * p for p in picked)
    first = math_core.fma(call("round", first * 0.25), -4.0, first)
    turns, more = call("round", first), call("round", second)
    g, h = first - turns, second - more
    carry = call("round", g + h)
    angle = ((g - carry) + h) + third
    quadrant = cast(f.integer, math_core.bit_and(d.bits((turns + more) + carry + d.magic), 3))
    return quadrant, cast(f.dtype, angle * float(math_core.PI / 2))


def _sin_cos(x: Expr, f: math_core.Format) -> tuple[Expr, Expr, Expr]:
    """The quadrant, and both functions of the angle left."""
    q, r = _quarter_turns(x, f)
    z = r * r
    s = math_core.fma(r * z, math_core.poly(z, tables.SIN), r)
    c = math_core.fma(z * z, math_core.poly(z, tables.COS), math_core.fma(z, -0.5, 1.0))
    return q, s, c


def _flip(value: Expr, quadrant: Expr, f: math_core.Format) -> Expr:
    """`value` negated where bit 1 of `quadrant` is set."""
    sign = math_core.shift_left(math_core.shift_right(quadrant, 1), 31)
    return f.from_bits(math_core.bit_xor(f.bits(value), sign))


def _odd(quadrant: Expr) -> Expr:
    return equal(math_core.bit_and(quadrant, 1), 1)


def sin(x: Expr, f: math_core.Format) -> Expr:
    """The sine; float32 only."""
    q, s, c = _sin_cos(x, f)
    return math_core.keep_tiny(x, 2.0**-13, _flip(select(_odd(q), c, s), q, f))


def cos(x: Expr, f: math_core.Format) -> Expr:
    """The cosine; float32 only."""
    q, s, c = _sin_cos(x, f)
    return _flip(select(_odd(q), s, c), q + 1, f)


def tan(x: Expr, f: math_core.Format) -> Expr:
    """The tangent; float32 only."""
    q, s, c = _sin_cos(x, f)
    odd = _odd(q)
    sign = math_core.shift_left(q, 31)
    top = f.from_bits(math_core.bit_xor(f.bits(select(odd, c, s)), sign))
    return math_core.keep_tiny(x, 2.0**-13, top / select(odd, s, c))


def _arc(a: Expr, f: math_core.Format) -> tuple[Expr, Expr]:
    """Whether a > 1/2, and asin(a), or asin(sqrt((1 - a) / 2)) where it is."""
    big = a > 0.5
    z = select(big, math_core.fma(a, -0.5, 0.5), a * a)
    s = select(big, call("sqrt", z), a)
    return big, math_core.fma(s * z, math_core.poly(z, tables.ASIN[f.dtype]), s)


def asin(x: Expr, f: math_core.Format) -> Expr:
    """The inverse sine: pi/2 - 2 asin(sqrt((1 - a) / 2)) beyond 1/2."""
    big, r = _arc(math_core.fabs(x), f)
    hi, lo = math_core.split(math_core.PI / 2, f.fraction - 1)
    return math_core.copysign(select(big, hi - math_core.fma(r, 2.0, -lo), r), x)


def acos(x: Expr, f: math_core.Format) -> Expr:
    """The inverse cosine."""
    big, r = _arc(math_core.fabs(x), f)
    hi, lo = math_core.split(math_core.PI / 2, f.fraction - 1)
    outer = select(x < 0.0, 2.0 * hi - math_core.fma(r, 2.0, -2.0 * lo), r + r)
    return select(big, outer, hi - (math_core.copysign(r, x) - lo))


def _atan_unit(q: Expr, f: math_core.Format) -> Expr:
    """atan for 0 <= q <= 1."""
    z = q * q
    return math_core.fma(q * z, math_core.poly(z, tables.ATAN[f.dtype]), q)


def atan(x: Expr, f: math_core.Format) -> Expr:
    """The inverse tangent: pi/2 - atan(1 / a) beyond 1."""
    a = math_core.fabs(x)
    big, one = a > 1.0, f.number(1.0)
    r = _atan_unit(select(big, one, a) / select(big, a, one), f)
    hi, lo = math_core.split(math_core.PI / 2, f.fraction - 1)
    return math_core.copysign(select(big, hi - (r - lo), r), x)


def atan2(y: Expr, x: Expr, f: math_core.Format) -> Expr:
    """The angle of the point (x, y), all the signed zeros and infinities as in C."""
    a, b = math_core.fabs(x), math_core.fabs(y)
    steep = b > a
    small, large = select(steep, a, b), select(steep, b, a)
    q = select(equal(large, 0.0), f.number(0.0), small / large)
    q = select(all_of(math_core.is_inf(x), math_core.is_inf(y)), f.number(1.0), q)
    r = _atan_unit(q, f)
    hi, lo = math_core.split(math_core.PI / 2, f.fraction - 1)
    r = select(steep, hi - (r - lo), r)
    negative = f.bits(x) < 0
    r = select(negative, 2.0 * hi - (r - 2.0 * lo), r)
    return select(any_of(math_core.is_nan(x), math_core.is_nan(y)), x + y, math_core.copysign(r, y))
