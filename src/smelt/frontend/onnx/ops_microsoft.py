"""Converters of the operators that onnxruntime's quantizer writes into models (com.microsoft)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any, TypeVar, Unpack

import numpy as np

from smelt.frontend.common import Build, Value, moves
from smelt.frontend.common.moves import as_type
from smelt.frontend.common.windows import Sliding
from smelt.ir import dtype as dt

from . import ops_math, ops_pool, ops_quant
from .ops_quant import matmul_integer, matrix_product, one, requantized, single
from .registry import MICROSOFT, Convolving, Ints, Quantized, Scaling, converter_of, onnx_op

F = TypeVar("F", bound=Callable[..., Value])


def _number(g: Build, x: Value, scale: Value, zero: Value | None) -> Value:
    """What a quantized tensor stands for, in float32."""
    zero = None if zero is None else one(g, zero, "a zero point")
    return g.call("dequantize", x, one(g, scale, "a scale"), zero)


def _quantized(g: Build, y: Value, scale: Value, zero: Value | None, dtype: str) -> Value:
    """A float32 as a quantized number."""
    zero = None if zero is None else one(g, zero, "a zero point")
    return g.call("quantize", y, one(g, scale, "a scale"), zero, out_dtype=dtype)


def _on_floats(name: str, zero: Any = None) -> Callable[[F], F]:
    """Enter a converter of float tensors as one of quantized operands and a quantized result.

    zero  the default of the operand y_zero
    """

    def enter(fn: F) -> F:
        g, *own = inspect.signature(fn).parameters.values()
        operands = [p.replace(annotation="Quantized") for p in own if p.kind == g.kind]
        attributes = [p for p in own if p.kind != g.kind]
        scaling = [Parameter("y_scale", g.kind), Parameter("y_zero", g.kind, default=zero)]

        def convert(g: Build, *given: Any, **attrs: Any) -> Value:
            quantized, (scale, *zero) = given[: len(operands)], given[len(operands) :]
            y = fn(g, *[_number(g, *x) for x in quantized], **attrs)
            return _quantized(g, y, scale, zero[0] if zero else None, quantized[0].value.dtype)

        vars(convert)["__signature__"] = Signature([g, *operands, *scaling, *attributes])
        onnx_op(name, domain=MICROSOFT)(convert)
        return fn

    return enter


for _name in ("Add", "Mul", "Sigmoid"):
    _on_floats(f"QLinear{_name}")(ops_math.SAME[_name])
_on_floats("QLinearLeakyRelu")(ops_math.leaky_relu)


@_on_floats("QLinearSoftmax")
def softmax(g: Build, x: Value, *, axis: int = -1, opset: int) -> Value:
    """Softmax as operator set `opset` defines it."""
    converter = converter_of("", "Softmax", opset)
    assert converter is not None
    return converter.fn(g, x, axis=axis)  # type: ignore[no-any-return]


@onnx_op("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(g: Build, y_scale: Value, y_zero: Value, *parts: Value, axis: int) -> Value:
    """Tensors one behind the other; each comes with its scale and zero point."""
    if not parts or len(parts) % 3:
        g.malformed(f"{len(parts)} operands behind the first two; a multiple of 3 is needed")
    found = [_number(g, *parts[i : i + 3]) for i in range(0, len(parts), 3)]
    return _quantized(g, moves.concat(g, found, axis), y_scale, y_zero, y_zero.dtype)


# ------------------------------------------------------------------------------------- pooling


def _channels_second(
    g: Build, x: Value, channels_last: int, convert: Callable[[Value], Value]
) -> Value:
    """A converter of images [n, c, ...] applied to one that, with channels_last, is [n, ..., c]."""
    if not channels_last:
        return convert(x)
    last = x.rank - 1
    y = convert(moves.transpose(g, x, (0, last, *range(1, last))))
    return moves.transpose(g, y, (0, *range(2, last + 1), 1))


@_on_floats("QLinearGlobalAveragePool", zero=Parameter.empty)
def global_average_pool(g: Build, x: Value, *, channels_last: int = 0) -> Value:
    """The mean over all pixels, of images [n, c, ...] or, with channels_last, [n, ..., c]."""
    axes = tuple(range(1, x.rank - 1) if channels_last else range(2, x.rank))
    return g.call("mean", x, axes=axes, keepdims=True)


@_on_floats("QLinearAveragePool")
def average_pool(
    g: Build, x: Value, *, ceil_mode: int = 0, channels_last: int = 0, count_include_pad: int = 0,
    kernel_shape: Ints, **place: Unpack[Sliding],
) -> Value:  # fmt: skip
    """The mean of each window."""
    return _channels_second(g, x, channels_last, lambda v: ops_pool.average_pool(
        g, v, ceil_mode=ceil_mode, count_include_pad=count_include_pad, kernel_shape=kernel_shape,
        **place,
    ))  # fmt: skip


# ------------------------------------------------------------------------------------ products


@onnx_op("QLinearConv", domain=MICROSOFT)
def qlinear_conv(
    g: Build, x: Quantized, w: Quantized, y: Scaling, b: Value | None = None, *,
    channels_last: int = 0, **attrs: Unpack[Convolving],
) -> Value:  # fmt: skip
    """QLinearConv of images [n, c, ...] or, with channels_last, [n, ..., c]."""

    def convert(v: Value) -> Value:
        return ops_quant.qlinear_conv(g, x._replace(value=v), w, y, b, **attrs)

    return _channels_second(g, x.value, channels_last, convert)


@onnx_op("QGemm", domain=MICROSOFT)
def qgemm(
    g: Build, a: Quantized, b: Quantized, c: Value | None = None, y_scale: Value | None = None,
    y_zero: Value | None = None, *, alpha: float = 1.0, transA: int = 0, transB: int = 0,
) -> Value:  # fmt: skip
    """alpha A B + C, C in int32; float32 where the result has no scale."""
    y = matrix_product(g, a.value, b.value, a.zero, b.zero, (bool(transA), bool(transB)))
    if c is not None:
        y = g.call("add", y, c)
    scale = g.call("multiply", single(g, a.scale), single(g, b.scale))
    if alpha != 1:
        scale = g.call("multiply", scale, alpha)
    if y_scale is None:
        return g.call("dequantize", y, scale)
    zero = None if y_zero is None else one(g, y_zero, "the result's zero point")
    dtype = (a.value if zero is None else zero).dtype
    return requantized(g, y, scale, one(g, y_scale, "the result's scale"), zero, dtype)


@onnx_op("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(
    g: Build, a: Value, b: Value, a_scale: Value, b_scale: Value, a_zero: Value | None = None,
    b_zero: Value | None = None, bias: Value | None = None,
) -> Value:  # fmt: skip
    """A product of quantized matrices, as floats."""
    y = as_type(g, matmul_integer(g, a, b, a_zero, b_zero), a_scale.dtype)
    y = g.call("multiply", y, g.call("multiply", single(g, a_scale), single(g, b_scale)))
    return y if bias is None else g.call("add", y, bias)


@onnx_op("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(
    g: Build, a: Value, b: Value, b_scale: Value, b_zero: Value | None = None,
    bias: Value | None = None,
) -> Value:  # fmt: skip
    """A float matrix, quantized to uint8 by its own range, times a quantized one."""
    low, high = [
        g.call(both, g.call(end, a, axes=None, keepdims=False), 0.0)
        for both, end in (("minimum", "min"), ("maximum", "max"))
    ]
    scale = g.call("divide", g.call("subtract", high, low), 255.0)
    # all zeros: any scale does
    none = g.call("equal", scale, 0.0)
    scale = g.call("where", none, 1.0, scale)
    zero = g.call("quantize", g.call("negative", low), scale, out_dtype="uint8")
    whole = g.call("quantize", a, scale, zero, out_dtype="uint8")
    return matmul_integer_to_float(g, whole, b, scale, b_scale, zero, b_zero, bias)


@onnx_op("MatMulNBits", domain=MICROSOFT)
def matmul_nbits(
    g: Build, a: Value, b: Value, scales: Value, zero_points: Value | None = None,
    g_idx: Value | None = None, bias: Value | None = None, *, K: int, N: int, bits: int = 4,
    block_size: int, accuracy_level: int = 0,
) -> Value:  # fmt: skip
    """A [..., K] times a matrix of N columns, whose blocks of numbers of a few bits are packed.

    Shapes  b [N, blocks, block_size bits / 8], scales N blocks, zero_points N blocks (floats) or
            [N, the bytes that hold a number for each block]
    """
    g.one_of("bits", bits, (2, 4, 8))
    if g_idx is not None:
        g.unsupported("the operand 'g_idx'", "blocks in order")
    blocks, zero = -(-K // block_size), zero_points
    q = _numbers(g, b, (N, K), bits, signed=zero is None)
    if zero is not None:
        packed = zero.dtype == "uint8"
        zero = (
            _numbers(g, zero, (N, blocks), bits) if packed else moves.reshape(g, zero, (N, blocks))
        )
    rounded = accuracy_level == 4 and bits < 8  # bytes are no faster than floats
    y = g.call("matmul_in_blocks", as_type(g, a, "float32"), q,
               moves.reshape(g, scales, (N, blocks)), zero, block=block_size, transpose=True,
               compute_dtype="int8" if rounded else "float32")  # fmt: skip
    y = as_type(g, y, a.dtype)
    return y if bias is None else g.call("add", y, bias)


@onnx_op("GatherBlockQuantized", domain=MICROSOFT)
def gather_block_quantized(
    g: Build, data: Value, indices: Value, scales: Value, zero_points: Value | None = None, *,
    bits: int = 4, block_size: int = 128, gather_axis: int = 0, quantize_axis: int = 1,
) -> Value:  # fmt: skip
    """Slices of a tensor whose blocks along an axis have a scale each, as numbers.

    Shapes  data of uint8 holds the bits of several numbers along its last dimension in a byte
    """
    g.one_of("bits", bits, (2, 4, 8))
    axis = g.axis(quantize_axis, data.rank)
    if data.dtype == "uint8":
        if axis != data.rank - 1:
            g.unsupported(f"quantize_axis={quantize_axis} of bytes", "the last dimension")
        *outer, last = [g.extent(data, d, "data") for d in range(data.rank)]
        size, blocks = (*outer, last * 8 // bits), g.extent(scales, axis, "scales")
        data = _numbers(g, data, size, bits, signed=zero_points is None)
        if zero_points is not None:
            zero_points = _numbers(g, zero_points, (*outer, blocks), bits)
    y = ops_quant.dequantize(
        g, data, scales, zero_points, axis=quantize_axis, block_size=block_size
    )
    return moves.take(g, y, indices, g.axis(gather_axis, data.rank))


def _numbers(g: Build, x: Value, shape: tuple[int, ...], bits: int, signed: bool = False) -> Value:
    """Packed numbers of a shape; signed: with what was in the middle of their range as 0."""
    if not x.is_array:
        g.unsupported("packed numbers that are computed at run time", "constants")
    rows = x.array.reshape(int(np.prod(shape[:-1])), -1)
    whole = _unpacked(rows, bits)[:, : shape[-1]].reshape(shape)
    if not signed:
        return g.constant(whole, f"uint{bits}")
    return g.constant(whole.astype(np.int16) - (1 << (bits - 1)), f"int{bits}")


def _unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """The numbers of each row of bytes, the lowest bits first."""
    places = np.arange(0, 8, bits, dtype=np.uint8)
    mask = dt.limits("uint8")[1] >> (8 - bits)
    return ((packed[:, :, None] >> places) & mask).reshape(packed.shape[0], -1)
