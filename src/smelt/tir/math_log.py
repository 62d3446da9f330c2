"""Logarithms, inverse hyperbolic functions and pow as expression trees.

x = 2**e * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), log(1 + f) = f - f**2 / 2 + f**3 q(f). For
log1p the exponent is taken from 1 + x and f is formed from x itself, so that nothing is lost.
"""

from __future__ import annotations

from fractions import Fraction

from smelt.ir.build import all_of, any_of, call, equal, logical_not, select
from smelt.ir.expr import Expr, cast

from . import math_core
from . import math_tables as tables

_INF = float("inf")
_NAN = float("nan")


def _frexp(x: Expr, f: math_core.Format) -> tuple[Expr, Expr]:
    """e as an integer and m in [sqrt(1/2), sqrt(2)) with x = m * 2**e, for positive normal x."""
    root = f.bits_of(0.5**0.5)
    k = f.bits(x) - root
    m = f.from_bits(math_core.bit_and(k, (1 << f.fraction) - 1) + root)
    return math_core.shift_right(k, f.fraction), m


def _reduce(x: Expr, f: math_core.Format) -> tuple[Expr, Expr]:
    """e and f as floats with x = 2**e * (1 + f), subnormals included."""
    small = x < f.tiny
    shift = f.fraction + 2
    e, m = _frexp(select(small, x * 2.0**shift, x), f)
    n = cast(f.dtype, e)
    return select(small, n - float(shift), n), m - 1.0


def _specials(x: Expr, y: Expr, f: math_core.Format) -> Expr:
    """`y` = log(x) put right for 0, infinity, NaN and negative numbers."""
    y = select(x > 0.0, y, f.number(_NAN))
    y = select(equal(x, 0.0), f.number(-_INF), y)
    return select(equal(x, _INF), x, y)


def _tail(v: Expr, f: math_core.Format) -> Expr:
    """log(1 + v) - v."""
    return v * v * math_core.fma(v, math_core.poly(v, tables.LOG[f.dtype]), -0.5)


def _natural(n: Expr, v: Expr, f: math_core.Format) -> Expr:
    """n * ln2 + log(1 + v)."""
    hi, lo = math_core.split(math_core.LN2, f.fraction - 8)
    return math_core.fma(n, hi, v + math_core.fma(n, lo, _tail(v, f)))


def log(x: Expr, f: math_core.Format) -> Expr:
    """The natural logarithm."""
    return _specials(x, _natural(*_reduce(x, f), f), f)


def _scaled_log(v: Expr, base: Fraction, f: math_core.Format) -> Expr:
    """base * log(1 + v), `base` taken in two parts."""
    hi, lo = math_core.split(base, f.fraction)
    return math_core.fma(v, hi, math_core.fma(v, lo, _tail(v, f) * float(base)))


def log2(x: Expr, f: math_core.Format) -> Expr:
    """The binary logarithm, exact for powers of two."""
    n, v = _reduce(x, f)
    return _specials(x, n + _scaled_log(v, math_core.LOG2_E, f), f)


def log10(x: Expr, f: math_core.Format) -> Expr:
    """The decimal logarithm."""
    n, v = _reduce(x, f)
    hi, lo = math_core.split(math_core.LOG10_2, f.fraction - 8)
    return _specials(
        x, math_core.fma(n, hi, math_core.fma(n, lo, _scaled_log(v, math_core.LOG10_E, f))), f
    )


def log1p(x: Expr, f: math_core.Format) -> Expr:
    """log(1 + x), accurate near 0."""
    u = x + 1.0
    k = f.bits(u) - f.bits_of(0.5**0.5)
    high = math_core.bit_and(k, f.exponent_mask)
    four = f.from_bits(f.bits_of(4.0) - high)
    v = f.from_bits(f.bits(x) - high) + math_core.fma(four, 0.25, -1.0)
    y = _natural(cast(f.dtype, math_core.shift_right(k, f.fraction)), v, f)
    return _specials(u, select(equal(x, 0.0), x, y), f)


def _log1p_plus(t: Expr, big: Expr, f: math_core.Format) -> Expr:
    """log1p(t), with ln2 added where `big`."""
    y = log1p(t, f)
    return select(big, y + float(math_core.LN2), y)


def asinh(x: Expr, f: math_core.Format) -> Expr:
    """The inverse hyperbolic sine: log1p(a + a**2 / (1 + sqrt(1 + a**2))), log(2 a) for large a."""
    a = math_core.fabs(x)
    big = a > 2.0 ** (f.fraction // 2 + 2)
    z = a * a
    t = a + z / (call("sqrt", z + 1.0) + 1.0)
    return math_core.copysign(_log1p_plus(select(big, a - 1.0, t), big, f), x)


def acosh(x: Expr, f: math_core.Format) -> Expr:
    """The inverse hyperbolic cosine: log1p(t + sqrt(t (t + 2))) for t = x - 1."""
    t = x - 1.0
    big = x > 2.0 ** (f.fraction // 2 + 2)
    y = _log1p_plus(select(big, t, t + call("sqrt", t * (t + 2.0))), big, f)
    return select(x < 1.0, f.number(_NAN), y)


def atanh(x: Expr, f: math_core.Format) -> Expr:
    """The inverse hyperbolic tangent: log1p(2 a / (1 - a)) / 2."""
    a = math_core.fabs(x)
    return math_core.copysign(log1p((a + a) / (1.0 - a), f) * 0.5, x)


def pow(x: Expr, y: Expr, f: math_core.Format) -> Expr:
    """x**y in float32, computed in float64."""
    d = math_core.FLOAT64
    a, wide = math_core.fabs(cast(d.dtype, x)), cast(d.dtype, y)
    result = cast(f.dtype, _exp2_wide(wide * _log2_wide(a)))
    whole = equal(call("floor", y), y)
    half = y * 0.5
    odd = all_of(whole, logical_not(equal(call("floor", half), half)))
    result = select(
        all_of(x < 0.0, logical_not(any_of(whole, math_core.is_inf(x)))), f.number(_NAN), result
    )
    negative = math_core.bit_and(f.bits(x), f.sign)
    result = select(odd, f.from_bits(math_core.bit_or(f.bits(result), negative)), result)
    unit = all_of(equal(math_core.fabs(x), 1.0), math_core.is_inf(y))
    return select(any_of(equal(x, 1.0), equal(y, 0.0), unit), f.number(1.0), result)


def _log2_wide(a: Expr) -> Expr:
    """log2 of a float64 that came from a nonnegative float32, to about 40 bits."""
    d = math_core.FLOAT64
    e, m = _frexp(a, d)
    s = (m - 1.0) / (m + 1.0)
    y = math_core.fma(s, math_core.poly(s * s, tables.POW_LOG2), cast(d.dtype, e))
    return select(equal(a, 0.0), d.number(-_INF), select(a < _INF, y, a))


def _exp2_wide(x: Expr) -> Expr:
    """2**x in float64 to about 30 bits, held where float32 has long become 0 or infinity."""
    d = math_core.FLOAT64
    x = math_core.clamp(x, -160.0, 140.0)
    t = x + d.magic
    return math_core.poly(x - (t - d.magic), tables.POW_EXP2) * d.power(t)
