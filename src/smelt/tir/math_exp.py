"""Exponentials and hyperbolic functions as expression trees.

exp uses x = 2 m ln2 + r with |r| <= ln2 and returns p(r) * 2**m * 2**m: the two equal powers make
overflow to infinity and gradual underflow come out by themselves, for one more coefficient than
the usual |r| <= ln2 / 2 needs. The reduction is Cody and Waite's, Software Manual for the
Elementary Functions (1980).
"""

from __future__ import annotations

from smelt.ir.build import select
from smelt.ir.expr import Expr

from . import math_tables as tables
from .math_core import (
    LN2,
    LOG2_E,
    Format,
    clamp,
    copysign,
    fabs,
    fma,
    keep_tiny,
    poly,
    split,
)

_LOW = {"float32": -104.0, "float64": -746.0}
_HIGH = {"float32": 90.0, "float64": 711.0}


def _exp_parts(x: Expr, f: Format) -> tuple[Expr, Expr]:
    """p and s with exp(x) = p * s * s, for x between _LOW and _HIGH."""
    hi, lo = split(2 * LN2, f.fraction - 8)
    t = fma(x, float(LOG2_E / 2), f.magic)
    m = t - f.magic
    r = fma(m, -lo, fma(m, -hi, x))
    p = fma(r, fma(r, poly(r, tables.EXP[f.dtype]), 1.0), 1.0)
    return p, f.power(t)


def exp(x: Expr, f: Format) -> Expr:
    """e**x."""
    p, s = _exp_parts(clamp(x, _LOW[f.dtype], _HIGH[f.dtype]), f)
    return p * s * s


def exp2(x: Expr, f: Format) -> Expr:
    """2**x."""
    x = clamp(x, -151.0, 129.0) if f.fraction == 23 else clamp(x, -1076.0, 1025.0)
    t = fma(x, 0.5, f.magic)
    r = fma(t - f.magic, -2.0, x)
    s = f.power(t)
    return fma(r, poly(r, tables.EXP2[f.dtype]), 1.0) * s * s


def _expm1_parts(x: Expr, f: Format) -> tuple[Expr, Expr]:
    """p and t with exp(x) = (1 + p) * 2**n, t = n + magic."""
    hi, lo = split(LN2, f.fraction - 8)
    t = fma(x, float(LOG2_E), f.magic)
    n = t - f.magic
    r = fma(n, -lo, fma(n, -hi, x))
    return fma(r * r, poly(r, tables.EXPM1[f.dtype]), r), t


def expm1(x: Expr, f: Format) -> Expr:
    """e**x - 1, accurate near 0."""
    low = -18.0 if f.fraction == 23 else -38.0
    high = 88.8 if f.fraction == 23 else 709.9
    p, t = _expm1_parts(clamp(x, low, high), f)
    s = f.power(t - 1.0)
    y = fma(s, p, s - 0.5)
    return keep_tiny(x, 2.0 ** (-f.fraction - 2), y + y)


def sigmoid(x: Expr, f: Format) -> Expr:
    """1 / (1 + e**-x), as e**x / (1 + e**x) for negative x so that small results stay exact."""
    p, s = _exp_parts(clamp(copysign(x, f.number(-1.0)), _LOW[f.dtype], None), f)
    e = p * s * s
    return select(x < 0.0, e, f.number(1.0)) / (e + 1.0)


def tanh(x: Expr, f: Format) -> Expr:
    """The hyperbolic tangent, y / (y + 2) for y = expm1(2 |x|)."""
    a = clamp(fabs(x), None, 10.0 if f.fraction == 23 else 20.0)
    p, t = _expm1_parts(a + a, f)
    s = f.power(t)
    y = fma(s, p, s - 1.0)
    return copysign(y / (y + 2.0), x)


def _half_exp(a: Expr, f: Format) -> Expr:
    """e**a / 2, which overflows only where sinh does."""
    p, s = _exp_parts(clamp(a, None, _HIGH[f.dtype]), f)
    return p * s * (s * 0.5)


def sinh(x: Expr, f: Format) -> Expr:
    """The hyperbolic sine."""
    a = fabs(x)
    z = x * x
    h = _half_exp(a, f)
    near = fma(x * z, poly(z, tables.SINH[f.dtype]), x)
    return select(a < 1.0, near, copysign(h - 0.25 / h, x))


def cosh(x: Expr, f: Format) -> Expr:
    """The hyperbolic cosine."""
    h = _half_exp(fabs(x), f)
    return h + 0.25 / h


def erf(x: Expr, f: Format) -> Expr | None:
    """The error function, 1 - p(a)**8 from 1 on; float64 is left to the library."""
    if f.fraction != 23:
        return None
    a = clamp(fabs(x), None, 3.93)
    near = fma(a, poly(a * a, tables.ERF_NEAR), a)
    root = poly(a, tables.ERF_FAR)
    square = root * root
    fourth = square * square
    return copysign(select(a < 1.0, near, 1.0 - fourth * fourth), x)
