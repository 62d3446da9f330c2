"""Images read between their pixels, at points that are computed or given by a tensor."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence

import numpy as np

from smelt.ir.build import all_of, call, equal, maximum, minimum, select, value_of
from smelt.ir.expr import INDEX, Expr, cast, const
from smelt.te.tensor import Tensor, reduce_axis

from . import common
from .reference import Array, Index
from .registry import op
from .resize import MODES, cubic_weights, tap_weights

BORDERS = ("zeros", "border", "reflection")
TAPS = {"nearest": 1, "linear": 2, "cubic": 4}
PLACE = "int32"
"""The type of computed indices: vectors of floats become vectors of these."""
NONE = const(-1, PLACE)
"""In place of an index: an element that counts as 0."""
UNROLLED = 16
"""Up to so many elements are one expression."""


class _Line:
    """The elements of one dimension that points between them are made of.

    at      [points...] coordinates, in elements
    index   [taps, points...] places of the elements, -1 for one that counts as 0
    weight  [taps, points...]; None: one element each, of weight 1
    """

    def __init__(
        self, at: Tensor, mode: str, place: Callable[[Expr, Expr], Expr],
        moved: Callable[[Expr], Expr] = lambda v: v,
    ) -> None:  # fmt: skip
        """place: (coordinate, index that may lie outside) -> index or -1; moved: the coordinate
        that weights are made of."""
        taps = const(TAPS[mode], INDEX)
        shape = (taps, *at.shape)

        def index(t: Expr, *i: Expr) -> Expr:
            v = moved(at[i])
            if mode == "nearest":
                return place(at[i], cast(PLACE, call("round", v)))
            first = cast(PLACE, call("floor", v))
            return place(at[i], first + cast(PLACE, t - (1 if mode == "cubic" else 0)))

        def weight(t: Expr, *i: Expr) -> Expr:
            v = moved(at[i])
            f = v - call("floor", v)
            each = cubic_weights(f, -0.75) if mode == "cubic" else [1.0 - f, f]
            return common.pick(t, each)

        self.index = common.tensor(shape, index, "sample_index")
        self.weight = None if mode == "nearest" else common.tensor(shape, weight, "sample_weight")
        self.axis = reduce_axis((0, taps), "tap")


def _sampled(
    x: Tensor, shape: Sequence[Expr], lines: Sequence[_Line],
    channel: Callable[..., tuple[Expr, Expr]], points: Callable[..., list[tuple[Expr, ...]]],
) -> Tensor:  # fmt: skip
    """Points of images: sums of elements with the weights of every dimension, in the wide type.

    channel  index of the result -> the image and its channel
    points   index of the result -> for each dimension, the point of its line
    """
    nearest = lines[0].weight is None
    to = x.dtype if nearest else common.wide(x.dtype)

    def element(i: tuple[Expr, ...], taps: Sequence[Expr]) -> Expr:
        own = [(t, *p) for p, t in zip(points(*i), taps, strict=True)]
        at = [line.index[p] for line, p in zip(lines, own, strict=True)]
        inside = all_of([v >= 0 for v in at])
        held = [cast(INDEX, maximum(v, 0)) for v in at]
        value: Expr = cast(to, x[(*channel(*i), *held)])
        for line, p in zip(lines, own, strict=True):
            value = value if line.weight is None else value * cast(to, line.weight[p])
        return select(inside, value, common.number(0, to))

    count = value_of(lines[0].index.shape[0]) or 0
    if count ** len(lines) <= UNROLLED:
        places = [
            [const(t, INDEX) for t in p] for p in itertools.product(range(count), repeat=len(lines))
        ]

        def all_taps(*i: Expr) -> Expr:
            return functools.reduce(operator.add, [element(i, p) for p in places])

        return common.tensor(shape, all_taps, "sample")
    axes = [line.axis for line in lines]
    return common.sum_over(shape, lambda *i: element(i, [a.var for a in axes]), axes, "sample")


# ------------------------------------------------------------------------------------------ grid


def _reflected(v: Expr, extent: Expr, align_corners: bool) -> Expr:
    """A coordinate mirrored at the image's border until it lies inside.

    The border runs through the outer pixels' centres (align_corners) or around them.
    """
    low = 0.0 if align_corners else -0.5
    span = cast(v.dtype, extent - 1 if align_corners else extent)
    one = const(1.0, v.dtype)
    safe = maximum(span, one) if align_corners else span
    away = call("abs", v - low)
    rest = call("fmod", away, safe)
    turns = call("floor", away / safe)
    even = equal(turns - call("floor", turns * 0.5) * 2.0, 0.0)
    inside = select(even, rest + low, safe - rest + low)
    return select(span > 0.0, inside, const(0.0, v.dtype)) if align_corners else inside


def _grid_line(
    grid: Tensor, d: int, rank: int, extent: Expr, mode: str, border: str, align_corners: bool
) -> _Line:
    """The elements of spatial dimension `d` behind the points of a grid."""
    to = common.wide(grid.dtype)
    n = cast(to, extent)

    def inner(v: Expr) -> Expr:
        if border == "reflection":
            v = _reflected(v, extent, align_corners)
        held = common.clamped(v, const(0.0, v.dtype), cast(v.dtype, extent - 1))
        return v if border == "zeros" else held

    def source(*i: Expr) -> Expr:
        g = cast(to, grid[(*i, const(rank - 1 - d, INDEX))])
        v = (g + 1.0) * 0.5 * (n - 1.0) if align_corners else ((g + 1.0) * n - 1.0) * 0.5
        # a cubic curve runs through the elements as they stand; its taps are moved one by one
        return v if mode == "cubic" else inner(v)

    def place(_: Expr, at: Expr) -> Expr:
        if mode == "cubic" and border != "zeros":
            return cast(PLACE, inner(cast(to, at)))
        return select(all_of(at >= 0, at < cast(PLACE, extent)), at, NONE)

    return _Line(common.tensor(grid.shape[:-1], source, "sample_at"), mode, place)


@op(kind="opaque")
def grid_sample(
    x: Tensor, grid: Tensor, *, mode: str = "linear", padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Tensor:  # fmt: skip
    """x read at the points of a grid.

    Shapes         x [n, c, h...] with 1 to 3 spatial dimensions r; grid [n, o..., r], the
                   coordinate of the last dimension first (x, y, z); result [n, c, o...]
    Units          coordinates from -1 to 1 over the image: between the centres of its outer pixels
                   (align_corners) or between its outer edges
    mode           "nearest" (halves to the even pixel), "linear", "cubic" (coefficient -0.75)
    padding_mode   outside the image: "zeros", "border" (the nearest pixel), "reflection"
    Source         ONNX GridSample-22
    """
    rank = common.spatial_rank(x)
    common.one_of(MODES, mode=mode)
    common.one_of(BORDERS, padding_mode=padding_mode)
    common.float_only(grid, "grid")
    if mode != "nearest":
        common.float_only(x)
    common.require(
        len(grid.shape) == rank + 2 and value_of(grid.shape[-1]) == rank,
        f"{common.named(grid=grid, x=x)}: the grid needs {rank + 2} dimensions, the last of "
        f"extent {rank}",
    )
    common.agree(x.shape[0], grid.shape[0], f"{common.named(x=x, grid=grid)}: one grid per image")
    how = mode, padding_mode, align_corners
    lines = [_grid_line(grid, d, rank, e, *how) for d, e in enumerate(x.shape[2:])]
    shape = (*x.shape[:2], *grid.shape[1:-1])
    found = _sampled(x, shape, lines, lambda *i: (i[0], i[1]), lambda *i: [(i[0], *i[2:])] * rank)
    return common.stored(found, x.dtype)


def _mirror(v: float, n: int, align_corners: bool) -> float:
    """A coordinate folded into the image."""
    low, high = (0.0, n - 1.0) if align_corners else (-0.5, n - 0.5)
    if high == low:
        return 0.0
    period = 2 * (high - low)
    phase = (v - low) % period
    return low + min(phase, period - phase)


def _grid_taps(
    g: float, n: int, mode: str, border: str, align_corners: bool
) -> list[tuple[int, float]]:
    """The elements (index, weight) of a dimension behind one coordinate of a grid."""
    v = (g + 1) / 2 * (n - 1) if align_corners else ((g + 1) * n - 1) / 2

    def inner(p: float) -> float:
        if border == "reflection":
            p = _mirror(p, n, align_corners)
        return p if border == "zeros" else min(max(p, 0.0), n - 1.0)

    v = v if mode == "cubic" else inner(v)
    taps = [(round(v), 1.0)] if mode == "nearest" else tap_weights(v, mode)
    if mode == "cubic":
        taps = [(int(inner(float(at))), w) for at, w in taps]
    return [(at, w) for at, w in taps if 0 <= at < n]


def _mixed(image: Array, lines: Sequence[Sequence[tuple[int, float]]]) -> Array:
    """A point of an image [c, h...] as the sum of the elements behind it."""
    total = np.zeros(image.shape[0], np.float64)
    for taps in itertools.product(*lines):
        at: Index = (slice(None), *[place for place, _ in taps])
        total += image[at] * math.prod([w for _, w in taps])
    return total


@grid_sample.numpy
def _(x: Array, grid: Array, *, mode: str, padding_mode: str, align_corners: bool) -> Array:
    """Every point of the grid by itself."""
    image, places = x.astype(np.float64), grid.astype(np.float64)
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]), np.float64)
    for n, *o in np.ndindex(*grid.shape[:-1]):
        each = zip(places[(n, *o)][::-1], x.shape[2:], strict=True)
        how = mode, padding_mode, align_corners
        lines = [_grid_taps(float(g), h, *how) for g, h in each]
        out[(n, slice(None), *o)] = _mixed(image[n], lines)
    return out.astype(x.dtype)


@op
def affine_grid(theta: Tensor, *, size: tuple[int, ...], align_corners: bool = False) -> Tensor:
    """The grid that makes grid_sample move an image by the matrices theta.

    Shapes   theta [n, r, r + 1] with r = 2 or 3; result [n, size..., r], the coordinate of the last
             dimension first
    Units    size in pixels; coordinates as in grid_sample
    """
    common.float_only(theta, "theta")
    rank = len(size)
    common.require(rank in (2, 3), f"size={size} has to have 2 or 3 numbers")
    common.require(min(size) >= 1, f"size={size}; every number has to be at least 1")
    shape = [value_of(e) for e in theta.shape]
    common.require(
        len(shape) == 3 and shape[1] in (None, rank) and shape[2] in (None, rank + 1),
        f"{common.named(theta=theta)} has to be [n, {rank}, {rank + 1}] for size={size}",
    )
    to = common.wide(theta.dtype)

    def base(i: Expr, n: int) -> Expr:
        if align_corners:
            return cast(to, i) * (2.0 / (n - 1)) - 1.0 if n > 1 else const(0.0, to)
        return (cast(to, i) * 2.0 + 1.0) * (1.0 / n) - 1.0

    def body(b: Expr, *i: Expr) -> Expr:
        row = i[-1]
        total = cast(to, theta[b, row, rank])
        for k in range(rank):
            d = rank - 1 - k
            total = total + cast(to, theta[b, row, k]) * base(i[d], size[d])
        return cast(theta.dtype, total)

    return common.tensor((theta.shape[0], *size, rank), body, "affine_grid")


@affine_grid.numpy
def _(theta: Array, *, size: Sequence[int], align_corners: bool) -> Array:
    """The matrices on the coordinates of all pixels."""
    if align_corners:
        lines = [np.linspace(-1, 1, n) if n > 1 else np.zeros(1) for n in size]
    else:
        lines = [(2 * np.arange(n) + 1) / n - 1 for n in size]
    place = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(size)], -1)
    grid = np.einsum("nrk,...k->n...r", theta.astype(np.float64), place)
    return np.asarray(grid).astype(theta.dtype)


# ------------------------------------------------------------------------------------------ crop


def _crop_line(boxes: Tensor, d: int, size: int, extent: Expr, mode: str) -> _Line:
    """The elements of spatial dimension `d` behind the crops of all boxes."""
    to = common.wide(boxes.dtype)
    last = cast(to, extent - 1)

    def source(k: Expr, i: Expr) -> Expr:
        a, b = [cast(to, boxes[k, const(d + e, INDEX)]) for e in (0, 2)]
        if size == 1:
            return (a + b) * 0.5 * last
        return a * last + cast(to, i) * ((b - a) * last / float(size - 1))

    def place(v: Expr, at: Expr) -> Expr:
        inside = all_of(v >= 0.0, v <= last)
        return select(inside, maximum(minimum(at, cast(PLACE, extent - 1)), 0), NONE)

    at = common.tensor((boxes.shape[0], const(size, INDEX)), source, "crop_at")
    # coordinates that count are not negative: halves are rounded up
    nearest = mode == "nearest"
    return _Line(at, mode, place, (lambda v: call("floor", v + 0.5)) if nearest else lambda v: v)


@op(kind="opaque")
def crop_and_resize(
    x: Tensor, boxes: Tensor, indices: Tensor, *, size: tuple[int, ...], mode: str = "linear",
    extrapolation_value: float = 0.0,
) -> Tensor:  # fmt: skip
    """Parts of images, each brought to one size.

    Shapes   x [n, c, h, w]; boxes [k, 4]; indices [k], the image of each box;
             result [k, c, size...]
    Units    boxes (y1, x1, y2, x2), 0 to 1 between the centres of the outer pixels; what lies
             outside is extrapolation_value
    mode     "nearest" (halves up) or "linear"
    """
    common.take_forms("[n, c, h, w]", x=x)
    common.one_of(("nearest", "linear"), mode=mode)
    common.require(len(size) == 2 and min(size) >= 1, f"size={size} has to be two positive numbers")
    common.float_only(boxes, "boxes")
    if mode == "linear":
        common.float_only(x)
    common.take_forms("[k, 4]", "[m]", boxes=boxes, indices=indices)
    rule = f"{common.named(boxes=boxes, indices=indices)}: one index per box"
    common.agree(boxes.shape[0], indices.shape[0], rule)
    lines = [_crop_line(boxes, d, size[d], x.shape[2 + d], mode) for d in range(2)]

    def channel(k: Expr, c: Expr, *_: Expr) -> tuple[Expr, Expr]:
        return common.clamped(cast(INDEX, indices[k]), 0, x.shape[0] - 1), c

    shape = (boxes.shape[0], x.shape[1], *common.extents(size))
    found = _sampled(x, shape, lines, channel, lambda k, c, y, z: [(k, y), (k, z)])
    zero = const(0, INDEX)

    def body(k: Expr, c: Expr, y: Expr, z: Expr) -> Expr:
        inside = all_of(lines[0].index[zero, k, y] >= 0, lines[1].index[zero, k, z] >= 0)
        blank = common.number(extrapolation_value, x.dtype)
        return select(inside, cast(x.dtype, found[k, c, y, z]), blank)

    return common.tensor(shape, body, "crop")


@crop_and_resize.numpy
def _(
    x: Array, boxes: Array, indices: Array, *, size: Sequence[int], mode: str,
    extrapolation_value: float,
) -> Array:  # fmt: skip
    """Every pixel of every crop by itself."""
    image = x.astype(np.float64)
    out = np.full((len(boxes), x.shape[1], *size), extrapolation_value, np.float64)
    for k, place in itertools.product(range(len(boxes)), np.ndindex(*size)):
        lines: list[list[tuple[int, float]]] = []
        for d, (i, n) in enumerate(zip(place, size, strict=True)):
            last = x.shape[2 + d] - 1
            a, b = float(boxes[k, d]), float(boxes[k, d + 2])
            v = (a + b) / 2 * last if n == 1 else a * last + i * (b - a) * last / (n - 1)
            if not 0 <= v <= last:
                break
            near = [(math.floor(v + 0.5), 1.0)] if mode == "nearest" else tap_weights(v, mode)
            lines.append([(min(at, last), w) for at, w in near])
        if len(lines) == 2:
            out[(k, slice(None), *place)] = _mixed(image[int(indices[k])], lines)
    return out.astype(x.dtype)
