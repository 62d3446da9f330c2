"""Converters of quantized operators: a number q stands for scale * (q - zero point)."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from smelt.frontend.common import Build, Value, moves
from smelt.frontend.common.moves import as_type
from smelt.frontend.common.values import static
from smelt.frontend.common.windows import Placing, window
from smelt.ir import dtype as dt
from smelt.relax.compose.integer import conv_sums, product_sums

from .ops_cast import element_type, saturated
from .ops_nn import per_channel
from .registry import MICROSOFT, Convolving, Ints, Quantized, Scaling, onnx_op

INTEGERS = ("int8", "uint8", "int16", "uint16", "int4", "uint4", "int2", "uint2")
_FLOATS = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float4_e2m1fn")
QUANTIZED = (*INTEGERS, *_FLOATS)
"""Element types of quantized tensors."""


def moving(g: Build, zero: Value | None) -> Value | None:
    """A zero point that has to be computed with; that of a float8 is 0 by definition."""
    if zero is None or dt.is_int(zero.dtype):
        return zero
    if zero.is_array and (zero.known is None or np.any(zero.known)):
        g.malformed(f"a zero point of {zero.dtype} other than 0")
    return None


def one(g: Build, v: Value, what: str) -> Value:
    """A scale or zero point of a whole tensor, as a scalar."""
    if v.rank > 1 or v.shape not in ((), (1,)):
        g.unsupported(f"{what} of the shape {v.shape}", "one number")
    return moves.reshape(g, v, ())


def single(g: Build, v: Value) -> Value:
    """A vector of one element as a scalar; others stay."""
    return moves.reshape(g, v, ()) if v.shape == (1,) else v


# ------------------------------------------------------------------------------ along an axis


def _along(g: Build, v: Value, x: Value, axis: int, block: int) -> Value:
    """A scale or zero point: one number, a vector along the axis, or one for each element."""
    if v.rank == 0 or v.shape == (1,):
        return moves.reshape(g, v, ())
    axis = g.axis(axis, x.rank)
    if not block:
        if v.rank != 1:
            g.malformed(
                f"a scale or zero point of the shape {v.shape} without block_size; legal: one "
                f"number, or one for each index of axis {axis}"
            )
        return v
    extent, count = x.shape[axis], v.shape[axis] if v.rank == x.rank else None
    if v.rank != x.rank or (static((extent, count)) and count != -(-extent // block)):
        g.malformed(
            f"a scale or zero point of the shape {v.shape} for operands of {x.shape} in blocks of "
            f"{block} along axis {axis}"
        )
    if not isinstance(extent, int):
        g.unsupported(f"block_size={block} along an axis of symbolic size", "constant sizes")
    g.affordable((extent,), "block numbers")
    return moves.take(g, v, g.constant(np.arange(extent) // block), axis)


def aligned(
    g: Build, x: Value, axis: int, block: int, *parameters: Value | None
) -> tuple[Value, list[Value | None]]:
    """An operand, its scale and its zero point; that of a float8 is 0 by definition, and left out.

    Blocks of an axis become a dimension of its own; the result is reshaped back by the caller.
    """
    if block < 0:
        g.malformed(f"block_size={block}; legal: 0 and more")
    place = g.axis(axis, x.rank) if block else 0
    extent = x.shape[place] if block else 0
    if not block or not isinstance(extent, int) or extent % block:
        return x, [None if v is None else _along(g, v, x, axis, block) for v in parameters]
    found: list[Value | None] = []
    for v in parameters:
        if v is None or v.rank == 0 or v.shape == (1,):
            found.append(None if v is None else moves.reshape(g, v, ()))
            continue
        _along(g, v, x, axis, block)  # checks the shape
        found.append(moves.expand_dims(g, v, (place + 1,)))
    apart = (*x.shape[:place], extent // block, block, *x.shape[place + 1 :])
    return moves.reshape(g, x, apart), found


# ------------------------------------------------------------------------------------- values


def requantized(
    g: Build, sums: Value, scale: Value, y_scale: Value, zero: Value | None, dtype: str,
    axis: int = -1,
) -> Value:  # fmt: skip
    """Sums of products in steps of `scale` as numbers in steps of `y_scale`, rounded to even."""
    if dtype not in INTEGERS:
        g.unsupported(f"a result of {dtype}", ", ".join(INTEGERS))
    return g.call("requantize", sums, as_type(g, scale, "float32"), None,
                  as_type(g, y_scale, "float32"), zero, axis=axis, out_dtype=dtype,
                  rounding="even", compute_dtype="float32")  # fmt: skip


# ------------------------------------------------------------------------------------ products


@onnx_op("MatMulInteger", since=10)
def matmul_integer(
    g: Build, a: Value, b: Value, a_zero: Value | None = None, b_zero: Value | None = None
) -> Value:
    """numpy's matmul of differences from zero points, in int32.

    a_zero  one number, or one for each row: [m], or [..., m, 1]
    b_zero  one number, or one for each column: [n], or [..., 1, n]
    """
    return moves.of_matrices(g, a, b, lambda a, b: matrix_product(g, a, b, a_zero, b_zero))


def matrix_product(
    g: Build, a: Value, b: Value, za: Value | None, zb: Value | None,
    turn: tuple[bool, bool] = (False, False),
) -> Value:  # fmt: skip
    """The same of matrices, transposed first where `turn` says so."""
    za = g.constant(0, a.dtype) if za is None else za
    zb = g.constant(0, b.dtype) if zb is None else zb
    za, zb = single(g, za), single(g, zb)
    if za.rank or zb.rank > 1:  # numbers of rows: differences are formed first
        if any(turn):
            g.unsupported("zero points of rows of transposed operands", "one number")
        za = moves.expand_dims(g, za, (1,)) if za.rank == 1 else za
        a, b = _difference(g, a, za), _difference(g, b, zb)
        za, zb = g.constant(0, "int32"), g.constant(0, "int32")
    return g.composed(product_sums, a, b, za, zb, *turn)


def _difference(g: Build, x: Value, zero: Value) -> Value:
    return g.call("subtract", as_type(g, x, "int32"), as_type(g, zero, "int32"))


@onnx_op("ConvInteger", since=10)
def conv_integer(
    g: Build, x: Value, w: Value, x_zero: Value | None = None, w_zero: Value | None = None, *,
    group: int = 1, kernel_shape: Ints = (), **place: Unpack[Placing],
) -> Value:  # fmt: skip
    """A convolution of differences from zero points, in int32; the border stands for 0.

    w_zero  one number, or one for each output channel
    """
    if x.rank not in (3, 4, 5):
        g.unsupported(f"an image of {x.rank} dimensions", "3, 4, 5")
    if w.rank != x.rank or (kernel_shape and static(w.shape) and kernel_shape != w.shape[2:]):
        g.malformed(f"weights of {w.shape}, an image of {x.shape}, kernel_shape={kernel_shape}")
    win = window(g, x, w.shape[2:], **place)
    if any(p < 0 for p in win.pads):
        g.unsupported(f"pads={win.pads}", "padding from 0 on")
    zx = g.constant(0, x.dtype) if x_zero is None else one(g, x_zero, "the image's zero point")
    zw = g.constant(0, w.dtype) if w_zero is None else w_zero
    return g.composed(conv_sums, x, w, zx, zw, group, win.placed())


@onnx_op("DequantizeLinear", since=10)
@onnx_op("DequantizeLinear", domain=MICROSOFT)
def dequantize(
    g: Build, x: Value, scale: Value, zero: Value | None = None, *, axis: int = 1,
    block_size: int = 0, output_dtype: int = 0,
) -> Value:  # fmt: skip
    """(x - zero) scale; one scale, one for each index of an axis, or one for each block of it."""
    dtype = element_type(g, output_dtype, "output_dtype") if output_dtype else scale.dtype
    apart, (s, z) = aligned(g, x, axis, block_size, scale, moving(g, zero))
    y = g.call("dequantize", apart, s, z, axis=axis, out_dtype=dtype)
    return moves.reshape(g, y, x.shape)


@onnx_op("QuantizeLinear", since=10)
@onnx_op("QuantizeLinear", domain=MICROSOFT)
def quantize(
    g: Build, x: Value, scale: Value, zero: Value | None = None, *, axis: int = 1,
    saturate: int = 1, block_size: int = 0, output_dtype: int = 0, precision: int = 0,
) -> Value:  # fmt: skip
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
    if dtype not in QUANTIZED:
        g.unsupported(f"a result of {dtype}", ", ".join(QUANTIZED))
    wide = element_type(g, precision, "precision") if precision else scale.dtype
    if not dt.is_float(wide) or dt.width(wide) < 16:
        wide = "float32"
    apart, (s, z) = aligned(g, x, axis, block_size, scale, moving(g, zero))
    if dtype in INTEGERS:
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


@onnx_op("QLinearMatMul", since=10)
def qlinear_matmul(g: Build, a: Quantized, b: Quantized, y: Scaling) -> Value:
    """MatMulInteger, brought to the scale and zero point of the result."""
    sums = matmul_integer(g, a.value, b.value, a.zero, b.zero)
    a_scale = a.scale
    if a_scale.rank == 1 and a_scale.shape != (1,):  # one for each row
        a_scale = moves.expand_dims(g, a_scale, (1,))
    zero = one(g, y.zero, "the result's zero point")
    scale = g.call("multiply", single(g, a_scale), single(g, b.scale))
    return requantized(g, sums, scale, one(g, y.scale, "the result's scale"), zero, zero.dtype)


@onnx_op("QLinearConv", since=10)
def qlinear_conv(
    g: Build, x: Quantized, w: Quantized, y: Scaling, b: Value | None = None,
    **attrs: Unpack[Convolving],
) -> Value:  # fmt: skip
    """ConvInteger and a bias, brought to the scale and zero point of the result."""
    sums = conv_integer(g, x.value, w.value, x.zero, w.zero, **attrs)
    if b is not None:
        sums = g.call("add", sums, per_channel(g, b, sums.rank))
    scale = g.call("multiply", one(g, x.scale, "the image's scale"), single(g, w.scale))
    y_scale, zero = one(g, y.scale, "the result's scale"), one(g, y.zero, "the result's zero point")
    return requantized(g, sums, scale, y_scale, zero, y.zero.dtype, axis=1)
