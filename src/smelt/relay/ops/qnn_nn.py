"""Convolutions, products of matrices and pooling of quantized numbers, summed in int32."""

from __future__ import annotations

from inspect import Parameter
from typing import Any

from smelt.relax.compose import affine, integer
from smelt.relax.compose.affine import integers, one_number
from smelt.relax.compose.common import cast_to, extents, legal, one_of, rank_of
from smelt.relax.compose.layout import gathered
from smelt.relax.compose.quantize import parameter
from smelt.relax.compose.window import matched, pooling, sliding, window
from smelt.relax.nodes import RelaxExpr
from smelt.topi.registry import attributes

from ..dialect import relay_op
from .nn import units_of
from .nn_window import placed

FACTORS = ("int8", "uint8", "int16", "uint16")
"""Element types of the operands of products."""


def _operands(
    data: RelaxExpr, kernel: RelaxExpr, out_dtype: str, scale: RelaxExpr, zero_point: RelaxExpr
) -> RelaxExpr:
    """The rules that convolutions and products share; the data's zero point."""
    one_of("out_dtype", out_dtype, "int32", "int16")
    integers("the data", data, *FACTORS)
    integers("the kernel", kernel, *FACTORS)
    one_number("input_scale", scale)
    return one_number("input_zero_point", zero_point)


# --------------------------------------------------------------------------------- convolution


def _conv(
    data: RelaxExpr, kernel: RelaxExpr, input_zero_point: RelaxExpr, kernel_zero_point: RelaxExpr,
    input_scale: RelaxExpr, kernel_scale: RelaxExpr, **a: Any,
) -> RelaxExpr:  # fmt: skip
    """A convolution of differences from the zero points; the border stands for 0.

    The result's scale is input_scale * kernel_scale, its zero point 0.
    Shapes  kernel_scale and kernel_zero_point: scalars, or vectors of the output channels
    """
    transposed, groups = "output_padding" in a, a["groups"]
    za = _operands(data, kernel, a["out_dtype"], input_scale, input_zero_point)
    x, w, place = matched(2, data, kernel, a, "IOHW" if transposed else "")
    own = extents(w)[int(transposed)] or 0
    zw = parameter("kernel_zero_point", kernel_zero_point, own)
    if transposed:
        legal(
            not rank_of(zw) or groups == 1,
            f"kernel_zero_point is a vector and groups={groups}; legal: a scalar, or groups=1",
        )
        y = integer.conv_transpose_sums(x, w, za, zw, **place)
    else:
        parameter("kernel_scale", kernel_scale, own)
        y = integer.conv_sums(x, w, za, zw, groups, sliding(a))
    y = cast_to(y, a["out_dtype"])
    return gathered(y, "NCHW", a["out_layout"] or a["data_layout"], "out_layout")


relay_op("qnn.conv2d", prepare=window(2, "strides", "dilation", "kernel_size"), order="weights")(
    attributes(kernel_size=Parameter.empty, channels=Parameter.empty, **placed(2), groups=1,
               data_layout="NCHW", kernel_layout="OIHW", out_layout="", out_dtype="int32")(_conv)
)  # fmt: skip


@relay_op(
    "qnn.conv2d_transpose",
    prepare=window(2, "strides", "dilation", "kernel_size", "output_padding"),
)
@attributes(**placed(2), channels=None, kernel_size=None, groups=1, data_layout="NCHW",
            kernel_layout="IOHW", out_layout="", output_padding=(0, 0),
            out_dtype="int32")  # fmt: skip
def conv2d_transpose(
    data: RelaxExpr, weight: RelaxExpr, input_zero_point: RelaxExpr, kernel_zero_point: RelaxExpr,
    input_scale: RelaxExpr, kernel_scale: RelaxExpr, **attrs: Any,
) -> RelaxExpr:  # fmt: skip
    """A transposed convolution of differences from the zero points.

    The result's scale is input_scale * kernel_scale, its zero point 0.
    Shapes  the weight is [the data's channels, the result's / groups, ...] where
            kernel_layout="IOHW"; kernel_scale and kernel_zero_point: scalars, or vectors of the
            output channels (with groups=1)
    """
    numbers = input_zero_point, kernel_zero_point, input_scale, kernel_scale
    return _conv(data, weight, *numbers, **attrs)


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
    za = _operands(data, weight, out_dtype, input_scale, input_zero_point)
    rows = units_of(weight, units)[0]
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
    _operands(x, y, out_dtype, x_scale, x_zero_point)
    for name, v in (("x", x), ("y", y)):
        legal(rank_of(v) >= 3, f"{name} has {rank_of(v)} dimensions; at least 3 are needed")
    one_number("y_scale", y_scale)
    za, zb = one_number("x_zero_point", x_zero_point), one_number("y_zero_point", y_zero_point)
    return cast_to(integer.product_sums(x, y, za, zb, transpose_a, transpose_b), out_dtype)


# ------------------------------------------------------------------------------------- pooling


@relay_op("qnn.avg_pool2d", prepare=window(2, "pool_size", "strides", "dilation"), order="layout")
@attributes(pool_size=Parameter.empty, strides=Parameter.empty, padding=(0, 0), dilation=(1, 1),
            ceil_mode=False, count_include_pad=True, layout="NHWC", out_layout="")  # fmt: skip
def avg_pool2d(
    data: RelaxExpr, input_scale: RelaxExpr, input_zero_point: RelaxExpr, output_scale: RelaxExpr,
    output_zero_point: RelaxExpr, **a: Any,
) -> RelaxExpr:  # fmt: skip
    """The average of each window; halves are rounded up.

    The sum of differences is divided by the count to the nearest integer, which is requantized.
    The border stands for 0 and counts where count_include_pad says so.
    """
    x, place = pooling(2, data, a)
    numbers, output = (input_scale, input_zero_point), (output_scale, output_zero_point)
    y = affine.average(x, numbers, output, place.pop("kernel"), place, a["count_include_pad"])
    return gathered(y, "NCHW", a["out_layout"] or a["layout"], "out_layout")
