"""Converters of quantized operators of ONNX's own domain."""

from __future__ import annotations

from typing import Unpack

from smelt.frontend.common import Build, Value, moves
from smelt.frontend.common.moves import as_type
from smelt.ir import dtype as dt

from . import quantized
from .ops_cast import element_type, saturated
from .registry import Convolving, Quantized, Scaling, onnx_op

MICROSOFT = "com.microsoft"


@onnx_op("DequantizeLinear", since=10)
@onnx_op("DequantizeLinear", domain=MICROSOFT)
def dequantize(
    g: Build,
    x: Value,
    scale: Value,
    zero: Value | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Value:
    """(x - zero) scale; one scale, one for each index of an axis, or one for each block of it."""
    dtype = element_type(g, output_dtype, "output_dtype") if output_dtype else scale.dtype
    apart, (s, z) = quantized.aligned(g, x, axis, block_size, scale, quantized.moving(g, zero))
    y = g.call("dequantize", apart, s, z, axis=axis, out_dtype=dtype)
    return moves.reshape(g, y, x.shape)


@onnx_op("QuantizeLinear", since=10)
@onnx_op("QuantizeLinear", domain=MICROSOFT)
def quantize(
    g: Build,
    x: Value,
    scale: Value,
    zero: Value | None = None,
    *,
    axis: int = 1,
    saturate: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
) -> Value:
    """x / scale rounded to even, moved by the zero point, saturated.

    The division is done in `precision`, or in the scale's type.
    """
    dtype = element_type(g, output_dtype, "output_dtype") if output_dtype else "uint8"
    if zero is not None:
        if output_dtype and dtype != zero.dtype:
            g.malformed(
                f"output_dtype={output_dtype} ({dtype}), but the zero point is {zero.dtype}"
            )
        dtype = zero.dtype
    if dtype not in quantized.QUANTIZED:
        g.unsupported(f"a result of {dtype}", ", ".join(quantized.QUANTIZED))
    wide = element_type(g, precision, "precision") if precision else scale.dtype
    if not dt.is_float(wide) or dt.width(wide) < 16:
        wide = "float32"
    apart, (s, z) = quantized.aligned(g, x, axis, block_size, scale, quantized.moving(g, zero))
    if dtype in quantized.INTEGERS:
        y = g.call("quantize", apart, s, z, axis=axis, out_dtype=dtype,
                   compute_dtype="" if wide == x.dtype else wide)  # fmt: skip
        return moves.reshape(g, y, x.shape)
    assert s is not None
    if s.rank == 1 and not block_size:  # along an axis, from here on as it broadcasts
        s = moves.reshape(g, s, (s.shape[0], *([1] * (x.rank - 1 - g.axis(axis, x.rank)))))
    y = g.call("divide", as_type(g, apart, wide), as_type(g, s, wide))
    y = saturated(g, y, dtype) if saturate else as_type(g, y, dtype)
    return moves.reshape(g, y, x.shape)


# ------------------------------------------------------------------------------------ products


@onnx_op("MatMulInteger", since=10)
def matmul_integer(
    g: Build, a: Value, b: Value, a_zero: Value | None = None, b_zero: Value | None = None
) -> Value:
    """(A - its zero point) (B - its zero point) in int32."""
    return quantized.matmul_integers(g, a, b, a_zero, b_zero)


@onnx_op("QLinearMatMul", since=10)
def qlinear_matmul(g: Build, a: Quantized, b: Quantized, y: Scaling) -> Value:
    """MatMulInteger, brought to the scale and zero point of the result."""
    sums = quantized.matmul_integers(g, a.value, b.value, a.zero, b.zero)
    a_scale = a.scale
    if a_scale.rank == 1 and a_scale.shape != (1,):  # one for each row
        a_scale = moves.expand_dims(g, a_scale, (1,))
    zero = quantized.one(g, y.zero, "the result's zero point")
    scale = g.call("multiply", quantized.single(g, a_scale), quantized.single(g, b.scale))
    return quantized.requantized(
        g, sums, scale, quantized.one(g, y.scale, "the result's scale"), zero, zero.dtype
    )


@onnx_op("ConvInteger", since=10)
def conv_integer(
    g: Build,
    x: Value,
    w: Value,
    x_zero: Value | None = None,
    w_zero: Value | None = None,
    **attrs: Unpack[Convolving],
) -> Value:
    """A convolution of differences from the zero points in int32."""
    return quantized.conv_integers(g, x, w, x_zero, w_zero, **attrs)


@onnx_op("QLinearConv", since=10)
def qlinear_conv(
    g: Build,
    x: Quantized,
    w: Quantized,
    y: Scaling,
    b: Value | None = None,
    **attrs: Unpack[Convolving],
) -> Value:
    """ConvInteger and a bias, brought to the scale and zero point of the result."""
    sums = quantized.conv_integers(g, x.value, w.value, x.zero, w.zero, **attrs)
    channels = (w.value.shape[0], *(1,) * (x.value.rank - 2))
    if b is not None:
        sums = g.call("add", sums, moves.reshape(g, b, channels))
    scale = g.call(
        "multiply", quantized.one(g, x.scale, "the image's scale"), quantized.single(g, w.scale)
    )
    y_scale, zero = (
        quantized.one(g, y.scale, "the result's scale"),
        quantized.one(g, y.zero, "the result's zero point"),
    )
    return quantized.requantized(g, sums, scale, y_scale, zero, y.zero.dtype, axis=1)
