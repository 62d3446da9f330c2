"""Regions of interest: parts of images pooled to one size, and convolution at moved points."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence

import numpy as np

from smelt.ir.build import all_of, call, ceildiv, if_then_else, maximum, minimum, select, value_of
from smelt.ir.expr import INDEX, Expr, cast, const
from smelt.te.tensor import Tensor, extern, min_value, reduce_axis
from smelt.tir.nodes import Stmt

from . import common
from .conv import Window, agree_on_channels
from .program import lets, loop_nest, sharing
from .program import program as statement
from .reference import Array, Index
from .registry import op
from .statements import at, loop, put, seq, when

ALIGN_MODES = ("avg", "max", "max_pixel")
WORK_OF_A_PART = 16
"""Steps for one part of a region in one channel, about."""


def _neighbours(load: Callable[[Expr, Expr], Expr], y: Expr, x: Expr, to: str) -> Expr:
    """The value of a point between four pixels. load: (row, column) -> the pixel."""

    def two(v: Expr) -> list[tuple[Expr, Expr]]:
        down = call("floor", v)
        first, f = cast(INDEX, down), cast(to, v - down)
        return [(first, 1.0 - f), (first + 1, f)]

    parts = [cast(to, load(r, c)) * (a * b) for r, a in two(y) for c, b in two(x)]
    return functools.reduce(operator.add, parts)


# --------------------------------------------------------------------------------------- regions


def _regions(x: Tensor, rois: Tensor, size: Sequence[int]) -> None:
    common.float_only(x)
    common.float_only(rois, "rois")
    common.take_form("[n, c, h, w]", x=x)
    common.require(
        len(rois.shape) == 2 and value_of(rois.shape[1]) in (5, None),
        f"{common.named(rois=rois)} have to be [k, 5]",
    )
    common.require(len(size) == 2 and min(size) >= 1, f"size={size} has to be two positive numbers")


def _image(x: Tensor, rois: Tensor, k: Expr) -> Expr:
    """Which image a region belongs to, kept inside the batch."""
    return common.clamped(cast(INDEX, rois[k, 0]), 0, x.shape[0] - 1)


class _Region:
    """The regions' places on the image.

    begin, bin  of one region and dimension (0: y, 1: x): where it begins, and the extent of one
                of its `size` parts, in pixels
    count       how many points are read in one part
    """

    def __init__(
        self, x: Tensor, rois: Tensor, size: Sequence[int], scale: float, samples: int,
        half_pixel: bool,
    ) -> None:  # fmt: skip
        self.x, self.rois, self.size, self.samples = x, rois, size, samples
        self.scale, self.half_pixel, self.to = scale, half_pixel, common.wide(rois.dtype)

    def corner(self, k: Expr, d: int, end: bool) -> Expr:
        place = cast(self.to, self.rois[k, 2 - d + 2 * end]) * self.scale
        return place - 0.5 if self.half_pixel else place

    def bin(self, k: Expr, d: int) -> Expr:
        extent = self.corner(k, d, True) - self.corner(k, d, False)
        if not self.half_pixel:
            extent = maximum(extent, const(1.0, self.to))
        return extent / float(self.size[d])

    def count(self, k: Expr, d: int) -> Expr:
        if self.samples > 0:
            return const(self.samples, INDEX)
        return maximum(cast(INDEX, call("ceil", self.bin(k, d))), 0)

    def point(self, k: Expr, d: int, part: Expr, i: Expr, count: Expr) -> Expr:
        step = self.bin(k, d)
        inner = (cast(self.to, i) + 0.5) * step / cast(self.to, count)
        return self.corner(k, d, False) + cast(self.to, part) * step + inner

    def inside(self, v: Expr, d: int) -> Expr:
        """Whether a coordinate lies on the image or less than a pixel beside it."""
        return all_of(v >= -1.0, v <= cast(self.to, self.x.shape[2 + d]))

    def around(self, v: Expr, d: int) -> list[tuple[Expr, Expr]]:
        """The two pixels of a dimension around a coordinate, and their weights."""
        last = self.x.shape[2 + d] - 1
        held = maximum(minimum(v, cast(self.to, last)), const(0.0, self.to))
        down = call("floor", held)
        first, f = cast(INDEX, down), cast(common.wide(self.x.dtype), held - down)
        return [(first, 1.0 - f), (minimum(first + 1, last), f)]


@op(kind="opaque")
def roi_align(
    x: Tensor, rois: Tensor, *, size: tuple[int, ...], scale: float = 1.0, samples: int = 0,
    mode: str = "avg", half_pixel: bool = False,
) -> Tensor:  # fmt: skip
    """Regions of images cut into size[0] x size[1] parts, each pooled from interpolated points.

    Shapes      x [n, c, h, w]; rois [k, 5] = (image, x1, y1, x2, y2); result [k, c, size...]
    Units       rois in pixels of an image that x is `scale` times as large as
    samples     points per part and dimension; 0: as many as the part has pixels, rounded up
    mode        "avg" or "max" of the interpolated points; "max_pixel": the largest of the pixels
                around every point, each times its weight
    half_pixel  pixel centres lie at halves, and regions may be smaller than a pixel
    """
    _regions(x, rois, size)
    common.one_of(ALIGN_MODES, mode=mode)
    region = _Region(x, rois, size, scale, samples, half_pixel)
    return common.stored(_aligned(region, mode), x.dtype)


def _pixel_parts(image: Array, y: float, x: float, held: bool) -> list[Array]:
    """The pixels of an image [c, h, w] around a point, each times its weight; those outside are
    the border's (held) or missing."""
    parts = [np.zeros(image.shape[0], np.float64)]
    top, left = math.floor(y), math.floor(x)
    for r, c in itertools.product((top, top + 1), (left, left + 1)):
        weight = (1 - abs(y - r)) * (1 - abs(x - c))
        if held:
            pixel = image[:, min(r, image.shape[1] - 1), min(c, image.shape[2] - 1)]
            parts.append(weight * pixel)
        elif 0 <= r < image.shape[1] and 0 <= c < image.shape[2]:
            parts.append(weight * image[:, r, c])
    return parts


@roi_align.numpy
def _(
    x: Array, rois: Array, *, size: Sequence[int], scale: float, samples: int, mode: str,
    half_pixel: bool,
) -> Array:  # fmt: skip
    """Every part of every region by itself."""
    h, w = x.shape[2:]
    out = np.zeros((len(rois), x.shape[1], *size), np.float64)
    for k, roi in enumerate(rois.astype(np.float64)):
        image = x[int(roi[0])].astype(np.float64)
        begin = roi[[2, 1]] * scale - (0.5 if half_pixel else 0)
        extent = (roi[[4, 3]] - roi[[2, 1]]) * scale
        step = (extent if half_pixel else np.maximum(extent, 1)) / np.array(size)
        counts = [samples if samples > 0 else max(math.ceil(s), 0) for s in step]
        for place in np.ndindex(*size):
            lines = [
                [b + s * (p + (i + 0.5) / n) for i in range(n)]
                for b, s, p, n in zip(begin, step, place, counts, strict=True)
            ]
            points = []
            for u, v in itertools.product(*lines):
                inside = -1 <= u <= h and -1 <= v <= w
                at = min(max(u, 0.0), h - 1.0), min(max(v, 0.0), w - 1.0)
                parts = _pixel_parts(image, *at, True)
                point = np.max(parts[1:], 0) if mode == "max_pixel" else np.sum(parts, 0)
                points.append(point * inside)
            if points:
                pooled = np.mean(points, 0) if mode == "avg" else np.max(points, 0)
                out[(k, slice(None), *place)] = pooled
    return out.astype(x.dtype)


def _aligned(region: _Region, mode: str) -> Tensor:
    """Rows of parts, shared out: what a point is mixed from serves all channels."""
    x, rois = region.x, region.rois
    rows, columns = [const(n, INDEX) for n in region.size]
    shape = (rois.shape[0], x.shape[1], rows, columns)

    def body(ins: list[Tensor], outs: list[Tensor]) -> Stmt:
        kind = sharing(functools.reduce(operator.mul, shape) * WORK_OF_A_PART)
        return loop_nest(
            [rois.shape[0] * rows], [], (ins, outs),
            lambda v: _row_of_parts(region, mode, outs[0], v[0] // rows, v[0] % rows), kind,
        )  # fmt: skip

    (made,) = statement([shape], [common.wide(x.dtype)], [x, rois], body, "roi_align")
    return made


def _row_of_parts(region: _Region, mode: str, out: Tensor, k: Expr, p: Expr) -> Stmt:
    """All parts of one row of a region, in all channels."""
    channels, columns = out.shape[1], out.shape[3]
    zero = const(0.0, out.dtype)

    def everywhere(value: Callable[[Expr, Expr], Expr]) -> Stmt:
        return loop("c", channels, lambda c: loop(
            "q", columns, lambda q: put(out, value(c, q), k, c, p, q)))  # fmt: skip

    def joined(image: Expr, ny: Expr, nx: Expr) -> Stmt:
        step = _Step(region, mode, out, image, k, p)

        def line(i: Expr) -> Stmt:
            y = region.point(k, 0, p, i, maximum(ny, 1))

            def part(q: Expr, found: Sequence[Expr]) -> Stmt:
                def point(j: Expr) -> Stmt:
                    return step.add(q, found, region.point(k, 1, q, j, maximum(nx, 1)))

                return loop("sx", nx, point)

            return step.mixed(y, 0, lambda found: loop("q", columns, lambda q: part(q, found)))

        start = everywhere(lambda c, q: zero if mode == "avg" else min_value(out.dtype))
        count = ny * nx
        mean = everywhere(lambda c, q: at(out, k, c, p, q) / cast(out.dtype, maximum(count, 1)))
        blank = when(count < 1, everywhere(lambda c, q: zero))
        return seq(start, loop("sy", ny, line), mean if mode == "avg" else blank)

    image = _image(region.x, region.rois, k)
    counts = [region.count(k, d) for d in (0, 1)]
    return lets([image, *counts], lambda v: joined(v[0], v[1], v[2]))


class _Step:
    """What one point adds to a part, in all channels."""

    def __init__(
        self, region: _Region, mode: str, out: Tensor, image: Expr, k: Expr, p: Expr
    ) -> None:
        self.region, self.mode, self.out = region, mode, out
        self.image, self.k, self.p = image, k, p

    def mixed(self, v: Expr, d: int, body: Callable[[Sequence[Expr]], Stmt]) -> Stmt:
        """The body with what a coordinate is mixed from: whether it is inside, two pixels, two
        weights."""

        def parts(v: Expr) -> Stmt:
            (a, f), (b, g) = self.region.around(v, d)
            return lets([cast(INDEX, self.region.inside(v, d)), a, b, f, g], body)

        return lets([v], lambda found: parts(found[0]))

    def add(self, q: Expr, row: Sequence[Expr], z: Expr) -> Stmt:
        """The point at a row that is known and at the column coordinate z."""
        x, out, join = self.region.x, self.out, operator.add if self.mode == "avg" else maximum

        def own(c: Expr, value: Expr) -> Stmt:
            place = (self.k, c, self.p, q)
            return put(out, join(at(out, *place), value), *place)

        def inside(column: Sequence[Expr], weights: Sequence[Expr]) -> Stmt:
            def one(c: Expr) -> Stmt:
                pixels = [x[self.image, c, r, s] for r in row[1:3] for s in column[1:3]]
                parts = [cast(out.dtype, e) * w for e, w in zip(pixels, weights, strict=True)]
                mix = maximum if self.mode == "max_pixel" else operator.add
                return own(c, functools.reduce(mix, parts))

            return loop("c", out.shape[1], one)

        def known(column: Sequence[Expr]) -> Stmt:
            products = [a * b for a in row[3:] for b in column[3:]]
            then = lets(products, lambda weights: inside(column, weights))
            outside = loop("c", out.shape[1], lambda c: own(c, const(0.0, out.dtype)))
            return when(row[0] * column[0] > 0, then, None if self.mode == "avg" else outside)

        return self.mixed(z, 1, known)


@op(kind="opaque")
def roi_pool(x: Tensor, rois: Tensor, *, size: tuple[int, ...], scale: float = 1.0) -> Tensor:
    """Regions of images cut into size[0] x size[1] parts of whole pixels: the largest of each, 0
    where a part has none.

    Shapes   x [n, c, h, w]; rois [k, 5] = (image, x1, y1, x2, y2); result [k, c, size...]
    Units    rois in pixels of an image that x is `scale` times as large as, both ends included;
             rounded to whole pixels of x, halves away from zero
    """
    _regions(x, rois, size)
    to = common.wide(rois.dtype)

    def whole(k: Expr, column: int) -> Expr:
        v = cast(to, rois[k, column]) * scale
        return cast(INDEX, select(v < 0.0, call("ceil", v - 0.5), call("floor", v + 0.5)))

    def bounds(d: int) -> Tensor:
        """The first pixel and the end of every part of every region."""

        def body(k: Expr, p: Expr, e: Expr) -> Expr:
            begin = whole(k, 2 - d)
            extent = maximum(whole(k, 4 - d) - begin + 1, 1)
            first, end = p * extent // size[d], ceildiv((p + 1) * extent, size[d])
            return maximum(minimum(begin + select(e < 1, first, end), x.shape[2 + d]), 0)

        return common.tensor((rois.shape[0], size[d], 2), body, "roi_bounds")

    rows, columns = bounds(0), bounds(1)
    image = common.tensor((rois.shape[0],), lambda k: _image(x, rois, k), "roi_image")

    def program(ins: list[Tensor], outs: list[Tensor]) -> Stmt:
        (out,) = outs

        def part(k: Expr, c: Expr, p: Expr, q: Expr) -> Stmt:
            tall, broad = [at(t, k, v, 1) - at(t, k, v, 0) for t, v in ((rows, p), (columns, q))]
            empty = minimum(tall, broad) < 1
            start = select(empty, common.number(0, x.dtype), min_value(x.dtype))

            def visit(y: Expr, z: Expr) -> Stmt:
                value = x[at(image, k), c, y, z]
                return put(out, maximum(at(out, k, c, p, q), value), k, c, p, q)

            return seq(
                put(out, start, k, c, p, q),
                loop("y", tall, lambda y: loop(
                    "z", broad, lambda z: visit(y, z), at(columns, k, q, 0)), at(rows, k, p, 0)),
            )  # fmt: skip

        return loop("k", rois.shape[0], lambda k: loop("c", x.shape[1], lambda c: loop(
            "p", size[0], lambda p: loop("q", size[1], lambda q: part(k, c, p, q)))))  # fmt: skip

    shape = (rois.shape[0], x.shape[1], *size)
    made: Tensor = extern(shape, [x, rows, columns, image], program, "roi_pool", x.dtype)
    return made


@roi_pool.numpy
def _(x: Array, rois: Array, *, size: Sequence[int], scale: float) -> Array:
    """Every part of every region by itself."""
    out = np.zeros((len(rois), x.shape[1], *size), x.dtype)
    for k, roi in enumerate(rois.astype(np.float64)):
        corners = [math.copysign(math.floor(abs(v) + 0.5), v) for v in roi[1:] * scale]
        begin = [int(corners[1]), int(corners[0])]
        extent = [max(int(corners[3]) - begin[0] + 1, 1), max(int(corners[2]) - begin[1] + 1, 1)]
        for place in np.ndindex(*size):
            cut = [
                slice(min(max(b + p * e // n, 0), h), min(max(b - (-(p + 1) * e // n), 0), h))
                for b, e, p, n, h in zip(begin, extent, place, size, x.shape[2:], strict=True)
            ]
            window: Index = (int(roi[0]), slice(None), *cut)
            part = x[window]
            if part.shape[1] and part.shape[2]:
                out[(k, slice(None), *place)] = part.max((1, 2))
    return out


# ------------------------------------------------------------------------------------ deformable


@op(kind="opaque")
def deformable_conv2d(
    x: Tensor, offset: Tensor, w: Tensor, mask: Tensor | None = None, *,
    strides: tuple[int, ...] = (1, 1), pads: tuple[int, ...] = (0, 0, 0, 0),
    dilations: tuple[int, ...] = (1, 1), groups: int = 1, offset_groups: int = 1,
) -> Tensor:  # fmt: skip
    """A convolution whose kernel elements meet the image at points moved by offsets.

    Shapes         x [n, c, h, w]; offset [n, offset_groups * kh * kw * 2, oh, ow], down then right;
                   w [o, c / groups, kh, kw]; mask [n, offset_groups * kh * kw, oh, ow], a factor
                   of each product; result [n, o, oh, ow] as in conv2d
    Units          offsets, strides, pads (top, left, bottom, right) and dilations in pixels
    offset_groups  groups of neighbouring channels with offsets of their own
    Source         ONNX DeformConv-22
    """
    dtype = common.same_dtype(x=x, w=w)
    common.float_only(x)
    common.take_dimensions(4, x=x, offset=offset, w=w, **({} if mask is None else {"mask": mask}))
    common.float_only(offset, "offset")
    window = Window(2, w.shape[2:], strides, pads, dilations)
    size = window.result(x.shape[2:])
    taps = w.shape[2] * w.shape[3]
    _deformable_shapes(x, w, groups, offset_groups)
    for name, t, each in (("offset", offset, 2), ("mask", mask, 1)):
        if t is None:
            continue
        want = (x.shape[0], taps * (each * offset_groups), *size)
        rule = f"{common.named(**{name: t})} has to be {common.describe(want)}"
        common.agree_in_shape(t.shape, want, rule)
    moved = _moved(x, offset, mask, window, size, offset_groups)
    outputs, inputs = w.shape[0] // groups, w.shape[1]
    axes = [reduce_axis((0, e), n) for e, n in zip(w.shape[1:], ("ic", "kh", "kw"), strict=True)]

    def body(n: Expr, oc: Expr, p: Expr, q: Expr) -> Expr:
        ic, kh, kw = [a.var for a in axes]
        channel = ic if groups == 1 else (oc // outputs) * inputs + ic
        return moved[n, channel, kh, kw, p, q] * cast(moved.dtype, w[oc, ic, kh, kw])

    return common.stored(
        common.sum_over((x.shape[0], w.shape[0], *size), body, axes, "conv"), dtype
    )


@deformable_conv2d.numpy
def _(
    x: Array, offset: Array, w: Array, mask: Array | None = None, *, strides: Sequence[int],
    pads: Sequence[int], dilations: Sequence[int], groups: int, offset_groups: int,
) -> Array:  # fmt: skip
    """Every pixel that a kernel element meets by itself, then the product with the kernel."""
    strides, dilations, pads = strides or (1, 1), dilations or (1, 1), pads or (0, 0, 0, 0)
    (n, c), kernel, size = x.shape[:2], w.shape[2:], offset.shape[2:]
    moved = np.zeros((n, c, *kernel, *size), np.float64)
    shifts = offset.astype(np.float64).reshape(n, offset_groups, *kernel, 2, *size)
    each = c // offset_groups
    for b, g, i, j, p, q in np.ndindex(n, offset_groups, *kernel, *size):
        y = p * strides[0] - pads[0] + i * dilations[0] + shifts[b, g, i, j, 0, p, q]
        z = q * strides[1] - pads[1] + j * dilations[1] + shifts[b, g, i, j, 1, p, q]
        own = slice(g * each, (g + 1) * each)
        parts = _pixel_parts(x[b, own].astype(np.float64), y, z, False)
        moved[b, own, i, j, p, q] = np.sum(parts, 0)
        if mask is not None:
            factor = mask.astype(np.float64).reshape(n, offset_groups, *kernel, *size)
            moved[b, own, i, j, p, q] *= factor[b, g, i, j, p, q]
    filters = w.astype(np.float64).reshape(groups, w.shape[0] // groups, *w.shape[1:])
    columns = moved.reshape(n, groups, c // groups, *kernel, *size)
    result = np.asarray(np.einsum("ngcijpq,gocij->ngopq", columns, filters))
    return result.reshape(n, w.shape[0], *size).astype(x.dtype)


def _deformable_shapes(x: Tensor, w: Tensor, groups: int, offset_groups: int) -> None:
    agree_on_channels(x, w, groups)
    for name, count, by in (
        ("groups", value_of(w.shape[0]), groups),
        ("offset_groups", value_of(x.shape[1]), offset_groups),
    ):
        common.require(by >= 1, f"{name}={by}; it has to be at least 1")
        common.require(
            count is None or count % by == 0, f"{count} channels cannot be split into {name}={by}"
        )


def _moved(
    x: Tensor, offset: Tensor, mask: Tensor | None, window: Window, size: Sequence[Expr],
    offset_groups: int,
) -> Tensor:  # fmt: skip
    """[n, c, kh, kw, oh, ow]: the image where each kernel element meets it, 0 outside."""
    to, place = common.wide(x.dtype), common.wide(offset.dtype)
    kernel = [e for e in window.kernel if isinstance(e, Expr)]
    each = x.shape[1] // offset_groups

    def body(n: Expr, c: Expr, kh: Expr, kw: Expr, p: Expr, q: Expr) -> Expr:
        tap = (c // each * kernel[0] + kh) * kernel[1] + kw
        whole = [v - b for v, b in zip(window.pixel([p, q], [kh, kw]), window.begin, strict=True)]
        y, z = [
            cast(place, v) + cast(place, offset[n, tap * 2 + d, p, q]) for d, v in enumerate(whole)
        ]

        def load(r: Expr, s: Expr) -> Expr:
            inside = all_of(r >= 0, r < x.shape[2], s >= 0, s < x.shape[3])
            return if_then_else(inside, x[n, c, r, s], common.number(0, x.dtype))

        value = _neighbours(load, y, z, to)
        return value if mask is None else value * cast(to, mask[n, tap, p, q])

    return common.tensor((*x.shape[:2], *kernel, *size), body, "moved")
