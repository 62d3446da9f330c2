"""Affine numbers: a tensor of integers q stands for scale * (q - zero point).

A scale and a zero point are scalars, or vectors along one axis. Where they are constants their
arithmetic is done when the operator is expanded; elsewhere the program does it, and finds the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from smelt.ir import dtype as dt
from smelt.relax.compose.common import (
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
    shape_of,
)
from smelt.relax.compose.integer import centred, computed, is_zero, known
from smelt.relax.nodes import Constant, RelaxExpr, call

__all__ = ["QUANTIZED", "along_axis", "centred", "computed", "config", "integers", "is_zero",
           "known", "limits", "one_number", "requantize_config", "requantized", "rescaled",
           "saturated", "whole", "wide_type"]  # fmt: skip

QUANTIZED = ("int8", "uint8", "int16", "uint16", "int32")
"""Element types of tensors that stand for numbers."""

ROUNDINGS = {"UPWARD": "upward", "TONEAREST": "away"}
"""Of a number between two integers, equally near: the larger one, or the one farther from zero."""

COMPUTE_TYPES = ("int64", "float32", "float64")

config: ContextVar[tuple[str, str]] = ContextVar("requantize_config", default=("UPWARD", "int64"))
"""What qnn.requantize means by rounding="None" and by compute_dtype="None"."""


@contextmanager
def requantize_config(rounding: str = "UPWARD", compute_dtype: str = "int64") -> Iterator[None]:
    """Calls of qnn.requantize made inside that do not say how to round, round as this says.

    rounding       "UPWARD" or "TONEAREST": which of two integers that are equally near
    compute_dtype  "int64" (fixed-point numbers), "float32" or "float64"
    """
    one_of("rounding", rounding, *ROUNDINGS)
    one_of("compute_dtype", compute_dtype, *COMPUTE_TYPES)
    token = config.set((rounding, compute_dtype))
    try:
        yield
    finally:
        config.reset(token)


# ------------------------------------------------------------------------------------- operands


def integers(name: str, x: RelaxExpr, *types: str) -> None:
    """The rule that an operand is quantized."""
    t = dtype_of(x)
    legal(t in (types or QUANTIZED), f"{name} is {t}; legal: {', '.join(types or QUANTIZED)}")


def parameter(name: str, x: RelaxExpr, count: int | None) -> RelaxExpr:
    """A scale or a zero point, checked: a scalar, or a vector of `count` numbers.

    count  None: a scalar alone is legal, 0: not known
    """
    wanted = dt.is_float if "scale" in name else dt.is_int
    legal(
        wanted(dtype_of(x)),
        f"{name} is {dtype_of(x)}; legal: {'a float' if 'scale' in name else 'an integer'} type",
    )
    size = extents(x)
    if size in ((), (1,)):
        data = known(x)
        legal(
            "scale" not in name or data is None or float(data.reshape(-1)[0]) > 0,
            f"{name}={None if data is None else float(data.reshape(-1)[0])}; it has to be positive",
        )
        return reshaped(x, ()) if size else x
    legal(count is not None, f"{name} has the shape {size}; a scalar is legal")
    legal(
        len(size) == 1 and (not count or size[0] in (None, count)),
        f"{name} has the shape {size}; legal: a scalar, or a vector with one number for each of "
        f"the {count or ''} elements of the axis".replace("  ", " "),
    )
    return x


def one_number(name: str, x: RelaxExpr) -> RelaxExpr:
    """A scale or a zero point of a whole tensor."""
    return parameter(name, x, None)


def whole(prefix: str, scale: RelaxExpr, zero_point: RelaxExpr) -> tuple[RelaxExpr, RelaxExpr]:
    """The scale and the zero point of a whole tensor: <prefix>scale and <prefix>zero_point."""
    return one_number(f"{prefix}scale", scale), one_number(f"{prefix}zero_point", zero_point)


def along_axis(name: str, x: RelaxExpr, data: RelaxExpr, axis: int) -> RelaxExpr:
    """A scale or a zero point in a shape that broadcasts against the data."""
    if extents(x) in ((), (1,)):
        return parameter(name, x, 0)
    at = normal_axis(axis, rank_of(data))
    x = parameter(name, x, extents(data)[at] or 0)
    rest = rank_of(data) - at - 1
    return reshaped(x, (shape_of(x)[0], *(1,) * rest)) if rest else x


def wide_type(x: RelaxExpr, zero_point: RelaxExpr) -> str:
    """The narrowest type that holds all differences of 8-bit numbers and a zero point."""
    data = known(zero_point)
    small = data is not None and np.all(np.abs(data.astype(np.int64)) < 1 << 14)
    return "int16" if small and dt.bits(dtype_of(x)) == 8 else "int32"


def limits(dtype: str) -> tuple[int, int]:
    """The least and the largest number of an integer type."""
    bits = dt.bits(dtype)
    low = -(1 << bits - 1) if dt.is_signed(dtype) else 0
    return low, low + (1 << bits) - 1


def saturated(x: RelaxExpr, dtype: str) -> RelaxExpr:
    """Integers as another integer type; what it cannot hold becomes its nearest number."""
    if dtype_of(x) == dtype:
        return x
    low, high = limits(dtype)
    return cast_to(call("clip", x, min=low, max=high), dtype)


# -------------------------------------------------------------------------------- fixed point


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
    m, a, b = (computed(call("cast", v, dtype="int32")) for v in (number, left, right))
    return m, a, b


def _ratio(input_scale: RelaxExpr, output_scale: RelaxExpr) -> RelaxExpr:
    wide = [cast_to(s, "float64") for s in (input_scale, output_scale)]
    return call("divide", *wide)


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
    ends = computed(call("left_shift", scalar(1, "int32"), room))
    low = computed(call("negative", ends))
    inside = call("maximum", call("minimum", x, ends), low)
    return call("where", call("greater", left, scalar(0, "int32")), inside, x)


def rescaled(
    x: RelaxExpr,
    ratio: RelaxExpr,
    axis: int,
    rounding: str = "UPWARD",
    narrow: bool = True,
) -> RelaxExpr:
    """x * ratio, rounded, by fixed-point multiplication; x is int32 without a zero point.

    ratio   float64: one number, or a vector along the axis
    narrow  whether the result goes into 16 bits or fewer, so that it has to be right only as far
            as it fits; else it is cut to 32 bits
    """
    mode = ROUNDINGS[rounding]
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
        rest = rank_of(x) - axes[0] - 1 if axes else 0
        shape = (shape_of(left)[0], *(1,) * rest) if axes else ()
        x = _within(x, computed(reshaped(left, shape)) if rest else left)
    return call(
        "fixed_point_multiply_per_axis", x, number, left, right, axes=axes, rounding=mode,
        is_lshift_required=a is None or bool(np.any(a)),
        is_rshift_required=b is None or bool(np.any(b)),
    )  # fmt: skip


def requantized(
    x: RelaxExpr,
    input_scale: RelaxExpr,
    input_zero_point: RelaxExpr,
    output_scale: RelaxExpr,
    output_zero_point: RelaxExpr,
    axis: int = -1,
    rounding: str = "UPWARD",
    compute_dtype: str = "int64",
    out_dtype: str = "int32",
) -> RelaxExpr:
    """The numbers that x stands for, with another scale, zero point and type."""
    for name, s in (("input_scale", input_scale), ("output_scale", output_scale)):
        along_axis(name, s, x, axis)
    zero_in = along_axis("input_zero_point", input_zero_point, x, axis)
    zero_out = along_axis("output_zero_point", output_zero_point, x, axis)
    scales = [reshaped(s, ()) if extents(s) == (1,) else s for s in (input_scale, output_scale)]
    ratio = _ratio(*scales)
    narrow = dt.bits(out_dtype) <= 16
    if compute_dtype == "int64":
        y = rescaled(centred(x, zero_in), ratio, axis, rounding, narrow)
    else:
        wide = cast_to(along_axis("input_scale", ratio, x, axis), compute_dtype)
        y = call("multiply", cast_to(centred(x, zero_in), compute_dtype), wide)
        y = call("round", y, mode={"UPWARD": "up", "TONEAREST": "away"}[rounding])
        # beyond every number of 16 bits, with room for a zero point; else the last float32 in int32
        end = float(1 << 30) if narrow else float((1 << 31) - 128)
        y = call("cast", call("clip", y, min=-end, max=end), dtype="int32")
    if not is_zero(zero_out):
        y = call("add", y, cast_to(zero_out, "int32"))
    return saturated(y, out_dtype)
