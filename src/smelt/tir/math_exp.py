"""Exponentials and hyperbolic functions as expression trees.

exp uses x = 2 m ln2 + r with |r| <= ln2 and returns p(r) * 2**m * 2**m: the two equal powers make
overflow to infinity and gradual underflow come out by themselves, for one more coefficient than
the usual |r| <= ln2 / 2 needs. The reduction is Cody and Waite's, Software Manual for the
Elementary Functions (1980).
"""

from __future__ import annotations

from smelt.ir.build import select
from smelt.ir.expr import Expr

from . import math_core
from . import math_tables as tables

_LOW = {"float32": -104.0, "float64": -746.0}
_HIGH = {"float32": 90.0, "float64": 711.0}


def _exp_parts(x: Expr, f: math_core.Format) -> tuple[Expr, Expr]:
    """p and s with exp(x) = p * s * s, for x between _LOW and _HIGH."""
    hi, lo = math_core.split(2 * math_core.LN2, f.fraction - 8)
    t = math_core.fma(x, float(math_core.LOG2_E / 2), f.magic)
    m = t - f.magic
    r = math_core.fma(m, -lo, math_core.fma(m, -hi, x))
    p = math_core.fma(r, math_core.fma(r, math_core.poly(r, tables.EXP[f.dtype]), 1.0), 1.0)
    return p, f.power(t)


def exp(x: Expr, f: math_core.Format) -> Expr:
    """e**x."""
    p, s = _exp_parts(math_core.clamp(x, _LOW[f.dtype], _HIGH[f.dtype]), f)
    return p * s * s


def exp2(x: Expr, f: math_core.Format) -> Expr:
    """2**x."""
    x = math_core.clamp(x, *((-151.0, 129.0) if f.fraction == 23 else (-1076.0, 1025.0)))
    t = math_core.fma(x, 0.5, f.magic)
    r = math_core.fma(t - f.magic, -2.0, x)
    s = f.power(t)
    return math_core.fma(r, math_core.poly(r, tables.EXP2[f.dtype]), 1.0) * s * s


def _expm1_parts(x: Expr, f: math_core.Format) -> tuple[Expr, Expr]:
    """p and t with exp(x) = (1 + p) * 2**n, t = n + magic."""
    hi, lo = math_core.split(math_core.LN2, f.fraction - 8)
    t = math_core.fma(x, float(math_core.LOG2_E), f.magic)
    n = t - f.magic
    r = math_core.fma(n, -lo, math_core.fma(n, -hi, x))
    return math_core.fma(r * r, math_core.poly(r, tables.EXPM1[f.dtype]), r), t


def expm1(x: Expr, f: math_core.Format) -> Expr:
    """e**x - 1, accurate near 0."""
    low = -18.0 if f.fraction == 23 else -38.0
    high = 88.8 if f.fraction == 23 else 709.9
    p, t = _expm1_parts(math_core.clamp(x, low, high), f)
    s = f.power(t - 1.0)
    y = math_core.fma(s, p, s - 0.5)
    return math_core.keep_tiny(x, 2.0 ** (-f.fraction - 2), y + y)


def sigmoid(x: Expr, f: math_core.Format) -> Expr:
    """1 / (1 + e**-x), as e**x / (1 + e**x) for negative x so that small results stay exact."""
    low = math_core.clamp(math_core.copysign(x, f.number(-1.0)), _LOW[f.dtype], None)
    p, s = _exp_parts(low, f)
    e = p * s * s
    return select(x < 0.0, e, f.number(1.0)) / (e + 1.0)


def tanh(x: Expr, f: math_core.Format) -> Expr:
    """The hyperbolic tangent, y / (y + 2) for y = expm1(2 |x|)."""
    a = math_core.clamp(math_core.fabs(x), None, 10.0 if f.fraction == 23 else 20.0)
    p, t = _expm1_parts(a + a, f)
    s = f.power(t)
    y = math_core.fma(s, p, s - 1.0)
    return math_core.copysign(y / (y + 2.0), x)


def _half_exp(a: Expr, f: math_core.Format) -> Expr:
    """e**a / 2, which overflows only where sinh does."""
    p, s = _exp_parts(math_core.clamp(a, None, _HIGH[f.dtype]), f)
    return p * s * (s * 0.5)


def sinh(x: Expr, f: math_core.Format) -> Expr:
    """The hyperbolic sine."""
    a = math_core.fabs(x)
    z = x * x
    h = _half_exp(a, f)
    near = math_core.fma(x * z, math_core.poly(z, tables.SINH[f.dtype]), x)
    return select(a < 1.0, near, math_core.copysign(h - 0.25 / h, x))


def cosh(x: Expr, f: math_core.Format) -> Expr:
    """The hyperbolic cosine."""
    h = _half_exp(math_core.fabs(x), f)
    return h + 0.25 / h


def erf(x: Expr, f: math_core.Format) -> Expr:
    """The error function, 1 - p(a)**8 from 1 on; float32 only."""
    a = math_core.clamp(math_core.fabs(x), None, 3.93)
    near = math_core.fma(a, math_core.poly(a * a, tables.ERF_NEAR), a)
    root = math_core.poly(a, tables.ERF_FAR)
    square = root * root
    fourth = square * square
    return math_core.copysign(select(a < 1.0, near, 1.0 - fourth * fourth), x)
