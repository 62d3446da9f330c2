"""Pooling: the largest or the average element of windows, and the derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter
from typing import Any

import numpy as np

from smelt.ir import build
from smelt.ir import dtype as dt
from smelt.ir.expr import INDEX, Expr, cast, const
from smelt.te.tensor import Tensor, compute, min_value, reduce_axis
from smelt.te.tensor import max as te_max
from smelt.tir.nodes import IterVar

from . import common
from .conv import Ints, Window, kernel_axes, sliding
from .program import product
from .reduce import FIRST_MAX
from .reference import Array, Index, lowest, spread_image, under_window, widened
from .registry import attributes, op

WINDOW = {"kernel": Parameter.empty, **sliding()}
"""The attributes of pools that say where windows are."""


Element = Callable[..., Expr]
"""The element of a window that taps meet, by the place of the window."""


def _window(x: Tensor, given: Mapping[str, Ints]) -> tuple[Window, list[IterVar]]:
    window = Window(common.spatial_rank(x), **given)
    return window, kernel_axes(window.kernel)


def _windows(
    x: Tensor, given: Mapping[str, Ints], border: Expr
) -> tuple[Window, list[Expr], list[IterVar], Element]:
    """The windows on an image with a border, the shape of a result for each, taps and elements."""
    window, taps = _window(x, given)
    size, padded = window.result(x.shape[2:], empty=True), window.pad(x, border)

    def element(n: Expr, c: Expr, *y: Expr) -> Expr:
        return padded[(n, c, *window.pixel(y, [t.var for t in taps]))]

    return window, [*x.shape[:2], *size], taps, element


def _averaged(
    x: Tensor, shape: Sequence[Expr], taps: Sequence[IterVar], element: Element, count: Element
) -> Tensor:
    """The sum of each window divided by a count; sums of narrow integers do not fit their type."""
    narrow = not dt.is_float(x.dtype) and dt.bits(x.dtype) < 32
    to = "int32" if narrow else common.wide(x.dtype)
    total = common.sum_over(shape, lambda *i: cast(to, element(*i)), taps, "pool_sum")

    def body(*i: Expr) -> Expr:
        return cast(x.dtype, total[i] / cast(total.dtype, count(*i)))

    return common.tensor(total.shape, body, "avg_pool")


@op(channels_last=True, chooses=True)
@attributes(**WINDOW)
def max_pool(x: Tensor, **given: Ints) -> Tensor:
    """The largest element of each window; the border never counts.

    Shapes   x [n, c, ...]; result [n, c, ...] with extents as in conv2d
    Units    kernel, strides, pads (begin..., end...) and dilations in pixels
    Source   ONNX MaxPool-22
    """
    _, shape, taps, element = _windows(x, given, min_value(x.dtype))
    return common.tensor(shape, lambda n, c, *y: te_max(element(n, c, *y), taps), "max_pool")


@max_pool.numpy
def _(x: Array, **window: Any) -> Array:
    """The largest element under the window."""
    return np.asarray(under_window(x, lowest(x), **window).max(0))


@op(channels_last=True)
@attributes(**WINDOW, count_include_pad=False)
def avg_pool(x: Tensor, *, count_include_pad: bool, **given: Ints) -> Tensor:
    """The average of each window: the sum divided by the number of pixels inside the image, or
    by the size of the window where the border counts as zeros (count_include_pad).

    Shapes   x [n, c, ...]; result [n, c, ...] with extents as in conv2d
    Units    kernel, strides, pads (begin..., end...) and dilations in pixels
    Source   ONNX AveragePool-22
    """
    window, shape, taps, element = _windows(x, given, common.number(0, x.dtype))
    count = _counted(window, x, count_include_pad)
    return _averaged(x, shape, taps, element, count)


@avg_pool.numpy
def _(x: Array, *, count_include_pad: bool, **window: Any) -> Array:
    """The sum under the window over the number of elements that count."""
    narrow = x.dtype.kind in "iu" and x.dtype.itemsize < 4
    wide = x.astype(np.int32) if narrow else widened(x)
    total = sum(under_window(wide, 0, **window))
    count = sum(under_window(np.ones_like(wide), count_include_pad, **window))
    mean = np.asarray(total / np.maximum(count, 1))
    return (np.trunc(mean) if x.dtype.kind in "iu" else mean).astype(x.dtype)


def _counted(window: Window, x: Tensor, everything: bool) -> Element:
    """How many elements of a window count: all, or those inside the image, at least 1."""

    def along(d: int, y: Expr) -> Expr:
        k = const(int(window.kernel[d]), INDEX)
        if everything or not (window.begin[d] or window.end[d]):
            return k
        start, step = y * window.strides[d] - window.begin[d], window.dilations[d]
        first = build.maximum(build.ceildiv(0 - start, step), 0)
        end = build.minimum(build.ceildiv(x.shape[2 + d] - start, step), k)
        return build.maximum(end - first, 1)

    return lambda n, c, *y: product([along(d, v) for d, v in enumerate(y)])


@op
@attributes(kernel=Parameter.empty, p=2.0, **sliding())
def lp_pool(x: Tensor, *, p: float, **given: Ints) -> Tensor:
    """The p-norm of each window: the p-th root of the sum of |x| to the power p; the border is 0.

    Shapes   x [n, c, ...]; result [n, c, ...] with extents as in conv2d
    Units    kernel, strides, pads (begin..., end...) and dilations in pixels
    Source   ONNX LpPool-22
    """
    common.float_only(x)
    common.require(p > 0, f"p={p}; it has to be above 0")
    _, shape, taps, element = _windows(x, given, common.number(0, x.dtype))
    to = common.wide(x.dtype)

    def part(*i: Expr) -> Expr:
        v = cast(to, element(*i))
        if p == 2:
            return v * v
        size = build.call("abs", v)
        return size if p == 1 else build.call("pow", size, const(float(p), to))

    total = common.sum_over(shape, part, taps, "pool_sum")

    def root(*i: Expr) -> Expr:
        v = total[i]
        if p == 1:
            return cast(x.dtype, v)
        found = build.call("sqrt", v) if p == 2 else build.call("pow", v, const(1.0 / p, to))
        return cast(x.dtype, found)

    return common.tensor(shape, root, "lp_pool")


@lp_pool.numpy
def _(x: Array, *, p: float, **window: Any) -> Array:
    """The root of the sum of powers under the window."""
    total = sum(under_window(np.abs(widened(x)) ** p, 0, **window))
    return np.asarray(total ** (1 / p)).astype(x.dtype)


def _first_largest(
    x: Tensor, window: Window, taps: Sequence[IterVar], number_of: Callable[..., Expr]
) -> tuple[Tensor, Tensor]:
    """Of each window the number of the first largest element, and that element.

    number_of  (tap, pixel) -> the number, ascending with the tap
    """
    nowhere = const(1 << 31, INDEX)

    def largest(n: Expr, c: Expr, *y: Expr) -> Any:
        tap = [t.var for t in taps]
        at = window.place(y, tap)
        own = number_of(tap, at)
        inside = window.guards(at, x.shape[2:])
        value = build.if_then_else(inside, x[(n, c, *at)], min_value(x.dtype))
        return FIRST_MAX((build.select(inside, own, nowhere), value), taps)

    size = window.result(x.shape[2:], empty=True)
    found = compute((*x.shape[:2], *size), largest, "pool_place")
    return found[0], found[1]


@op(kind="opaque")
@attributes(**WINDOW, column_major=False)
def max_pool_with_indices(x: Tensor, *, column_major: bool, **given: Ints) -> tuple[Tensor, Tensor]:
    """The largest element of each window and where in x it stands, the first of equal ones; the
    border never counts.

    Shapes        x [n, c, ...]; both results [n, c, ...] with extents as in conv2d
    Types         places are int64
    Units         kernel, strides, pads (begin..., end...) and dilations in pixels; places are those
                  in the flat tensor, row-major
    column_major  in places the first spatial dimension moves fastest
    Source        ONNX MaxPool-22
    """
    window, taps = _window(x, given)
    image = x.shape[2:]
    pixel, value = _first_largest(x, window, taps, lambda tap, at: common.row_major(image, at))

    def place(n: Expr, c: Expr, *y: Expr) -> Expr:
        flat: Expr = pixel[(n, c, *y)]
        if column_major:
            at, rest = [], flat
            for e in reversed(image):
                at.append(rest % e)
                rest = rest // e
            flat = common.row_major(list(reversed(image)), at)
        return (n * x.shape[1] + c) * product(image) + flat

    return value, common.tensor(value.shape, place, "max_pool_place")


def _first_largest_array(x: Array, window: Mapping[str, Any]) -> tuple[Array, Array]:
    """The largest element of each window, and the first tap that has it and is no border's."""
    values = under_window(x, lowest(x), **window)
    inside = under_window(np.ones(x.shape, bool), False, **window)
    best = values.max(0)
    return best, np.argmax((values == best) & inside, 0)


@max_pool_with_indices.numpy
def _(x: Array, *, column_major: bool, **window: Any) -> tuple[Array, Array]:
    """The largest element under the window, and its number in a tensor that counts."""
    image = x.shape[2:][::-1] if column_major else x.shape[2:]
    numbers = np.arange(x.size).reshape(*x.shape[:2], *image)
    if column_major:
        numbers = numbers.transpose(0, 1, *reversed(range(2, x.ndim)))
    best, first = _first_largest_array(x, window)
    return best, np.take_along_axis(under_window(numbers, -1, **window), first[None], 0)[0]


# -------------------------------------------------------------------------------------- adaptive


class _Even:
    """The cutting of a dimension into `count` windows of nearly equal extents, which overlap where
    the extent is no multiple: window i begins at i * extent // count and ends where the next
    begins, rounded up."""

    def __init__(self, extent: Expr, count: int) -> None:
        self.extent, self.count = extent, count
        known = build.value_of(extent)
        self.exact = known is not None and known % count == 0
        if known is None:
            self.longest = build.ceildiv(extent, count) + 1
        else:
            self.longest = const(
                max(-(-(i + 1) * known // count) - i * known // count for i in range(count)), INDEX
            )

    def begin(self, i: Expr) -> Expr:
        return i * self.longest if self.exact else (i * self.extent) // self.count

    def length(self, i: Expr) -> Expr:
        if self.exact:
            return self.longest
        return build.ceildiv((i + 1) * self.extent, self.count) - self.begin(i)


def _even(
    x: Tensor, size: Sequence[int], blank: Expr
) -> tuple[list[_Even], list[Expr], list[IterVar], Element]:
    """The cuts of each dimension, a result's shape, taps, and elements: `blank` behind the end."""
    rank = common.spatial_rank(x)
    common.take_numbers(f"{rank} spatial dimensions", rank, 1, size=size)
    cuts = [_Even(e, s) for e, s in zip(x.shape[2:], size, strict=True)]
    taps = kernel_axes([c.longest for c in cuts])

    def element(n: Expr, c: Expr, *y: Expr) -> Expr:
        parts = list(zip(cuts, y, [t.var for t in taps], strict=True))
        inside = [t < c.length(v) for c, v, t in parts if not c.exact]
        pixel: Expr = x[(n, c, *[c.begin(v) + t for c, v, t in parts])]
        return build.if_then_else(build.all_of(inside), pixel, blank)

    return cuts, [*x.shape[:2], *common.extents(size)], taps, element


@op(chooses=True)
def adaptive_max_pool(x: Tensor, *, size: tuple[int, ...]) -> Tensor:
    """The largest element of each of `size` windows that cover the image evenly.

    Shapes   x [n, c, h...] with 1 to 3 spatial dimensions; result [n, c, size...]
    Units    window i covers pixels i * h // size up to, not including, ceil((i + 1) * h / size)
    """
    _, shape, taps, element = _even(x, size, min_value(x.dtype))
    return common.tensor(shape, lambda *i: te_max(element(*i), taps), "max_pool")


def _even_array(extents: Sequence[int], size: Sequence[int]) -> Iterator[tuple[Index, Index]]:
    """Every place of the result, and the pixels of its window."""
    for place in np.ndindex(*size):
        each = zip(place, extents, size, strict=True)
        window = [slice(i * h // n, -(-(i + 1) * h // n)) for i, h, n in each]
        yield (..., *place), (..., *window)


@adaptive_max_pool.numpy
def _(x: Array, *, size: Sequence[int]) -> Array:
    """The largest pixel of each window."""
    out = np.empty((*x.shape[:2], *size), x.dtype)
    for place, window in _even_array(x.shape[2:], size):
        out[place] = x[window].max(tuple(range(2, x.ndim)))
    return out


@op
def adaptive_avg_pool(x: Tensor, *, size: tuple[int, ...]) -> Tensor:
    """The average of each of `size` windows that cover the image evenly.

    Shapes   x [n, c, h...] with 1 to 3 spatial dimensions; result [n, c, size...]
    Units    window i covers pixels i * h // size up to, not including, ceil((i + 1) * h / size)
    """
    cuts, shape, taps, element = _even(x, size, common.number(0, x.dtype))

    def count(n: Expr, c: Expr, *y: Expr) -> Expr:
        return product([cut.length(v) for cut, v in zip(cuts, y, strict=True)])

    return _averaged(x, shape, taps, element, count)


@adaptive_avg_pool.numpy
def _(x: Array, *, size: Sequence[int]) -> Array:
    """The mean of each window."""
    w = widened(x)
    out = np.empty((*x.shape[:2], *size), x.dtype)
    for place, window in _even_array(x.shape[2:], size):
        part = w[window].reshape(*x.shape[:2], -1)
        mean = part.sum(-1) / part.shape[-1]
        out[place] = np.trunc(mean) if x.dtype.kind in "iu" else mean
    return out


# ----------------------------------------------------------------------------------- derivatives


def _grad_window(
    grad: Tensor, x: Tensor, given: Mapping[str, Ints]
) -> tuple[Window, list[IterVar]]:
    """The window of a pooling whose derivative is wanted; the operands fit each other."""
    common.float_only(x)
    common.same_dtype(grad=grad, x=x)
    window, taps = _window(x, given)
    want = (*x.shape[:2], *window.result(x.shape[2:], empty=True))
    common.require(
        len(grad.shape) == len(want),
        f"{common.named(grad=grad)} has to be {common.describe(want)}, the result of the pooling",
    )
    common.agree_in_shape(grad.shape, want, common.named(grad=grad, x=x))
    return window, taps


def _spread(
    grad: Tensor, x: Tensor, window: Window, taps: Sequence[IterVar],
    part: Callable[[Sequence[Expr]], Expr],
) -> Tensor:  # fmt: skip
    """For every pixel the sum of `part` at the windows that cover it: window o meets pixel p with
    its tap t where o * stride + t * dilation = p + begin."""
    to = common.wide(x.dtype)

    def body(n: Expr, c: Expr, *p: Expr) -> Expr:
        place, hits = window.covering(p, taps, grad.shape[2:])
        return build.if_then_else(
            build.all_of(hits), cast(to, part((n, c, *place))), const(0.0, to)
        )

    return common.stored(common.sum_over(x.shape, body, taps, "pool_grad"), x.dtype)


@op
@attributes(**WINDOW, count_include_pad=False)
def avg_pool_grad(grad: Tensor, x: Tensor, *, count_include_pad: bool, **given: Ints) -> Tensor:
    """The derivative of avg_pool: every pixel gets its share of the windows that cover it.

    Shapes   grad as the result of avg_pool; x [n, c, ...]; result as x
    Units    as in avg_pool
    """
    window, taps = _grad_window(grad, x, given)
    to, count = common.wide(x.dtype), _counted(window, x, count_include_pad)

    def share(*i: Expr) -> Expr:
        return cast(to, grad[i]) / cast(to, count(*i))

    shares = common.tensor(grad.shape, share, "pool_share")
    return _spread(grad, x, window, taps, lambda i: shares[tuple(i)])


@avg_pool_grad.numpy
def _(grad: Array, x: Array, *, count_include_pad: bool, **window: Any) -> Array:
    """Every window's derivative divided among its pixels."""
    ones = under_window(np.ones(x.shape, widened(x).dtype), count_include_pad, **window)
    share = widened(grad) / np.maximum(ones.sum(0), 1)
    return spread_image(x.shape, [share] * len(ones), **window).astype(x.dtype)


@op(kind="opaque")
@attributes(**WINDOW)
def max_pool_grad(grad: Tensor, x: Tensor, **given: Ints) -> Tensor:
    """The derivative of max_pool: every window's goes to its largest element, the first of equal
    ones in the order of memory.

    Shapes   grad as the result of max_pool; x [n, c, ...]; result as x
    Units    as in max_pool
    """
    window, taps = _grad_window(grad, x, given)
    k = [reduce_axis(t.dom, "m" + t.var.name) for t in taps]
    kernel_extents = [const(int(e), INDEX) for e in window.kernel]

    def number_of(tap: Sequence[Expr], _: Sequence[Expr] = ()) -> Expr:
        return common.row_major(kernel_extents, tap)

    found, _ = _first_largest(x, window, k, number_of)

    def part(i: Sequence[Expr]) -> Expr:
        own = build.equal(found[tuple(i)], number_of([t.var for t in taps]))
        return build.select(own, grad[tuple(i)], common.number(0, x.dtype))

    return _spread(grad, x, window, taps, part)


@max_pool_grad.numpy
def _(grad: Array, x: Array, **window: Any) -> Array:
    """Every window's derivative at its first largest pixel."""
    _, first = _first_largest_array(x, window)
    own = [np.where(first == k, widened(grad), 0) for k in range(math.prod(window["kernel"]))]
    return spread_image(x.shape, own, **window).astype(x.dtype)
