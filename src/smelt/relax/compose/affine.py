"""Operators on quantized tensors: of integers with scales and zero points, to such integers.

Rules of their operands are checked here; Relay's operators of qnn are these, and passes write them
out in the graph's own operators. `OPERATORS` has them by name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from smelt.relax.folding import folded
from smelt.relax.nodes import RelaxExpr, call, constant

from . import integer, quantize
from .common import (
    cast_to,
    dtype_of,
    extents,
    items_of,
    legal,
    normal_axis,
    rank_of,
    scalar,
    shape_of,
)
from .integer import centred, is_zero

QUANTIZED = ("int8", "uint8", "int16", "uint16", "int32")
"""Element types of tensors that stand for numbers."""

OPERATORS: dict[str, Callable[..., RelaxExpr]] = {}
"""Bodies of operators by name; operands are positional, attributes keywords."""


# ------------------------------------------------------------------------------------- operands


def integers(name: str, x: RelaxExpr, *types: str) -> None:
    """The rule that an operand is quantized."""
    t = dtype_of(x)
    legal(t in (types or QUANTIZED), f"{name} is {t}; legal: {', '.join(types or QUANTIZED)}")


def one_number(name: str, x: RelaxExpr) -> RelaxExpr:
    """A scale or a zero point of a whole tensor."""
    return quantize.parameter(name, x, None)


def whole(prefix: str, scale: RelaxExpr, zero_point: RelaxExpr) -> tuple[RelaxExpr, RelaxExpr]:
    """The scale and the zero point of a whole tensor: <prefix>scale and <prefix>zero_point."""
    return one_number(f"{prefix}scale", scale), one_number(f"{prefix}zero_point", zero_point)


# --------------------------------------------------------------------------------- two operands


Side = tuple[RelaxExpr, RelaxExpr, RelaxExpr, int]
"""A tensor, its scale, its zero point, and the axis along which these may vary."""

Joined = Callable[[Side, Side, RelaxExpr, RelaxExpr], RelaxExpr]
"""(lhs, rhs, the scale and the zero point of the output) -> the result."""


def _binary(name: str) -> Callable[[Joined], Joined]:
    """Enter an operator of two quantized tensors."""

    def enter(joined: Joined) -> Joined:
        def body(
            lhs: RelaxExpr, rhs: RelaxExpr, lhs_scale: RelaxExpr, lhs_zero_point: RelaxExpr,
            rhs_scale: RelaxExpr, rhs_zero_point: RelaxExpr, output_scale: RelaxExpr,
            output_zero_point: RelaxExpr, *, lhs_axis: int = -1, rhs_axis: int = -1,
        ) -> RelaxExpr:  # fmt: skip
            integers("lhs", lhs)
            integers("rhs", rhs)
            types = dtype_of(lhs), dtype_of(rhs)
            legal(types[0] == types[1],
                  "lhs is {}, rhs {}; they have to be of one type".format(*types))  # fmt: skip
            a = (lhs, lhs_scale, lhs_zero_point, lhs_axis)
            b = (rhs, rhs_scale, rhs_zero_point, rhs_axis)
            return joined(a, b, *whole("output_", output_scale, output_zero_point))

        body.__doc__ = joined.__doc__
        OPERATORS[name] = body
        return joined

    return enter


def _sum(name: str) -> None:
    @_binary(name)
    def joined(lhs: Side, rhs: Side, scale: RelaxExpr, zero: RelaxExpr) -> RelaxExpr:
        """Sums, or differences, with broadcasting.

        Both operands are requantized to output_scale in int32; the result is saturated to their
        type.
        Shapes  scales and zero points: scalars; those of lhs and rhs may be vectors along lhs_axis
                and rhs_axis
        """
        nothing = scalar(0, "int32")
        a, b = (quantize.requantized(x, s, z, scale, nothing, axis) for x, s, z, axis in (lhs, rhs))
        y = call(name, a, b)
        y = y if is_zero(zero) else call("add", y, cast_to(zero, "int32"))
        return quantize.saturated(y, dtype_of(lhs[0]))


_sum("add")
_sum("subtract")


@_binary("mul")
def _product(lhs: Side, rhs: Side, scale: RelaxExpr, zero: RelaxExpr) -> RelaxExpr:
    """Products with broadcasting: formed in int32 and requantized from lhs_scale * rhs_scale.

    Shapes  scales: scalars; zero points of lhs and rhs may be vectors along lhs_axis and rhs_axis
    """
    parts = []
    for side, (x, s, z, axis) in (("lhs", lhs), ("rhs", rhs)):
        factor = cast_to(one_number(f"{side}_scale", s), "float32")
        parts.append((centred(x, quantize.along_axis(f"{side}_zero_point", z, x, axis)), factor))
    y, ratio = (call("multiply", *both) for both in zip(*parts, strict=True))
    return quantize.requantized(y, ratio, scalar(0, "int32"), scale, zero, dtype=dtype_of(lhs[0]))


def concatenate(
    data: RelaxExpr, input_scales: RelaxExpr, input_zero_points: RelaxExpr,
    output_scale: RelaxExpr, output_zero_point: RelaxExpr, *, axis: int = 0,
) -> RelaxExpr:  # fmt: skip
    """Tensors behind each other along an axis, each requantized to the output's scale."""
    parts = items_of(data)
    scales, zeros = items_of(input_scales), items_of(input_zero_points)
    legal(
        len(parts) == len(scales) == len(zeros),
        f"{len(parts)} tensors, {len(scales)} scales and {len(zeros)} zero points; each tensor "
        "needs one of each",
    )
    output = whole("output_", output_scale, output_zero_point)
    made = []
    for x, s, z in zip(parts, scales, zeros, strict=True):
        integers("the data", x)
        made.append(quantize.requantized(x, *whole("input_", s, z), *output, dtype=dtype_of(x)))
    return call("concat", *made, axis=normal_axis(axis, rank_of(parts[0])))


# ------------------------------------------------------------------------------------ functions


def leaky_relu(
    data: RelaxExpr, input_scale: RelaxExpr, input_zero_point: RelaxExpr,
    output_scale: RelaxExpr, output_zero_point: RelaxExpr, *, alpha: float = 0.01,
) -> RelaxExpr:  # fmt: skip
    """x where it is positive, alpha * x elsewhere: requantized with one of two factors.

    alpha  positive
    """
    integers("the data", data)
    legal(alpha > 0, f"alpha={alpha}; it has to be positive")
    step, zero_in = whole("input_", input_scale, input_zero_point)
    step_out, zero = whole("output_", output_scale, output_zero_point)
    ratio = call("divide", cast_to(step, "float64"), cast_to(step_out, "float64"))
    x = centred(data, zero_in)
    narrow = dtype_of(data) != "int32"
    low = quantize.rescaled(x, call("multiply", ratio, scalar(alpha, "float64")), -1, narrow=narrow)
    high = quantize.rescaled(x, ratio, -1, narrow=narrow)
    y = call("where", call("less", x, scalar(0, "int32")), low, high)
    y = y if is_zero(zero) else call("add", y, cast_to(zero, "int32"))
    return quantize.saturated(y, dtype_of(data))


def _hardswish(x: RelaxExpr) -> RelaxExpr:
    inside = call("clip", call("add", x, scalar(3.0, "float32")), min=0.0, max=6.0)
    return call("divide", call("multiply", x, inside), scalar(6.0, "float32"))


def by_table(fn: Callable[[RelaxExpr], RelaxExpr], x: RelaxExpr, *numbers: RelaxExpr) -> RelaxExpr:
    """A function of 8-bit numbers, looked up: quantize(fn(dequantize(x))); 0 for no number.

    numbers  the scale and the zero point before, and those behind
    """
    dtype = dtype_of(x)
    integers("x", x, "int8", "uint8")
    inputs, outputs = whole("", *numbers[:2]), whole("output_", *numbers[2:])
    codes = constant(np.arange(256, dtype="uint8").view(dtype))
    y = cast_to(fn(quantize.dequantized(codes, *inputs, 0, "float32")), "float32")
    y = call("where", call("isnan", y), scalar(0.0, "float32"), y)
    table = folded(quantize.quantized(y, *outputs, 0, dtype, "away"))
    index = cast_to(call("reinterpret", x, dtype="uint8"), "int32")
    return call("gather", table, index, axis=0, mode="clip")


def _function(name: str, fn: Callable[[RelaxExpr], RelaxExpr]) -> None:
    def body(
        x: RelaxExpr, scale: RelaxExpr, zero_point: RelaxExpr, output_scale: RelaxExpr,
        output_zero_point: RelaxExpr,
    ) -> RelaxExpr:  # fmt: skip
        return by_table(fn, x, scale, zero_point, output_scale, output_zero_point)

    body.__doc__ = f"""{name} of 8-bit numbers, looked up: quantize({name}(dequantize(x))).

    What is no number (the logarithm of a negative one) becomes 0.
    """
    OPERATORS[name] = body


for _name in ("tanh", "exp", "sqrt", "rsqrt", "erf", "sigmoid", "log", "abs"):
    _function(_name, partial(call, _name))
_function("hardswish", _hardswish)


# ------------------------------------------------------------------------------------- softmax

EXP_BITS, SHARE_BITS = 16, 30
"""Fraction bits of exponentials, and of their shares of the sum."""


def softmax(
    data: RelaxExpr,
    scale: RelaxExpr,
    zero_point: RelaxExpr,
    output_scale: RelaxExpr,
    output_zero_point: RelaxExpr,
    *,
    axis: int = -1,
) -> RelaxExpr:
    """exp(x) over its sum along an axis, in integers.

    exp(-scale * d) is looked up for the 256 distances d from the largest number, with 16 fraction
    bits; the shares of the sum have 30 and are requantized.
    """
    integers("the data", data, "int8", "uint8")
    at = normal_axis(axis, rank_of(data))
    step = cast_to(whole("", scale, zero_point)[0], "float64")
    away = call("multiply", constant(np.arange(256.0)), call("negative", step))
    exps = call("multiply", call("exp", away), scalar(float(1 << EXP_BITS), "float64"))
    table = folded(cast_to(call("round", exps), "int32"))
    wide = cast_to(data, "int32")
    distance = call("subtract", call("max", wide, axes=(at,), keepdims=True), wide)
    parts = call("gather", table, distance, axis=0, mode="clip")
    total = cast_to(call("sum", parts, axes=(at,), keepdims=True), "int64")
    shares = call("left_shift", cast_to(parts, "int64"), scalar(SHARE_BITS, "int64"))
    y = cast_to(call("floor_divide", shares, total), "int32")
    output = whole("output_", output_scale, output_zero_point)
    step = scalar(2.0**-SHARE_BITS, "float32")
    return quantize.requantized(y, step, scalar(0, "int32"), *output, dtype=dtype_of(data))


OPERATORS["concatenate"] = concatenate
OPERATORS["leaky_relu"] = leaky_relu
OPERATORS["softmax"] = softmax


# ------------------------------------------------------------------------------------- pooling


def average(
    x: RelaxExpr, numbers: tuple[RelaxExpr, RelaxExpr], output: tuple[RelaxExpr, RelaxExpr],
    kernel: tuple[int, ...], a: dict[str, Any], border: bool,
) -> RelaxExpr:  # fmt: skip
    """The average of each window; halves are rounded up.

    numbers  the scale and the zero point; output: the result's
    a        strides, pads and dilations of the window
    border   whether elements of the border, which stand for 0, count
    """
    integers("the data", x, "int8", "uint8", "int16", "uint16")
    scale, zero = whole("input_", *numbers)
    to = whole("output_", *output)
    channels = extents(x)[1]
    legal(channels is not None, "the number of channels has to be known")
    sums = integer.window_sums(centred(x, zero), kernel, channels or 1, a)
    mean = _nearest_quotient(sums, _counts(x, kernel, a, border))
    return quantize.requantized(mean, scale, scalar(0, "int32"), *to, dtype=dtype_of(x))


def _counts(x: RelaxExpr, kernel: tuple[int, ...], a: dict[str, Any], border: bool) -> RelaxExpr:
    """How many elements each window counts."""
    if border or not any(a["pads"]):
        return scalar(int(np.prod(kernel)), "int32")
    ones = call("full", shape=(1, 1, *shape_of(x)[2:]), value=1.0, dtype="int32")
    return integer.window_sums(ones, kernel, 1, a)


def _nearest_quotient(x: RelaxExpr, count: RelaxExpr) -> RelaxExpr:
    """x / count to the nearest integer, halves up; count is positive."""
    two = scalar(2, "int32")
    return call("floor_divide", call("add", call("multiply", x, two), count),
                call("multiply", count, two))  # fmt: skip
