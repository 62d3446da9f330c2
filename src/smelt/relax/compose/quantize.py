"""Quantized numbers: a tensor of integers q stands for scale * (q - zero point).

A scale and a zero point are one number, a vector along one axis, or a tensor that broadcasts. Where
they are constants their arithmetic is done when the operator is expanded; elsewhere the program
does it, and finds the same.
"""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np

from smelt.ir import dtype as dt
from smelt.relax.folding import folded
from smelt.relax.graph_op import composite
from smelt.relax.nodes import Constant, RelaxExpr, call
from smelt.topi.reference import Array

from .common import (
    against,
    array_of,
    cast_to,
    dtype_of,
    extents,
    legal,
    normal_axis,
    one_of,
    rank_of,
    reshaped,
    scalar,
)
from .integer import centred, is_zero, known


def _typed(name: str, x: RelaxExpr) -> None:
    """The rule that scales are floats, and positive as far as they are known, and zero points are
    integers."""
    wanted = dt.is_float if "scale" in name else dt.is_int
    legal(
        wanted(dtype_of(x)),
        f"{name} is {dtype_of(x)}; legal: {'a float' if 'scale' in name else 'an integer'} type",
    )
    data = known(x) if "scale" in name else None
    if data is not None:
        wide = data.astype(np.float64)
        fits = np.isfinite(wide) & ((wide > 0) if data.size == 1 else (wide >= 0))
        legal(bool(fits.all()), f"{name}={_first(wide, ~fits)}; it has to be positive")


def _first(numbers: Array, where: Array) -> float:
    """The first number of those that are meant."""
    return float(numbers[where].reshape(-1)[0]) if where.any() else 0.0


def _divides(name: str, scale: RelaxExpr) -> None:
    """The rule that a scale, as far as it is known, can be divided by without loss."""
    data = known(scale)
    if data is not None:
        fits = data.astype(np.float64) >= float(ml_dtypes.finfo(data.dtype).smallest_normal)
        legal(bool(fits.all()), f"{name}={_first(data.astype(np.float64), ~fits)}; it has to be a "
                                f"normal number of {dtype_of(scale)}")  # fmt: skip


def parameter(name: str, x: RelaxExpr, count: int | None) -> RelaxExpr:
    """A scale or a zero point, checked: a scalar, or a vector of `count` numbers.

    count  None: a scalar alone is legal, 0: not known
    """
    _typed(name, x)
    size = extents(x)
    if size in ((), (1,)):
        return reshaped(x, ()) if size else x
    legal(count is not None, f"{name} has the shape {size}; a scalar is legal")
    legal(
        len(size) == 1 and (not count or size[0] in (None, count)),
        f"{name} has the shape {size}; legal: a scalar, or a vector with one number for each of "
        f"the {count or ''} elements of the axis".replace("  ", " "),
    )
    return x


def along_axis(name: str, x: RelaxExpr, data: RelaxExpr, axis: int) -> RelaxExpr:
    """A scale or a zero point in a shape that broadcasts against the data."""
    if extents(x) in ((), (1,)):
        return parameter(name, x, 0)
    count = extents(data)[normal_axis(axis, rank_of(data))]
    return against(parameter(name, x, count or 0), data, axis)


def saturated(x: RelaxExpr, dtype: str) -> RelaxExpr:
    """Integers as another integer type; what it cannot hold becomes its nearest number."""
    if dtype_of(x) == dtype:
        return x
    low, high = dt.limits(dtype)
    return cast_to(call("clip", x, min=low, max=high), dtype)


# -------------------------------------------------------------------------------- fixed point

FIXED_POINT = {"up": "upward", "away": "away", "twice": "twice"}
"""How fixed_point_multiply calls the roundings that it has."""


def _integer(value: int) -> Constant:
    return scalar(value, "int64")


def _fixed_point(ratio: RelaxExpr) -> tuple[RelaxExpr, RelaxExpr, RelaxExpr]:
    """A positive float64 as multiplier / 2 ** 31 * 2 ** (left - right), read off its bits.

    The multiplier is at least 2 ** 30 and below 2 ** 31, rounded to the nearest. What is below
    2 ** -32 becomes 0: no int32 times it comes near 1 / 2.
    """
    bits = call("reinterpret", ratio, dtype="int64")
    exponent = call("bitwise_and", call("right_shift", bits, _integer(52)), _integer(0x7FF))
    exponent = call("subtract", exponent, _integer(1022))
    fraction = call("bitwise_and", bits, _integer((1 << 52) - 1))
    fraction = call("bitwise_or", fraction, _integer(1 << 52))
    number = call("right_shift", call("add", fraction, _integer(1 << 21)), _integer(22))
    carried = call("equal", number, _integer(1 << 31))
    number = call("where", carried, _integer(1 << 30), number)
    exponent = call("add", exponent, call("cast", carried, dtype="int64"))
    tiny = call("less", exponent, _integer(-31))
    number = call("where", tiny, _integer(0), number)
    exponent = call("where", tiny, _integer(0), exponent)
    left = call("maximum", exponent, _integer(0))
    right = call("maximum", call("negative", exponent), _integer(0))
    m, a, b = (folded(call("cast", v, dtype="int32")) for v in (number, left, right))
    return m, a, b


def _within(x: RelaxExpr, left: RelaxExpr) -> RelaxExpr:
    """x brought into a range whose product with 2 ** left stays below 2 ** 30 in magnitude.

    The ends are beyond every number of 16 bits, so results of such types saturate as they should.
    """
    shifts = array_of(left)
    if shifts is not None and not np.any(shifts):
        return x
    if shifts is not None and shifts.size == 1:
        end = 1 << max(30 - int(shifts.reshape(-1)[0]), 0)
        return call("clip", x, min=-end, max=end)
    room = call("maximum", call("subtract", scalar(30, "int32"), left), scalar(0, "int32"))
    ends = folded(call("left_shift", scalar(1, "int32"), room))
    low = folded(call("negative", ends))
    inside = call("maximum", call("minimum", x, ends), low)
    return call("where", call("greater", left, scalar(0, "int32")), inside, x)


def rescaled(
    x: RelaxExpr, ratio: RelaxExpr, axis: int, rounding: str = "up", narrow: bool = True
) -> RelaxExpr:
    """x * ratio, rounded, by fixed-point multiplication; x is int32 without a zero point.

    ratio   float64: one number, or a vector along the axis
    narrow  whether the result goes into 16 bits or fewer, so that it has to be right only as far
            as it fits; else it is cut to 32 bits
    """
    one_of("rounding", rounding, *FIXED_POINT)
    mode = FIXED_POINT[rounding]
    number, left, right = _fixed_point(ratio)
    m, a, b = (array_of(v) for v in (number, left, right))
    if m is not None and a is not None and b is not None:
        legal(
            not np.any(a > 31),
            "the input's scale is more than 2 ** 31 times the output's; such a factor has no "
            "fixed-point form",
        )
        if not np.any(m != 1 << 30) and np.all(a == 1) and not np.any(b):
            return x
    if m is not None and a is not None and b is not None and m.size == 1:
        x = _within(x, left) if narrow else x
        return call("fixed_point_multiply", x, multiplier=int(m.reshape(-1)[0]),
                    shift=int(a.reshape(-1)[0]) - int(b.reshape(-1)[0]), rounding=mode)  # fmt: skip
    axes: tuple[int, ...] = (normal_axis(axis, rank_of(x)),) if rank_of(ratio) else ()
    if narrow:
        x = _within(x, folded(against(left, x, axis)) if axes else left)
    return call(
        "fixed_point_multiply_per_axis", x, number, left, right, axes=axes, rounding=mode,
        is_lshift_required=a is None or bool(np.any(a)),
        is_rshift_required=b is None or bool(np.any(b)),
    )  # fmt: skip


# ------------------------------------------------------------------------------------- bodies


def _aligned(name: str, x: RelaxExpr | None, data: RelaxExpr, axis: int) -> RelaxExpr | None:
    """The same, or what has several dimensions and broadcasts; None for a zero point known as 0."""
    if x is None:
        return None
    if rank_of(x) <= 1:
        made = along_axis(name, x, data, axis)
    else:
        _typed(name, x)
        have, size = extents(x), extents(data)[rank_of(data) - rank_of(x) :]
        pairs = zip(have, size, strict=False)
        fits = len(have) == len(size) and all(a in (1, b) or None in (a, b) for a, b in pairs)
        legal(fits, f"{name} has the shape {have}; data of {extents(data)} needs one that "
                    "broadcasts to it")  # fmt: skip
        made = x
    return None if "zero" in name and is_zero(x) else made


def quantized(
    x: RelaxExpr, scale: RelaxExpr, zero_point: RelaxExpr | None, axis: int, dtype: str,
    rounding: str, compute_dtype: str = "",
) -> RelaxExpr:  # fmt: skip
    """The body of quantize."""
    legal(dt.is_float(dtype_of(x)), f"the data is {dtype_of(x)}; legal: a float type")
    legal(dt.is_int(dtype), f"out_dtype={dtype!r}; legal: an integer type")
    wide = compute_dtype or dtype_of(x)
    wide_scale = _aligned("scale", scale, x, axis)
    assert wide_scale is not None
    _divides("scale", scale)
    y: RelaxExpr = call("divide", cast_to(x, wide), cast_to(wide_scale, wide))
    return _stored(y, _aligned("zero_point", zero_point, x, axis), dtype, rounding)


def _stored(y: RelaxExpr, zero: RelaxExpr | None, dtype: str, rounding: str) -> RelaxExpr:
    """A number in steps of the scale as an integer: rounded, moved, saturated."""
    one_of("rounding", rounding, "even", "away", "up")
    y = cast_to(y, "float32") if dt.width(dtype_of(y)) < 32 else y
    low, high = dt.limits(dtype)
    number = 0 if zero is None else array_of(zero)
    if dt.bits(dtype) <= 16 and number is not None and np.size(number) == 1:
        move = int(np.reshape(number, -1)[0])  # the ends are integers: rounded before or behind
        y = call("round", call("clip", y, min=float(low - move), max=float(high - move)),
                 mode=rounding)  # fmt: skip
        if not move:
            return cast_to(y, dtype)
        return cast_to(call("add", cast_to(y, "int32"), scalar(move, "int32")), dtype)
    y = call("round", y, mode=rounding)
    if dt.bits(dtype) <= 16:  # floats hold the sum exactly as far as it fits
        y = y if zero is None else call("add", y, cast_to(zero, dtype_of(y)))
        return cast_to(call("clip", y, min=float(low), max=float(high)), dtype)
    end = float((1 << 31) - 128)  # the largest float32 that int32 holds
    y = cast_to(call("clip", y, min=float(low), max=end), dtype)
    return y if zero is None else call("add", y, cast_to(zero, dtype))


def dequantized(
    x: RelaxExpr, scale: RelaxExpr, zero_point: RelaxExpr | None, axis: int, dtype: str
) -> RelaxExpr:
    """The body of dequantize; the product of 16-bit floats is formed in float32."""
    legal(dt.is_float(dtype), f"out_dtype={dtype!r}; legal: a float type")
    wide = "float32" if dt.width(dtype) < 32 else dtype
    zero = _aligned("zero_point", zero_point, x, axis)
    wide_scale = _aligned("scale", scale, x, axis)
    assert wide_scale is not None
    if zero is None:
        y = call("cast", x, dtype=wide)
    elif dt.bits(dtype_of(x)) <= 16:
        y = call("subtract", call("cast", x, dtype=wide), cast_to(zero, wide))
    else:
        y = cast_to(centred(x, zero), wide)  # type: ignore[assignment]
    return cast_to(call("multiply", y, cast_to(wide_scale, wide)), dtype)


def requantized(
    x: RelaxExpr,
    input_scale: RelaxExpr,
    input_zero_point: RelaxExpr | None,
    output_scale: RelaxExpr,
    output_zero_point: RelaxExpr | None,
    axis: int = -1,
    rounding: str = "up",
    compute_dtype: str = "int64",
    dtype: str = "int32",
) -> RelaxExpr:
    """The body of requantize."""
    one_of("compute_dtype", compute_dtype, "int64", "float32", "float64")
    zero_in = _aligned("input_zero_point", input_zero_point, x, axis)
    zero_out = _aligned("output_zero_point", output_zero_point, x, axis)
    for name, s in (("input_scale", input_scale), ("output_scale", output_scale)):
        _aligned(name, s, x, axis)
    scales = [reshaped(s, ()) if extents(s) == (1,) else s for s in (input_scale, output_scale)]
    ratio = call("divide", *[cast_to(s, "float64") for s in scales])
    centre = cast_to(x, "int32") if zero_in is None else centred(x, zero_in)
    narrow = dt.bits(dtype) <= 16
    if compute_dtype == "int64":
        legal(rank_of(ratio) <= 1, "scales of several dimensions; legal: a float compute_dtype")
        y = rescaled(centre, ratio, axis, rounding, narrow)
    else:
        factor = _aligned("input_scale", ratio, x, axis)
        assert factor is not None
        y = call("multiply", cast_to(centre, compute_dtype), cast_to(factor, compute_dtype))
        if narrow:
            return _stored(y, zero_out, dtype, rounding)
        end = float((1 << 31) - 128)  # the last float32 in int32
        y = call("clip", call("round", y, mode=rounding), min=-end, max=end)
        y = call("cast", y, dtype="int32")
    y = y if zero_out is None else call("add", y, cast_to(zero_out, "int32"))
    return saturated(y, dtype)


# ---------------------------------------------------------------------------------- operators


@composite
def quantize(
    x: RelaxExpr, scale: RelaxExpr, zero_point: RelaxExpr | None = None, *, axis: int = -1,
    out_dtype: str = "int8", rounding: str = "even", compute_dtype: str = "",
) -> RelaxExpr:  # fmt: skip
    """round(x / scale) + zero_point, brought into the range of an integer type.

    rounding       of numbers between two integers, equally near: the "even" one, the one "away"
                   from zero, or the larger, "up"
    compute_dtype  what the division is done in; "": the type of x
    """
    return quantized(x, scale, zero_point, axis, out_dtype, rounding, compute_dtype)


def _against(v: Array | None, x: Array, axis: int) -> Array:
    """A scale or a zero point of an axis in a shape that broadcasts."""
    if v is None or v.size == 1:
        return np.zeros((), np.int32) if v is None else v.reshape(())
    return v if v.ndim > 1 else v.reshape(-1, *(1,) * (x.ndim - 1 - axis % x.ndim))


def _in_steps(y: Array, zero: Array, out_dtype: str, rounding: str) -> Array:
    """Numbers in steps of the scale, rounded, moved, saturated."""
    y = np.nan_to_num(y.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
    halves = np.sign(y) * np.floor(np.abs(y) + 0.5) if rounding == "away" else np.floor(y + 0.5)
    y = np.rint(y) if rounding == "even" else halves
    low, high = dt.limits(out_dtype)
    if dt.width(out_dtype) > 16:  # the sum may go over
        y = np.clip(y, low, high - 127).astype(np.int64) + zero.astype(np.int64)
        return np.asarray(y.astype(dt.to_numpy(out_dtype)))
    y = np.clip(y + zero.astype(np.float64), low, high)
    return np.asarray(y.astype(np.int32).astype(dt.to_numpy(out_dtype)))


@quantize.numpy
def _(
    x: Array, scale: Array, zero_point: Array | None = None, *, axis: int, out_dtype: str,
    rounding: str, compute_dtype: str,
) -> Array:  # fmt: skip
    """round(x / scale) + zero_point."""
    wide = dt.to_numpy(compute_dtype) if compute_dtype else x.dtype
    y = x.astype(wide) / _against(scale, x, axis).astype(wide)
    return _in_steps(y, _against(zero_point, x, axis), out_dtype, rounding)


@composite
def dequantize(
    x: RelaxExpr, scale: RelaxExpr, zero_point: RelaxExpr | None = None, *, axis: int = -1,
    out_dtype: str = "float32",
) -> RelaxExpr:  # fmt: skip
    """(x - zero_point) * scale."""
    return dequantized(x, scale, zero_point, axis, out_dtype)


@dequantize.numpy
def _(
    x: Array, scale: Array, zero_point: Array | None = None, *, axis: int, out_dtype: str
) -> Array:
    """(x - zero_point) * scale."""
    wide = np.float64 if out_dtype == "float64" else np.float32
    away = x.astype(np.float64) - _against(zero_point, x, axis).astype(np.float64)
    y = away.astype(wide) * _against(scale, x, axis).astype(wide)
    return np.asarray(y.astype(dt.to_numpy(out_dtype)))


@composite
def requantize(
    x: RelaxExpr, input_scale: RelaxExpr, input_zero_point: RelaxExpr | None,
    output_scale: RelaxExpr, output_zero_point: RelaxExpr | None = None, *, axis: int = -1,
    out_dtype: str = "int8", rounding: str = "up", compute_dtype: str = "int64",
) -> RelaxExpr:  # fmt: skip
    """round((x - input_zero_point) * input_scale / output_scale) + output_zero_point, saturated.

    rounding       as of quantize; in fixed point also "twice": the product with a number of 31
                   bits is rounded first, halves up, and once more, halves away from zero, where it
                   is shifted to the right, as TFLite's kernels do
    compute_dtype  "int64": the factor is a fixed-point number with 31 bits and the product is
                   formed in int64 (not with "even"); "float32", "float64": in floats
    """
    return requantized(x, input_scale, input_zero_point, output_scale, output_zero_point, axis,
                       rounding, compute_dtype, out_dtype)  # fmt: skip


@requantize.numpy
def _(
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
        wide = dt.to_numpy(compute_dtype)
        return _in_steps(away.astype(wide) * ratio.astype(wide), zero, out_dtype, rounding)
    low, high = dt.limits(out_dtype)

    def one(v: int, factor: float, z: int) -> int:
        part, power = math.frexp(factor)
        exact = Fraction(math.floor(part * 2**31 + 0.5), 1 << 31) * Fraction(2) ** power
        down = rounding in ("away", "twice") and v < 0
        if rounding == "twice":
            rest = Fraction(2) ** min(power, 0)
            v, exact = math.floor(v * exact / rest + Fraction(1, 2)), rest
        moved = v * exact + (-1 if down else 1) * Fraction(1, 2)
        return min(max((math.ceil if down else math.floor)(moved) + z, low), high)

    found = np.vectorize(one, otypes=[np.int64])(away, ratio, zero.astype(np.int64))
    return np.asarray(found.astype(np.int32).astype(dt.to_numpy(out_dtype)))
