"""Converters of pools."""

from __future__ import annotations

from .build import Build
from .registry import Ints, onnx_op
from .values import Value
from .windows import Window, window

__all__: list[str] = []


@onnx_op("MaxPool")
def max_pool(
    g: Build,
    x: Value,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints = (),
    kernel_shape: Ints,
    pads: Ints = (),
    storage_order: int = 0,
    strides: Ints = (),
) -> Value:
    """The largest of each window; padding never wins."""
    win = window(
        g,
        x,
        kernel_shape,
        auto_pad=auto_pad,
        strides=strides,
        pads=pads,
        dilations=dilations,
        ceil_mode=ceil_mode,
    )
    return g.call(
        "max_pool",
        x,
        kernel=win.kernel,
        strides=win.strides,
        pads=win.pads,
        dilations=win.dilations,
    )


@onnx_op("AveragePool", since=7)
def average_pool(
    g: Build,
    x: Value,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Ints = (),
    kernel_shape: Ints,
    pads: Ints = (),
    strides: Ints = (),
) -> Value:
    """The mean of each window. What ceil_mode adds never counts, the model's own padding may."""
    win = window(
        g,
        x,
        kernel_shape,
        auto_pad=auto_pad,
        strides=strides,
        pads=pads,
        dilations=dilations,
        ceil_mode=ceil_mode,
    )
    count = bool(count_include_pad)
    if ceil_mode and count:
        own = window(
            g, x, kernel_shape, auto_pad=auto_pad, strides=strides, pads=pads, dilations=dilations
        )
        if own != win:
            x, win, count = _padded(g, x, own, win), _rest(own, win), False
    return g.call(
        "avg_pool",
        x,
        kernel=win.kernel,
        strides=win.strides,
        pads=win.pads,
        dilations=win.dilations,
        count_include_pad=count,
    )


def _padded(g: Build, x: Value, own: Window, rounded: Window) -> Value:
    """The image with the padding that counts put around it."""
    rank = x.rank - 2
    ends = [min(a, b) for a, b in zip(own.pads[rank:], rounded.pads[rank:], strict=True)]
    pads = (0, 0, *own.pads[:rank], 0, 0, *ends)
    return g.call("pad", x, pads=pads, mode="constant", value=0.0) if any(pads) else x


def _rest(own: Window, rounded: Window) -> Window:
    """The window with only the padding that does not count."""
    rank = len(own.kernel)
    ends = [max(b - a, 0) for a, b in zip(own.pads[rank:], rounded.pads[rank:], strict=True)]
    return Window(own.kernel, own.strides, (*[0] * rank, *ends), own.dilations)


def _global(g: Build, op: str, x: Value) -> Value:
    if x.rank < 3:
        g.malformed(f"the image has {x.rank} dimensions; at least 3 needed")
    return g.call(op, x, axes=tuple(range(2, x.rank)), keepdims=True)


@onnx_op("GlobalAveragePool")
def global_average_pool(g: Build, x: Value) -> Value:
    """The mean over all pixels."""
    return _global(g, "mean", x)


@onnx_op("GlobalMaxPool")
def global_max_pool(g: Build, x: Value) -> Value:
    """The largest of all pixels."""
    return _global(g, "max", x)
