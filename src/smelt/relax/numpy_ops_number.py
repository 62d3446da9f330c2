"""The operators in numpy: approximations, fixed-point products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from smelt.ir.dtype import limits, to_numpy, width

from .numpy_ops import NUMPY_OPS, Array, numpy_op


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


# ---------------------------------------------------------------------------------- quantized


def _against(v: Array | None, x: Array, axis: int) -> Array:
    """A scale or a zero point of an axis in a shape that broadcasts."""
    if v is None or v.size == 1:
        return np.zeros((), np.int32) if v is None else v.reshape(())
    return v if v.ndim > 1 else v.reshape(-1, *(1,) * (x.ndim - 1 - axis % x.ndim))


def _in_steps(y: Array, zero: Array, out_dtype: str, rounding: str) -> Array:
    """Numbers in steps of the scale, rounded, moved, saturated."""
    y = y.astype(np.float64)
    halves = np.sign(y) * np.floor(np.abs(y) + 0.5) if rounding == "away" else np.floor(y + 0.5)
    y = np.rint(y) if rounding == "even" else halves
    low, high = limits(out_dtype)
    if width(out_dtype) > 16:  # the sum may go over
        y = np.clip(y, low, high - 127).astype(np.int64) + zero.astype(np.int64)
        return np.asarray(y.astype(to_numpy(out_dtype)))
    y = np.clip(y + zero.astype(np.float64), low, high)
    return np.asarray(y.astype(np.int32).astype(to_numpy(out_dtype)))


@numpy_op
def quantize(
    x: Array, scale: Array, zero_point: Array | None = None, *, axis: int, out_dtype: str,
    rounding: str, compute_dtype: str,
) -> Array:  # fmt: skip
    """round(x / scale) + zero_point."""
    wide = to_numpy(compute_dtype) if compute_dtype else x.dtype
    y = x.astype(wide) / _against(scale, x, axis).astype(wide)
    return _in_steps(y, _against(zero_point, x, axis), out_dtype, rounding)


@numpy_op
def dequantize(
    x: Array, scale: Array, zero_point: Array | None = None, *, axis: int, out_dtype: str
) -> Array:
    """(x - zero_point) * scale."""
    wide = np.float64 if out_dtype == "float64" else np.float32
    away = x.astype(np.float64) - _against(zero_point, x, axis).astype(np.float64)
    y = away.astype(wide) * _against(scale, x, axis).astype(wide)
    return np.asarray(y.astype(to_numpy(out_dtype)))


@numpy_op
def requantize(
    x: Array, input_scale: Array, input_zero_point: Array | None, output_scale: Array,
    output_zero_point: Array | None = None, *, axis: int, out_dtype: str, rounding: str,
    compute_dtype: str,
) -> Array:  # fmt: skip
    """From one scale to another: with a factor of 31 bits in exact fractions, or in floats."""
    zero = _against(output_zero_point, x, axis)
    away = x.astype(np.int64) - _against(input_zero_point, x, axis).astype(np.int64)
    scales = [_against(s, x, axis).astype(np.float64) for s in (input_scale, output_scale)]
    ratio = scales[0] / scales[1]
    if compute_dtype != "int64":
        wide = to_numpy(compute_dtype)
        return _in_steps(away.astype(wide) * ratio.astype(wide), zero, out_dtype, rounding)
    low, high = limits(out_dtype)

    def one(v: int, factor: float, z: int) -> int:
        part, power = math.frexp(factor)
        exact = Fraction(math.floor(part * 2**31 + 0.5), 1 << 31) * Fraction(2) ** power
        down = rounding == "away" and v < 0
        moved = v * exact + (-1 if down else 1) * Fraction(1, 2)
        return min(max((math.ceil if down else math.floor)(moved) + z, low), high)

    found = np.vectorize(one, otypes=[np.int64])(away, ratio, zero.astype(np.int64))
    return np.asarray(found.astype(np.int32).astype(to_numpy(out_dtype)))
