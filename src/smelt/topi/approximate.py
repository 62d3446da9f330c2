"""Cheap functions with a stated error: a few multiplications each, computed in float32.

The errors are of float32 operands, measured on a dense grid; narrower types add their own rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from smelt.ir.build import call, maximum, minimum
from smelt.ir.expr import Expr, cast, const
from smelt.te.tensor import Tensor

from .common import float_only, tensor
from .reference import Array, erf_array
from .registry import op

NARROW = "float32"
EXPONENT_BIAS, FRACTION_BITS = 127, 23
LARGEST_POWER, SMALLEST_POWER = 127.49, -126.0
"""Exponents of 2 between which the result is a normal number."""

POWER = (1.00000007, 0.69314697, 0.2402212, 0.05550713, 0.00967554, 0.00132765)
"""2 ** f for f from -1/2 to 1/2: the polynomial of degree 5 with the smallest relative error."""
ERF_SLOPE = 0.3275911
ERF = (0.0, 0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
"""Abramowitz and Stegun, 7.1.26: 1 - exp(-x * x) * p(1 / (1 + slope * x)) for x >= 0."""
TANH_ABOVE = (34459425.0, 4729725.0, 135135.0, 990.0, 1.0)
TANH_BELOW = (34459425.0, 16216200.0, 945945.0, 13860.0, 45.0)
"""tanh(x) / x in powers of x * x: the ninth convergent of Lambert's continued fraction."""
TANH_LIMIT = 8.0


def _polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    """The sum of coefficients[i] * x ** i, by Horner's rule."""
    total: Expr = const(coefficients[-1], NARROW)
    for c in reversed(coefficients[:-1]):
        total = call("fma", total, x, const(c, NARROW))
    return total


def _exp(x: Expr) -> Expr:
    """2 ** n * 2 ** f where n is the whole number next to x / ln 2; n goes into the exponent."""
    per = const(1 / math.log(2), NARROW)
    lowest, highest = SMALLEST_POWER * math.log(2), LARGEST_POWER * math.log(2)
    x = minimum(maximum(x, const(lowest, NARROW)), const(highest, NARROW))
    n = call("round", x * per)
    scale = call("shift_left", cast("int32", n) + EXPONENT_BIAS, const(FRACTION_BITS, "int32"))
    fraction = _polynomial(call("fma", x, per, -n), POWER)
    return fraction * call("reinterpret", scale, dtype=NARROW)


def _in_float32(x: Tensor, name: str, fn: Callable[[Expr], Expr]) -> Tensor:
    float_only(x)
    return tensor(x.shape, lambda *i: cast(x.dtype, fn(cast(NARROW, x[i]))), name)


@op
def fast_exp(x: Tensor) -> Tensor:
    """e to the power x, with a relative error below 3e-6 for x from -87.3 to 88.3.

    Below and above, the result stays what it is at these ends: it is never 0 and never infinite.
    """
    return _in_float32(x, "fast_exp", _exp)


def _exp_array(x: Array) -> Array:
    """exp between the ends of what float32 holds as a normal number."""
    ends = np.log(2.0) * np.array([-126.0, 127.49])
    return np.asarray(np.exp(np.clip(x.astype(np.float64), *ends)), x.dtype)


fast_exp.numpy(_exp_array)


def _tanh(x: Expr) -> Expr:
    x = minimum(maximum(x, const(-TANH_LIMIT, NARROW)), const(TANH_LIMIT, NARROW))
    square = x * x
    ratio = x * _polynomial(square, TANH_ABOVE) / _polynomial(square, TANH_BELOW)
    return minimum(maximum(ratio, const(-1.0, NARROW)), const(1.0, NARROW))


@op(numpy=lambda x: np.tanh(x.astype(np.float64)).astype(x.dtype))
def fast_tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent of x, with an absolute error below 1e-5."""
    return _in_float32(x, "fast_tanh", _tanh)


def _erf(x: Expr) -> Expr:
    size = call("abs", x)
    t = 1.0 / (const(ERF_SLOPE, NARROW) * size + 1.0)
    return call("copysign", 1.0 - _exp(-(size * size)) * _polynomial(t, ERF), x)


@op(numpy=lambda x: erf_array(x).astype(x.dtype))
def fast_erf(x: Tensor) -> Tensor:
    """The error function of x, with an absolute error below 1e-6."""
    return _in_float32(x, "fast_erf", _erf)
