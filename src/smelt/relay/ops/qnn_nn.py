"""Convolutions, products of matrices and pooling of quantized numbers, summed in int32."""

from __future__ import annotations

from typing import Any

from smelt.relax.compose import affine, integer
from smelt.relax.compose.affine import integers, one_number
from smelt.relax.compose.common import cast_to, extents, legal, one_of, rank_of
from smelt.relax.compose.layout import gathered, spread
from smelt.relax.compose.quantize import parameter
from smelt.relax.compose.window import ceiled, check_channels, check_weight, window
from smelt.relax.nodes import RelaxExpr

from ..dialect import relay_op

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
    zw = parameter("kernel_zero_point", kernel_zero_point, outputs or 0)
    parameter("kernel_scale", kernel_scale, outputs or 0)
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
    zw = parameter("kernel_zero_point", kernel_zero_point, own or 0)
    legal(
        not rank_of(zw) or groups == 1,
        f"kernel_zero_point is a vector and groups={groups}; legal: a scalar, or groups=1",
    )
    y = integer.conv_transpose_sums(
        x, w, za, zw, strides=strides, pads=padding, dilations=dilation,
        output_padding=output_padding, groups=groups,
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
    zw = parameter("kernel_zero_point", kernel_zero_point, rows or 0)
    parameter("kernel_scale", kernel_scale, rows or 0)
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
    x = spread(data, layout, "layout", "NCHW")
    pads = ceiled(x, pool_size, strides, padding, dilation) if ceil_mode else padding
    a = {"strides": strides, "pads": pads, "dilations": dilation}
    numbers, output = (input_scale, input_zero_point), (output_scale, output_zero_point)
    y = affine.average(x, numbers, output, pool_size, a, count_include_pad)
    return gathered(y, "NCHW", out_layout or layout, "out_layout")
