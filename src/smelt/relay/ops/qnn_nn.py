"""Convolutions, products of matrices and pooling of quantized numbers, summed in int32."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.relax.compose import integer
from smelt.relax.compose.common import (
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
from smelt.relax.compose.layout import gathered, spread
from smelt.relax.compose.quantize import parameter, requantized
from smelt.relax.compose.window import ceiled, check_channels, check_weight, window
from smelt.relax.folding import folded
from smelt.relax.nodes import RelaxExpr, call, constant

from ..dialect import relay_op
from .qnn_affine import integers, one_number, whole, wide_type

FACTORS = ("int8", "uint8", "int16", "uint16")
"""Element types of the operands of products."""


def _conv_operands(
    data: RelaxExpr, kernel: RelaxExpr, out_dtype: str, scale: RelaxExpr, zero_point: RelaxExpr
) -> RelaxExpr:
    """The rules that convolutions and products share; the data's zero point."""
    one_of("out_dtype", out_dtype, "int32", "int16")
    integers("the data", data, *FACTORS)
    integers("the kernel", kernel, *FACTORS)
    one_number("input_scale", scale)
    return one_number("input_zero_point", zero_point)


def _by_channel(name: str, x: RelaxExpr, channels: int | None, rest: int) -> RelaxExpr:
    """The kernel's scale or zero point in a shape that broadcasts against the result."""
    x = parameter(name, x, channels or 0)
    return reshaped(x, (shape_of(x)[0], *(1,) * rest)) if rank_of(x) and rest else x


# --------------------------------------------------------------------------------- convolution


@relay_op("qnn.conv2d", prepare=window(2, "strides", "dilation", "kernel_size"))
def conv2d(
    data: RelaxExpr,
    kernel: RelaxExpr,
    input_zero_point: RelaxExpr,
    kernel_zero_point: RelaxExpr,
    input_scale: RelaxExpr,
    kernel_scale: RelaxExpr,
    *,
    kernel_size: Any,
    channels: int | None,
    strides: Any = (1, 1),
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "int32",
) -> RelaxExpr:
    """A convolution of differences from the zero points; the border stands for 0.

    The result's scale is input_scale * kernel_scale, its zero point 0.
    Shapes  kernel_scale and kernel_zero_point: scalars, or vectors of the output channels
    """
    za = _conv_operands(data, kernel, out_dtype, input_scale, input_zero_point)
    x = spread(data, data_layout, "data_layout", "NCHW")
    w = spread(kernel, kernel_layout, "kernel_layout", "OIHW")
    outputs = extents(w)[0]
    check_weight(w, channels, kernel_size, outputs)
    check_channels(x, w, groups)
    zw = _by_channel("kernel_zero_point", kernel_zero_point, outputs, 2)
    _by_channel("kernel_scale", kernel_scale, outputs, 2)
    a = {"strides": strides, "pads": padding, "dilations": dilation}
    y = integer.conv_sums(x, w, za, zw, groups, a)
    return gathered(cast_to(y, out_dtype), "NCHW", out_layout or data_layout, "out_layout")


@relay_op(
    "qnn.conv2d_transpose",
    prepare=window(2, "strides", "dilation", "kernel_size", "output_padding"),
)
def conv2d_transpose(
    data: RelaxExpr,
    weight: RelaxExpr,
    input_zero_point: RelaxExpr,
    kernel_zero_point: RelaxExpr,
    input_scale: RelaxExpr,
    kernel_scale: RelaxExpr,
    *,
    strides: Any = (1, 1),
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    channels: int | None = None,
    kernel_size: Any = None,
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "IOHW",
    out_layout: str = "",
    output_padding: Any = (0, 0),
    out_dtype: str = "int32",
) -> RelaxExpr:
    """A transposed convolution of differences from the zero points.

    The result's scale is input_scale * kernel_scale, its zero point 0.
    Shapes  the weight is [the data's channels, the result's / groups, ...] where
            kernel_layout="IOHW"; kernel_scale and kernel_zero_point: scalars, or vectors of the
            output channels (with groups=1)
    """
    za = _conv_operands(data, weight, out_dtype, input_scale, input_zero_point)
    x = spread(data, data_layout, "data_layout", "NCHW")
    w = spread(weight, kernel_layout, "kernel_layout", "IOHW")
    own = extents(w)[1]
    check_weight(w, channels, kernel_size, None if own is None else own * groups)
    check_channels(x, w, groups, transposed=True)
    zw = _by_channel("kernel_zero_point", kernel_zero_point, own, 2)
    legal(
        not rank_of(zw) or groups == 1,
        f"kernel_zero_point is a vector and groups={groups}; legal: a scalar, or groups=1",
    )
    wide_x, wide_w = wide_type(x, za), wide_type(w, zw)
    y = call(
        "conv_transpose",
        x if integer.is_zero(za) else integer.centred(x, za, wide_x),
        w if integer.is_zero(zw) else integer.centred(w, zw, wide_w),
        strides=strides, pads=padding, dilations=dilation, output_padding=output_padding,
        groups=groups, out_dtype="int32",
    )  # fmt: skip
    return gathered(cast_to(y, out_dtype), "NCHW", out_layout or data_layout, "out_layout")


# ------------------------------------------------------------------------------------ matrices


@relay_op("qnn.dense")
def dense(
    data: RelaxExpr,
    weight: RelaxExpr,
    input_zero_point: RelaxExpr,
    kernel_zero_point: RelaxExpr,
    input_scale: RelaxExpr,
    kernel_scale: RelaxExpr,
    *,
    units: int | None,
    out_dtype: str = "int32",
) -> RelaxExpr:
    """data [..., k] times the weight [units, k] transposed, of differences from the zero points.

    The result's scale is input_scale * kernel_scale, its zero point 0.
    Shapes  kernel_scale and kernel_zero_point: scalars, or vectors of the units
    """
    za = _conv_operands(data, weight, out_dtype, input_scale, input_zero_point)
    legal(rank_of(weight) == 2, f"the weight has {rank_of(weight)} dimensions; 2 are legal")
    rows = extents(weight)[0]
    legal(units is None or rows in (None, units), f"units={units}, but the weight has {rows} rows")
    zw = _by_channel("kernel_zero_point", kernel_zero_point, rows, 0)
    _by_channel("kernel_scale", kernel_scale, rows, 0)
    return cast_to(integer.product_sums(data, weight, za, zw, False, True), out_dtype)


@relay_op("qnn.batch_matmul")
def batch_matmul(
    x: RelaxExpr,
    y: RelaxExpr,
    x_zero_point: RelaxExpr,
    y_zero_point: RelaxExpr,
    x_scale: RelaxExpr,
    y_scale: RelaxExpr,
    *,
    out_dtype: str = "int32",
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> RelaxExpr:
    """x [b, m, k] times y [b, n, k] transposed, of differences from the zero points.

    The result's scale is x_scale * y_scale, its zero point 0; all four are scalars.
    """
    _conv_operands(x, y, out_dtype, x_scale, x_zero_point)
    for name, v in (("x", x), ("y", y)):
        legal(rank_of(v) >= 3, f"{name} has {rank_of(v)} dimensions; at least 3 are needed")
    one_number("y_scale", y_scale)
    za, zb = one_number("x_zero_point", x_zero_point), one_number("y_zero_point", y_zero_point)
    return cast_to(integer.product_sums(x, y, za, zb, transpose_a, transpose_b), out_dtype)


# ------------------------------------------------------------------------------------- pooling


@relay_op("qnn.avg_pool2d", prepare=window(2, "pool_size", "strides", "dilation"))
def avg_pool2d(
    data: RelaxExpr,
    input_scale: RelaxExpr,
    input_zero_point: RelaxExpr,
    output_scale: RelaxExpr,
    output_zero_point: RelaxExpr,
    *,
    pool_size: Any,
    strides: Any,
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    layout: str = "NHWC",
    out_layout: str = "",
) -> RelaxExpr:
    """The average of each window; halves are rounded up.

    The sum of differences is divided by the count to the nearest integer, which is requantized.
    The border stands for 0 and counts where count_include_pad says so.
    """
    integers("the data", data, "int8", "uint8", "int16", "uint16")
    scale, zero = whole("input_", input_scale, input_zero_point)
    output = whole("output_", output_scale, output_zero_point)
    x = spread(data, layout, "layout", "NCHW")
    pads = ceiled(x, pool_size, strides, padding, dilation) if ceil_mode else padding
    a = {"strides": strides, "pads": pads, "dilations": dilation}
    channels = extents(x)[1]
    legal(channels is not None, "the number of channels has to be known")
    sums = integer.window_sums(integer.centred(x, zero), pool_size, channels or 1, a)
    mean = _nearest_quotient(sums, _counts(x, pool_size, a, count_include_pad))
    y = requantized(mean, scale, scalar(0, "int32"), *output, dtype=dtype_of(data))
    return gathered(y, "NCHW", out_layout or layout, "out_layout")


def _counts(x: RelaxExpr, size: tuple[int, ...], a: dict[str, Any], border: bool) -> RelaxExpr:
    """How many elements each window counts."""
    if border or not any(a["pads"]):
        return scalar(int(np.prod(size)), "int32")
    _, _, h, w = shape_of(x)
    ones = call("full", shape=(1, 1, h, w), value=1.0, dtype="int32")
    return integer.window_sums(ones, size, 1, a)


def _nearest_quotient(x: RelaxExpr, count: RelaxExpr) -> RelaxExpr:
    """x / count to the nearest integer, halves up; count is positive."""
    two = scalar(2, "int32")
    return call("floor_divide", call("add", call("multiply", x, two), count),
                call("multiply", count, two))  # fmt: skip


# ------------------------------------------------------------------------------------- softmax

EXP_BITS, SHARE_BITS = 16, 30
"""Fraction bits of exponentials, and of their shares of the sum."""


@relay_op("qnn.softmax")
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
    return requantized(y, step, scalar(0, "int32"), *output, dtype=dtype_of(data))
