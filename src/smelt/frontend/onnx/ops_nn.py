"""Converters of convolutions and of softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import moves
from .build import Build
from .registry import Ints, onnx_op
from .values import Value, product, static
from .windows import window

__all__: list[str] = []


def per_channel(g: Build, v: Value, rank: int) -> Value:
    """A vector as it broadcasts along dimension 1 of a tensor with `rank` dimensions."""
    if v.rank != 1:
        g.malformed(f"a vector is expected, the operand has {v.rank} dimensions")
    return moves.reshape(g, v, (v.shape[0], *([1] * (rank - 2))))


@onnx_op("Conv")
def conv(
    g: Build,
    x: Value,
    w: Value,
    b: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = (),
    group: int = 1,
    kernel_shape: Ints = (),
    pads: Ints = (),
    strides: Ints = (),
) -> Value:
    """Convolutions of 1 to 3 spatial dimensions."""
    if x.rank not in (3, 4, 5):
        g.unsupported(f"an image of {x.rank} dimensions", "3, 4, 5")
    _check_kernel(g, x, w, kernel_shape)
    win = window(
        g, x, w.shape[2:], auto_pad=auto_pad, strides=strides, pads=pads, dilations=dilations
    )
    w, cut = _cropped(g, x, w, win.pads)
    y = g.call(
        f"conv{x.rank - 2}d",
        cut,
        w,
        strides=win.strides,
        dilations=win.dilations,
        groups=group,
        pads=tuple([max(p, 0) for p in win.pads]),
    )
    return y if b is None else g.call("add", y, per_channel(g, b, y.rank))


def _check_kernel(g: Build, x: Value, w: Value, kernel_shape: Ints) -> None:
    if w.rank != x.rank:
        g.malformed(f"the image has {x.rank} dimensions, the weights {w.rank}")
    if kernel_shape and static(w.shape[2:]) and kernel_shape != w.shape[2:]:
        g.malformed(f"kernel_shape={kernel_shape}, but the weights have {w.shape[2:]}")


def _cropped(g: Build, x: Value, w: Value, pads: Ints) -> tuple[Value, Value]:
    """Negative padding cuts the image."""
    rank = x.rank - 2
    for d in range(rank):
        begin, end = -min(pads[d], 0), min(pads[rank + d], 0)
        if begin or end:
            x = moves.slice_(g, x, (2 + d,), (begin,), (end or 1 << 62,), (1,))
    return w, x


@onnx_op("ConvTranspose")
def conv_transpose(
    g: Build,
    x: Value,
    w: Value,
    b: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = (),
    group: int = 1,
    kernel_shape: Ints = (),
    output_padding: Ints = (),
    output_shape: Ints = (),
    pads: Ints = (),
    strides: Ints = (),
) -> Value:
    """The gradient of a convolution as a layer."""
    _check_kernel(g, x, w, kernel_shape)
    rank = x.rank - 2
    win = window(
        g, x, w.shape[2:], auto_pad="NOTSET", strides=strides, pads=pads, dilations=dilations
    )
    g.one_of("auto_pad", auto_pad, ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"))
    extra = output_padding or (0,) * rank
    begins, ends = list(win.pads[:rank]), list(win.pads[rank:])
    if output_shape or auto_pad.startswith("SAME"):
        for d in range(rank):
            extent = x.shape[2 + d]
            if not isinstance(extent, int):
                if output_shape:
                    g.unsupported("output_shape with a symbolic size", "constant sizes")
                total = win.reach(d) - win.strides[d] + extra[d]
            else:
                wanted = output_shape[-rank:][d] if output_shape else extent * win.strides[d]
                total = win.strides[d] * (extent - 1) + extra[d] + win.reach(d) - wanted
            half = abs(total) // 2 * (1 if total >= 0 else -1)
            begins[d], ends[d] = (
                (half, total - half) if auto_pad == "SAME_UPPER" else (total - half, half)
            )
    if any(p < 0 for p in (*begins, *ends)):
        if any(p < 0 for p in begins):
            g.unsupported("padding below 0 at the beginning", "padding from 0 on")
        extra = tuple([e - min(p, 0) for e, p in zip(extra, ends, strict=True)])
        ends = [max(p, 0) for p in ends]
    y = g.call(
        "conv_transpose",
        x,
        w,
        strides=win.strides,
        dilations=win.dilations,
        groups=group,
        pads=(*begins, *ends),
        output_padding=extra,
    )
    return y if b is None else g.call("add", y, per_channel(g, b, y.rank))


# ------------------------------------------------------------------------------------- softmax


def _flattened(g: Build, op: str, x: Value, axis: int) -> Value:
    """Before opset 13: over all dimensions from the axis on together."""
    axis = g.axis(axis, x.rank)
    tail = x.shape[axis + 1 :]
    if all(isinstance(d, int) and d == 1 for d in tail):
        return g.call(op, x, axis=axis)
    flat = moves.reshape(g, x, (*x.shape[:axis], product(x.shape[axis:])))
    return moves.reshape(g, g.call(op, flat, axis=axis), x.shape)


@onnx_op("Softmax")
def softmax(g: Build, x: Value, *, axis: int = 1) -> Value:
    """Over the dimensions from the axis on."""
    return _flattened(g, "softmax", x, axis)


@onnx_op("LogSoftmax")
def log_softmax(g: Build, x: Value, *, axis: int = 1) -> Value:
    """Over the dimensions from the axis on."""
    return _flattened(g, "log_softmax", x, axis)


@onnx_op("Softmax", since=13)
def softmax_13(g: Build, x: Value, *, axis: int = -1) -> Value:
    """Over one dimension."""
    return g.call("softmax", x, axis=g.axis(axis, x.rank))


@onnx_op("LogSoftmax", since=13)
def log_softmax_13(g: Build, x: Value, *, axis: int = -1) -> Value:
    """Over one dimension."""
    return g.call("log_softmax", x, axis=g.axis(axis, x.rank))


@onnx_op("Hardmax")
def hardmax(g: Build, x: Value, *, axis: int = 1) -> Value:
    """1 at the first largest element over the dimensions from the axis on."""
    axis = g.axis(axis, x.rank)
    flat = moves.reshape(g, x, (*x.shape[:axis], product(x.shape[axis:])))
    return moves.reshape(g, _hardmax(g, flat, axis), x.shape)


@onnx_op("Hardmax", since=13)
def hardmax_13(g: Build, x: Value, *, axis: int = -1) -> Value:
    """1 at the first largest element over one dimension."""
    return _hardmax(g, x, g.axis(axis, x.rank))


def _hardmax(g: Build, x: Value, axis: int) -> Value:
    best = g.call("argmax", x, axis=axis, keepdims=False, select_last_index=False)
    return g.call(
        "one_hot", best, depth=x.shape[axis], axis=axis, on_value=1.0, off_value=0.0, dtype=x.dtype
    )


# ------------------------------------------------------------------------------------ quantized


def _quantized_axis(g: Build, v: Value, x: Value, axis: int) -> Value:
    """A scale or zero point as it broadcasts along one dimension of `x`."""
    if v.rank == 0 or (v.rank == 1 and v.shape[0] == 1):
        return moves.reshape(g, v, ())
    if v.rank != 1:
        g.unsupported("a scale per block", "one scale, or one for each index of an axis")
    axis = g.axis(axis, x.rank)
    return moves.reshape(g, v, (v.shape[0], *([1] * (x.rank - 1 - axis))))


@onnx_op("DequantizeLinear", since=10)
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
    """(x - zero) scale."""
    g.one_of("block_size", block_size, (0,))
    dtype = g.dtype(output_dtype, "output_dtype") if output_dtype else scale.dtype
    y: Any = g.call("cast", x, dtype=dtype)
    if zero is not None and not (
        zero.is_array and zero.known is not None and not np.any(zero.known)
    ):
        at = _quantized_axis(g, zero, x, axis)
        y = g.call("subtract", y, g.call("cast", at, dtype=dtype))
    at = _quantized_axis(g, scale, x, axis)
    return g.call("multiply", y, at if at.dtype == dtype else g.call("cast", at, dtype=dtype))


@onnx_op("QuantizeLinear", since=10)
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
    """Round x / scale to even, add the zero point, saturate."""
    g.one_of("block_size", block_size, (0,))
    g.one_of("precision", precision, (0,))
    dtype = (
        zero.dtype
        if zero is not None
        else g.dtype(output_dtype, "output_dtype")
        if output_dtype
        else "uint8"
    )
    if dtype not in ("int8", "uint8", "int16", "uint16"):
        g.unsupported(f"a result of {dtype}", "int8, uint8, int16, uint16")
    y = g.call("round", g.call("divide", x, _quantized_axis(g, scale, x, axis)))
    if zero is not None and not (
        zero.is_array and zero.known is not None and not np.any(zero.known)
    ):
        y = g.call("add", y, g.call("cast", _quantized_axis(g, zero, x, axis), dtype=x.dtype))
    info = np.iinfo(dtype)
    return g.call("cast", g.call("clip", y, min=float(info.min), max=float(info.max)), dtype=dtype)
