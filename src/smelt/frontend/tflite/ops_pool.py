"""Converters of pools."""

from __future__ import annotations

import numpy as np

from smelt.frontend.common import Value, moves
from smelt.frontend.common.windows import Window, fitted
from smelt.ir import dtype as dt
from smelt.relax.compose.integer import window_sums

from .layout import first, last
from .node import Node
from .ops_conv import padding_of
from .quantized import activated, clipped, range_of, same_numbers
from .registry import Ints, tflite_op


def _window(
    g: Node, x: Value, blank: float | None, padding: int, kernel: Ints, strides: Ints
) -> tuple[Value, Window]:
    """An image with channels behind the batch, and the window on it; blank: what a border of the
    image's own may hold, None: it would count."""
    if x.rank != 4:
        g.malformed(f"an image of {x.rank} dimensions, 4 expected")
    if min(*kernel, *strides) < 1:
        g.malformed(f"a window {kernel} in steps {strides}; both are 1 or more")
    image = first(g, x)
    padded, win = fitted(g, image, kernel, blank or 0, auto_pad=padding_of(g, padding),
                         strides=strides)  # fmt: skip
    if padded is not image and blank is None:
        g.unsupported("averages with SAME padding of a symbolic size", "constant sizes")
    return padded, win


def divided(g: Node, total: Value, count: Value) -> Value:
    """Whole numbers divided to the nearest one, halves away from zero."""
    half = g.call("divide", count, 2)
    up, down = g.call("add", total, half), g.call("subtract", total, half)
    return g.call("divide", g.call("where", g.call("greater", total, 0), up, down), count)


@tflite_op("AVERAGE_POOL_2D", 3)
def average_pool(
    g: Node, x: Value, *, padding: int = 0, stride_w: int = 0, stride_h: int = 0,
    filter_width: int = 0, filter_height: int = 0, fused_activation_function: int = 0,
) -> Value:  # fmt: skip
    """The mean of each window; padding does not count."""
    kernel, strides = (filter_height, filter_width), (stride_h, stride_w)
    image, win = _window(g, x, None, padding, kernel, strides)
    if not g.integers:
        y = g.call("avg_pool", image, count_include_pad=False, **win.attrs())
        return last(g, activated(g, y, fused_activation_function))
    same_numbers(g, g.tensor(0), g.out)
    channels = g.extent(image, 1, "an average")
    sums = g.composed(window_sums, image, kernel, channels, win.placed())
    count = g.known(int(np.prod(kernel)), "int32")
    if any(win.pads):
        ones = g.call("full", shape=(1, 1, *image.shape[2:]), value=1.0, dtype="int32")
        count = g.composed(window_sums, ones, kernel, 1, win.placed())
    y = clipped(g, divided(g, sums, count), *range_of(g, g.out, fused_activation_function))
    return last(g, moves.as_type(g, y, x.dtype))


@tflite_op("MAX_POOL_2D", 2)
def max_pool(
    g: Node, x: Value, *, padding: int = 0, stride_w: int = 0, stride_h: int = 0,
    filter_width: int = 0, filter_height: int = 0, fused_activation_function: int = 0,
) -> Value:  # fmt: skip
    """The largest of each window."""
    kernel, strides = (filter_height, filter_width), (stride_h, stride_w)
    lowest = -np.inf if dt.is_float(x.dtype) else dt.limits(x.dtype)[0]
    image, win = _window(g, x, lowest, padding, kernel, strides)
    y = g.call("max_pool", image, **win.attrs())
    if not g.integers:
        return last(g, activated(g, y, fused_activation_function))
    same_numbers(g, g.tensor(0), g.out)
    return last(g, clipped(g, y, *range_of(g, g.out, fused_activation_function)))


@tflite_op("L2_POOL_2D")
def l2_pool(
    g: Node, x: Value, *, padding: int = 0, stride_w: int = 0, stride_h: int = 0,
    filter_width: int = 0, filter_height: int = 0, fused_activation_function: int = 0,
) -> Value:  # fmt: skip
    """The root of the mean of the squares of each window."""
    kernel, strides = (filter_height, filter_width), (stride_h, stride_w)
    image, win = _window(g, x, None, padding, kernel, strides)
    squares = g.call("multiply", image, image)
    y = g.call("sqrt", g.call("avg_pool", squares, count_include_pad=False, **win.attrs()))
    return last(g, activated(g, y, fused_activation_function))
