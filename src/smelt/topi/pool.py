"""Pooling: the largest or the average element of a sliding window."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir.build import ceildiv, maximum, minimum
from smelt.ir.expr import INDEX, Expr, cast, const
from smelt.te.tensor import Tensor, min_value, reduce_axis
from smelt.te.tensor import max as te_max
from smelt.tir.nodes import IterVar

from .common import describe, number, require, sum_over, tensor
from .conv import Window
from .registry import op


def _window(
    x: Tensor, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int],
    dilations: Sequence[int],
) -> tuple[Window, list[IterVar]]:  # fmt: skip
    rank = len(x.shape) - 2
    require(1 <= rank <= 3, f"x {describe(x.shape)} has to be [n, c, ...] with 1 to 3 dimensions")
    window = Window(rank, kernel, strides, pads, dilations)
    names = ("kd", "kh", "kw")[-rank:]
    taps = [reduce_axis((0, k), n) for k, n in zip(window.kernel, names, strict=True)]
    return window, taps


@op
def max_pool(
    x: Tensor, *, kernel: tuple[int, ...], strides: tuple[int, ...] = (),
    pads: tuple[int, ...] = (), dilations: tuple[int, ...] = (),
) -> Tensor:  # fmt: skip
    """The largest element of each window; the border never counts.

    Shapes   x [n, c, ...]; result [n, c, ...] with extents as in conv2d
    Units    kernel, strides, pads (begin..., end...) and dilations in pixels
    Source   ONNX MaxPool-22
    """
    window, taps = _window(x, kernel, strides, pads, dilations)
    size = window.result(x.shape[2:])
    padded = window.pad(x, min_value(x.dtype))

    def body(n: Expr, c: Expr, *y: Expr) -> Expr:
        largest: Expr = te_max(padded[(n, c, *window.pixel(y, [t.var for t in taps]))], taps)
        return largest

    return tensor((*x.shape[:2], *size), body, "max_pool")


@op
def avg_pool(
    x: Tensor, *, kernel: tuple[int, ...], strides: tuple[int, ...] = (),
    pads: tuple[int, ...] = (), dilations: tuple[int, ...] = (), count_include_pad: bool = False,
) -> Tensor:  # fmt: skip
    """The average of each window: the sum divided by the number of pixels inside the image, or
    by the size of the window where the border counts as zeros (count_include_pad).

    Shapes   x [n, c, ...]; result [n, c, ...] with extents as in conv2d
    Units    kernel, strides, pads (begin..., end...) and dilations in pixels
    Source   ONNX AveragePool-22
    """
    window, taps = _window(x, kernel, strides, pads, dilations)
    size = window.result(x.shape[2:])
    padded = window.pad(x, number(0, x.dtype))
    total = sum_over(
        (*x.shape[:2], *size),
        lambda n, c, *y: padded[(n, c, *window.pixel(y, [t.var for t in taps]))],
        taps, "pool_sum",
    )  # fmt: skip

    def body(*i: Expr) -> Expr:
        count: Expr = const(1, INDEX)
        for d, y in enumerate(i[2:]):
            count = count * _inside(window, d, y, x.shape[2 + d], count_include_pad)
        return cast(x.dtype, total[i] / cast(total.dtype, count))

    return tensor(total.shape, body, "avg_pool")


def _inside(window: Window, d: int, y: Expr, extent: Expr, everything: bool) -> Expr:
    """How many elements of a window lie inside the image along one dimension, at least 1."""
    k = const(int(window.kernel[d]), INDEX)
    if everything or not (window.begin[d] or window.end[d]):
        return k
    start = y * window.strides[d] - window.begin[d]
    step = window.dilations[d]
    first = maximum(ceildiv(0 - start, step), 0)
    end = minimum(ceildiv(extent - start, step), k)
    return maximum(end - first, 1)
