"""Converters of pools."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

import numpy as np

from smelt.frontend.common import Build, Value, moves
from smelt.frontend.common.values import product, simplify, static
from smelt.frontend.common.windows import Placing, Window, fitted, window
from smelt.ir import dtype as dt
from smelt.ir.expr import convert

from .registry import Ints, onnx_op


@onnx_op("MaxPool")
def max_pool(
    g: Build, x: Value, *, ceil_mode: int = 0, kernel_shape: Ints, storage_order: int = 0,
    **place: Unpack[Placing],
) -> tuple[Value, ...]:  # fmt: skip
    """The largest of each window, where padding never wins, and where it stands."""
    g.one_of("storage_order", storage_order, (0, 1))
    if not any(g.step.outputs[1:]):
        lowest = -np.inf if dt.is_float(x.dtype) else int(np.iinfo(dt.to_numpy(x.dtype)).min)
        image, win = fitted(g, x, kernel_shape, lowest, ceil_mode=ceil_mode, **place)
        return (g.call("max_pool", image, **win.attrs()),)
    win = window(g, x, kernel_shape, ceil_mode=ceil_mode, **place)
    return g.calls("max_pool_with_indices", x, column_major=bool(storage_order), **win.attrs())


@onnx_op("MaxUnpool", since=9)
def max_unpool(
    g: Build, x: Value, indices: Value, shape: Value | None = None, *, kernel_shape: Ints,
    pads: Ints = (), strides: Ints = (),
) -> Value:  # fmt: skip
    """Each element where MaxPool found it, 0 elsewhere. Places are those in the image that the
    attributes give; a larger shape adds zeros behind it."""
    rank = x.rank - 2
    if len(kernel_shape) != rank:
        g.malformed(f"{len(kernel_shape)} kernel extents for {rank} spatial dimensions")
    strides, pads = strides or (1,) * rank, pads or (0,) * (2 * rank)
    image = [
        simplify((n - 1) * s + (k - pads[d] - pads[rank + d]))
        for d, (n, s, k) in enumerate(zip(x.shape[2:], strides, kernel_shape, strict=True))
    ]
    full = (*x.shape[:2], *image)
    blank = g.call("full", shape=(product(full),), value=0.0, dtype=x.dtype)
    flat = [moves.reshape(g, v, (product(x.shape),)) for v in (x, indices)]
    y = moves.reshape(g, g.call("scatter_elements", blank, flat[1], flat[0], axis=0), full)
    wanted = full if shape is None else g.dims(shape, "output_shape")
    if len(wanted) != x.rank:
        g.malformed(f"'output_shape' has {len(wanted)} elements for {x.rank} dimensions")
    ends = [simplify(convert(a) - b) for a, b in zip(wanted, full, strict=True)]
    if static(ends) and not any(ends):
        return y
    return g.call("pad", y, pads=(*[0] * x.rank, *ends))


@onnx_op("LpPool")
def lp_pool(
    g: Build, x: Value, *, ceil_mode: int = 0, kernel_shape: Ints, p: float = 2.0,
    **place: Unpack[Placing],
) -> Value:  # fmt: skip
    """The norm of each window; p need not be whole."""
    x, win = fitted(g, x, kernel_shape, 0.0, ceil_mode=ceil_mode, **place)
    return g.call("lp_pool", x, p=float(p), **win.attrs())


@onnx_op("AveragePool")
def average_pool(
    g: Build, x: Value, *, ceil_mode: int = 0, count_include_pad: int = 0, kernel_shape: Ints,
    **place: Unpack[Placing],
) -> Value:  # fmt: skip
    """The mean of each window. What ceil_mode adds never counts, the model's own padding may."""
    image, win = fitted(g, x, kernel_shape, 0.0, ceil_mode=ceil_mode, **place)
    count = bool(count_include_pad)
    if image is not x:
        y = g.call("avg_pool", image, count_include_pad=True, **win.attrs())
        if count:
            return y
        ones = g.call("full", shape=(1, 1, *x.shape[2:]), value=1.0, dtype=x.dtype)
        full, _ = fitted(g, ones, kernel_shape, 0.0, ceil_mode=ceil_mode, **place)
        return g.call("divide", y, g.call("avg_pool", full, count_include_pad=True, **win.attrs()))
    if ceil_mode and count:
        own = window(g, x, kernel_shape, **place)
        if own != win:
            x, win, count = _padded(g, x, own, win), _rest(own, win), False
    return g.call("avg_pool", x, count_include_pad=count, **win.attrs())


def _padded(g: Build, x: Value, own: Window, rounded: Window) -> Value:
    """The image with the padding that counts put around it."""
    rank = x.rank - 2
    ends = [min(a, b) for a, b in zip(own.pads[rank:], rounded.pads[rank:], strict=True)]
    pads = (0, 0, *own.pads[:rank], 0, 0, *ends)
    return g.call("pad", x, pads=pads) if any(pads) else x


def _rest(own: Window, rounded: Window) -> Window:
    """The window with only the padding that does not count."""
    rank = len(own.kernel)
    ends = [max(b - a, 0) for a, b in zip(own.pads[rank:], rounded.pads[rank:], strict=True)]
    return replace(own, pads=(*[0] * rank, *ends))


def _global(g: Build, op: str, x: Value) -> Value:
    """A reduction over all pixels; an image without any is its own result."""
    if x.rank < 2:
        g.malformed(f"the image has {x.rank} dimensions; at least 2 needed")
    return g.call(op, x, axes=tuple(range(2, x.rank)), keepdims=True) if x.rank > 2 else x


@onnx_op("GlobalAveragePool")
@onnx_op("GlobalMaxPool")
def global_pool(g: Build, x: Value) -> Value:
    """The mean over all pixels, or the largest of them."""
    return _global(g, "mean" if g.step.op == "GlobalAveragePool" else "max", x)


@onnx_op("GlobalLpPool")
def global_lp_pool(g: Build, x: Value, *, p: float = 2.0) -> Value:
    """The norm of all pixels; p need not be whole."""
    if p in (1, 2):
        return _global(g, f"reduce_l{int(p)}", x)
    if p <= 0:
        g.malformed(f"p={p}; it has to be above 0")
    total = _global(g, "sum", g.call("power", g.call("abs", x), float(p)))
    return g.call("power", total, 1 / p)
