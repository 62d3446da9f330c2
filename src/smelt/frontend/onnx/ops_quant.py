"""Converters of quantized operators of ONNX's own domain."""

from __future__ import annotations

from typing import Unpack

from smelt.ir import dtype as dt

from . import moves
from .build import Build
from .ops_cast import as_type
from .quantized import (
    QUANTIZED,
    aligned,
    conv_integers,
    dequantized,
    matmul_integers,
    one,
    ratio,
    stored,
)
from .registry import Convolving, onnx_op
from .values import Value

__all__: list[str] = []

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
    dtype = g.dtype(output_dtype, "output_dtype") if output_dtype else scale.dtype
    apart, (s, z) = aligned(g, x, axis, block_size, scale, zero)
    assert s is not None
    return moves.reshape(g, dequantized(g, apart, s, z, dtype), x.shape)


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
    dtype = g.dtype(output_dtype, "output_dtype") if output_dtype else "uint8"
    if zero is not None:
        if output_dtype and dtype != zero.dtype:
            g.malformed(
                f"output_dtype={output_dtype} ({dtype}), but the zero point is {zero.dtype}"
            )
        dtype = zero.dtype
    if dtype not in QUANTIZED:
        g.unsupported(f"a result of {dtype}", ", ".join(QUANTIZED))
    wide = g.dtype(precision, "precision") if precision else scale.dtype
    if not dt.is_float(wide) or dt.width(wide) < 16:
        wide = "float32"
    apart, (s, z) = aligned(g, x, axis, block_size, scale, zero)
    assert s is not None
    y = g.call("divide", as_type(g, apart, wide), as_type(g, s, wide))
    return moves.reshape(g, stored(g, y, z, dtype, bool(saturate)), x.shape)


# ------------------------------------------------------------------------------------ products


@onnx_op("MatMulInteger", since=10)
def matmul_integer(
    g: Build, a: Value, b: Value, a_zero: Value | None = None, b_zero: Value | None = None
) -> Value:
    """(A - its zero point) (B - its zero point) in int32."""
    return matmul_integers(g, a, b, a_zero, b_zero)


@onnx_op("QLinearMatMul", since=10)
def qlinear_matmul(
    g: Build,
    a: Value,
    a_scale: Value,
    a_zero: Value,
    b: Value,
    b_scale: Value,
    b_zero: Value,
    y_scale: Value,
    y_zero: Value,
) -> Value:
    """MatMulInteger, brought to the scale and zero point of the result."""
    y = as_type(g, matmul_integers(g, a, b, a_zero, b_zero), "float32")
    if a_scale.rank == 1 and a_scale.shape != (1,):  # one for each row
        a_scale = moves.expand_dims(g, a_scale, (1,))
    y_zero = one(g, y_zero, "the result's zero point")
    a_scale, b_scale = (
        moves.reshape(g, s, ()) if s.shape == (1,) else s for s in (a_scale, b_scale)
    )
    factor = ratio(g, a_scale, b_scale, one(g, y_scale, "the result's scale"))
    return stored(g, g.call("multiply", y, factor), y_zero, y_zero.dtype)


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
    return conv_integers(g, x, w, x_zero, w_zero, **attrs)


@onnx_op("QLinearConv", since=10)
def qlinear_conv(
    g: Build,
    x: Value,
    x_scale: Value,
    x_zero: Value,
    w: Value,
    w_scale: Value,
    w_zero: Value,
    y_scale: Value,
    y_zero: Value,
    b: Value | None = None,
    **attrs: Unpack[Convolving],
) -> Value:
    """ConvInteger and a bias, brought to the scale and zero point of the result."""
    y = conv_integers(g, x, w, x_zero, w_zero, **attrs)
    channels = (w.shape[0], *(1,) * (x.rank - 2))
    if b is not None:
        y = g.call("add", y, moves.reshape(g, b, channels))
    w_scale = moves.reshape(g, w_scale, () if w_scale.shape in ((), (1,)) else channels)
    factor = ratio(
        g, one(g, x_scale, "the image's scale"), w_scale, one(g, y_scale, "the result's scale")
    )
    y = g.call("multiply", as_type(g, y, "float32"), factor)
    return stored(g, y, one(g, y_zero, "the result's zero point"), y_zero.dtype)
