"""Windows over a tensor taken apart and put together, parts of a tensor replaced."""

from __future__ import annotations

import math
from collections.abc import Sequence
from inspect import Parameter
from typing import Any

import numpy as np

from smelt.ir.build import all_of, equal, if_then_else, product, value_of
from smelt.ir.expr import Expr
from smelt.te.tensor import Tensor, reduce_axis

from . import common
from .conv import Ints, Window, sliding
from .reference import Array, basic_slice, spread_image, widened
from .registry import attributes, op
from .transform import Extents, slice_of


@op
def sliding_window(
    x: Tensor, *, axis: int, window_shape: tuple[int, ...], strides: tuple[int, ...]
) -> Tensor:
    """The windows over the dimensions from `axis` on.

    Shapes  x [a..., n...]; result [a..., (n - window) // stride + 1 ..., window...]
    """
    axis = common.axis_of(axis, len(x.shape))
    count = len(x.shape) - axis
    whose = f"the dimensions of {common.named(x=x)} from axis {axis} on"
    common.take_numbers(whose, count, 1, window_shape=window_shape, strides=strides)
    places = []
    for d, (w, s) in enumerate(zip(window_shape, strides, strict=True), axis):
        known = value_of(x.shape[d])
        common.require(
            known is None or w <= known,
            f"window_shape={window_shape}: dimension {d} of {common.named(x=x)} has {known} "
            "elements",
        )
        places.append((x.shape[d] - w) // s + 1)

    def body(*i: Expr) -> Expr:
        start, inside = i[axis : axis + count], i[axis + count :]
        at = [p * s + o for p, s, o in zip(start, strides, inside, strict=True)]
        return x[(*i[:axis], *at)]

    return common.tensor((*x.shape[:axis], *places, *window_shape), body, "sliding_window")


@sliding_window.numpy
def _(x: Array, *, axis: int, window_shape: Sequence[int], strides: Sequence[int]) -> Array:
    """numpy's view of all windows, some of which are kept."""
    axis = axis % x.ndim
    axes = tuple(range(axis, x.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(x, tuple(window_shape), axes)
    kept = [slice(None)] * axis + [slice(None, None, s) for s in strides]
    return np.ascontiguousarray(windows[tuple(kept)])


@op
def strided_set(
    x: Tensor, v: Tensor, *, axes: tuple[int, ...], begin: Extents, end: Extents,
    strides: tuple[int, ...] | None = None,
) -> Tensor:  # fmt: skip
    """x with the elements that strided_slice takes with these attributes replaced by those of v.

    Shapes  v as the slice
    """
    common.same_dtype(x=x, v=v)
    shape, start, step = slice_of(x, axes, begin, end, strides)
    rule = f"{common.named(v=v)} has to be of the shape of the slice, "
    rule += f"{common.describe(shape)}"
    common.agree_in_shape(v.shape, shape, rule)

    def body(*i: Expr) -> Expr:
        conditions: list[Expr] = []
        at = []
        for p, b, s, n, whole in zip(i, start, step, shape, x.shape, strict=True):
            way = p - b if s > 0 else b - p
            at.append(way // abs(s))
            if n is whole:
                continue
            conditions += [way >= 0, way // abs(s) < n]
            conditions += [equal(way % abs(s), 0)] if abs(s) > 1 else []
        return if_then_else(all_of(conditions), v[tuple(at)], x[i])

    return common.tensor(x.shape, body, "strided_set")


@strided_set.numpy
def _(
    x: Array, v: Array, *, axes: Sequence[int], begin: Sequence[int], end: Sequence[int],
    strides: Sequence[int] | None,
) -> Array:  # fmt: skip
    """A basic slice written."""
    out = x.copy()
    out[basic_slice(x.ndim, axes, begin, end, strides)] = v
    return out


@op(kind="opaque")
@attributes(size=Parameter.empty, kernel=Parameter.empty, **sliding())
def col2im(x: Tensor, *, size: Extents, kernel: Ints, **given: Ints) -> Tensor:
    """Images from the columns of their windows: every pixel is the sum of what the windows that
    cover it have in its place.

    Shapes   x [n, c * kernel..., windows], one column for each place of a kernel on the padded
             image in row-major order; result [n, c, size...]
    Units    size, kernel, strides, pads (begin..., end...) and dilations in pixels
    Source   ONNX Col2Im-18
    """
    common.take_forms("[n, c * kernel, windows]", x=x)
    rank = len(size)
    common.require(rank >= 1, "size is empty; one extent for each spatial dimension is needed")
    window, image = Window(rank, kernel, **given), common.extents(size)
    places = window.result(image)
    taps, rows, count = math.prod(kernel), value_of(x.shape[1]), product(places)
    common.require(
        rows is None or rows % taps == 0,
        f"{common.named(x=x)}: {rows} rows are no multiple of the kernel's {taps} elements",
    )
    rule = f"a kernel of {kernel} has as many places on {common.describe(image)}"
    common.agree(x.shape[2], count, f"{common.named(x=x)}: {rule}")
    axes = [reduce_axis((0, k), f"k{d}") for d, k in enumerate(kernel)]

    def body(n: Expr, c: Expr, *pixel: Expr) -> Expr:
        place, hits = window.covering(pixel, axes, places)
        row = c
        for k, t in zip(kernel, axes, strict=True):
            row = row * k + t.var
        element = x[n, row, common.row_major(places, place)]
        return if_then_else(all_of(hits), element, common.number(0, x.dtype))

    shape = (x.shape[0], x.shape[1] // taps, *image)
    return common.stored(common.sum_over(shape, body, axes, "col2im"), x.dtype)


@col2im.numpy
def _(x: Array, *, size: Sequence[int], **window: Any) -> Array:
    """Every column added to the pixels of its window."""
    count = math.prod(window["kernel"])
    columns = widened(x).reshape(x.shape[0], x.shape[1] // count, count, -1)
    parts = list(np.moveaxis(columns, 2, 0))
    return spread_image((*columns.shape[:2], *size), parts, **window).astype(x.dtype)
