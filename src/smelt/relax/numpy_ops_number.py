"""The operators in numpy: approximations, fixed-point products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from .numpy_ops import NUMPY_OPS, Array, numpy_op

__all__ = ["fixed_point_multiply", "fixed_point_multiply_per_axis"]


def _exp(x: Array) -> Array:
    """exp between the ends of what float32 holds as a normal number."""
    ends = np.log(2.0) * np.array([-126.0, 127.49])
    return np.asarray(np.exp(np.clip(x.astype(np.float64), *ends)), x.dtype)


NUMPY_OPS.update({
    "fast_exp": _exp,
    "fast_tanh": lambda x: np.tanh(x.astype(np.float64)).astype(x.dtype),
    "fast_erf": lambda x: np.vectorize(math.erf, otypes=[np.float64])(
        x.astype(np.float64)
    ).astype(x.dtype),
})  # fmt: skip


def _nearest(value: Fraction, rounding: str) -> int:
    """The nearest integer, cut to 32 bits."""
    down = rounding == "away" and value < 0
    rounded = math.ceil(value - Fraction(1, 2)) if down else math.floor(value + Fraction(1, 2))
    return (rounded + (1 << 31)) % (1 << 32) - (1 << 31)


@numpy_op
def fixed_point_multiply(x: Array, *, multiplier: int, shift: int, rounding: str) -> Array:
    """x * multiplier * 2 ** (shift - 31) in exact fractions."""
    factor = Fraction(multiplier, 1 << 31) * Fraction(2) ** shift
    values = [_nearest(int(v) * factor, rounding) for v in x.reshape(-1)]
    return np.array(values, np.int32).reshape(x.shape)


@numpy_op
def fixed_point_multiply_per_axis(
    x: Array, multiplier: Array, left_shift: Array, right_shift: Array, *,
    is_lshift_required: bool, is_rshift_required: bool, axes: Sequence[int], rounding: str,
) -> Array:  # fmt: skip
    """x * multiplier * 2 ** (left - right - 31) in exact fractions."""
    kept = sorted([a % x.ndim for a in axes])
    shape = [n if d in kept else 1 for d, n in enumerate(x.shape)]
    m, left, right = (
        np.broadcast_to(t.reshape(shape), x.shape) for t in (multiplier, left_shift, right_shift)
    )
    out = np.empty(x.shape, np.int32)
    for i in np.ndindex(*x.shape):
        shift = int(left[i]) * is_lshift_required - int(right[i]) * is_rshift_required
        value = int(x[i]) * Fraction(int(m[i]), 1 << 31) * Fraction(2) ** shift
        out[i] = _nearest(value, rounding)
    return out
