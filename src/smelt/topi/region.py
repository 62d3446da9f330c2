"""Regions of interest: parts of images pooled to one size, and convolution at moved points."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence

import numpy as np

from smelt.ir.build import all_of, call, ceildiv, if_then_else, maximum, minimum, select
from smelt.ir.expr import INDEX, Expr, cast, const
from smelt.te.tensor import Tensor, min_value, reduce_axis
from smelt.tir.nodes import Stmt

from . import common
from .conv import Ints, Window, agree_on_channels, sliding
from .program import lets, loop, loop_nest, loops, product, program, seq, sharing, store, when
from .reference import Array, Index
from .registry import attributes, op

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
    common.take_forms("[n, c, h, w]", "[k, 5]", x=x, rois=rois)
    common.require(len(size) == 2 and min(size) >= 1, f"size={size} has to be two positive numbers")


def _image(x: Tensor, rois: Tensor, k: Expr) -> Expr:
    """Which image a region belongs to, kept inside the batch."""
    return common.clamped(cast(INDEX, rois[k, 0]), 0, x.shape[0] - 1)


class _Region:
    """Region k of roi_align: its place on the image, and its part of the result `out`.

    Of dimensions, 0 is y and 1 is x.
    """

    def __init__(
        self, x: Tensor, rois: Tensor, out: Tensor, k: Expr, scale: float, samples: int, mode: str,
        half_pixel: bool,
    ) -> None:  # fmt: skip
        self.x, self.rois, self.out, self.k = x, rois, out, k
        self.scale, self.samples, self.mode, self.half_pixel = scale, samples, mode, half_pixel
        self.to = common.wide(rois.dtype)

    def corner(self, d: int, end: bool) -> Expr:
        """Where the region begins or ends, in pixels."""
        place = cast(self.to, self.rois[self.k, 2 - d + 2 * end]) * self.scale
        return place - 0.5 if self.half_pixel else place

    def bin(self, d: int) -> Expr:
        """The extent of a part, in pixels."""
        extent = self.corner(d, True) - self.corner(d, False)
        if not self.half_pixel:
            extent = maximum(extent, const(1.0, self.to))
        return extent / cast(self.to, self.out.shape[2 + d])

    def count(self, d: int) -> Expr:
        """How many points are read in a part."""
        if self.samples > 0:
            return const(self.samples, INDEX)
        return maximum(cast(INDEX, call("ceil", self.bin(d))), 0)

    def point(self, d: int, part: Expr, i: Expr, count: Expr) -> Expr:
        """The coordinate of one of the points of a part."""
        step = self.bin(d)
        inner = (cast(self.to, i) + 0.5) * step / cast(self.to, maximum(count, 1))
        return self.corner(d, False) + cast(self.to, part) * step + inner

    def mixed(self, v: Expr, d: int, body: Callable[[Sequence[Expr]], Stmt]) -> Stmt:
        """The body with what a coordinate is mixed from: whether it lies on the image or less than
        a pixel beside it, two pixels, two weights."""
        extent = self.x.shape[2 + d]

        def parts(known: Sequence[Expr]) -> Stmt:
            (v,) = known
            inside = all_of(v >= -1.0, v <= cast(self.to, extent))
            held = maximum(minimum(v, cast(self.to, extent - 1)), const(0.0, self.to))
            down = call("floor", held)
            first, f = cast(INDEX, down), cast(self.out.dtype, held - down)
            pixels = [first, minimum(first + 1, extent - 1)]
            return lets([cast(INDEX, inside), *pixels, 1.0 - f, f], body)

        return lets([v], parts)

    def row(self, p: Expr) -> Stmt:
        """All parts of one row, in all channels."""
        out, columns, avg = self.out, self.out.shape[3], self.mode == "avg"
        start, zero = const(0.0, out.dtype) if avg else min_value(out.dtype), const(0.0, out.dtype)

        def everywhere(value: Callable[[Expr], Expr]) -> Stmt:
            def one(i: tuple[Expr, ...]) -> Stmt:
                at = (self.k, i[0], p, i[1])
                return store(out, at, value(out[at]))

            return loops((out.shape[1], columns), one)

        def joined(known: Sequence[Expr]) -> Stmt:
            image, ny, nx = known

            def line(i: Expr) -> Stmt:
                def part(q: Expr, found: Sequence[Expr]) -> Stmt:
                    def point(j: Expr) -> Stmt:
                        return self.add(image, (p, q), found, self.point(1, q, j, nx))

                    return loop(nx, point, "sx")

                y = self.point(0, p, i, ny)
                return self.mixed(y, 0, lambda found: loop(columns, lambda q: part(q, found), "q"))

            mean = everywhere(lambda v: v / cast(out.dtype, maximum(ny * nx, 1)))
            blank = when(ny * nx < 1, everywhere(lambda _: zero))
            return seq(everywhere(lambda _: start), loop(ny, line, "sy"), mean if avg else blank)

        return lets([_image(self.x, self.rois, self.k), self.count(0), self.count(1)], joined)

    def add(self, image: Expr, part: tuple[Expr, Expr], row: Sequence[Expr], z: Expr) -> Stmt:
        """What a point, whose row is known and whose column coordinate is z, adds to a part."""
        out, avg = self.out, self.mode == "avg"

        def each(value: Callable[[Expr], Expr]) -> Stmt:
            """A value for each channel joined with what is there."""

            def one(c: Expr) -> Stmt:
                at = (self.k, c, *part)
                return store(out, at, (operator.add if avg else maximum)(out[at], value(c)))

            return loop(out.shape[1], one, "c")

        def known(column: Sequence[Expr]) -> Stmt:
            def inside(weights: Sequence[Expr]) -> Stmt:
                def value(c: Expr) -> Expr:
                    pixels = [self.x[image, c, r, s] for r in row[1:3] for s in column[1:3]]
                    parts = [cast(out.dtype, e) * w for e, w in zip(pixels, weights, strict=True)]
                    mix = maximum if self.mode == "max_pixel" else operator.add
                    return functools.reduce(mix, parts)

                return each(value)

            then = lets([a * b for a in row[3:] for b in column[3:]], inside)
            outside = None if avg else each(lambda _: const(0.0, out.dtype))
            return when(row[0] * column[0] > 0, then, outside)

        return self.mixed(z, 1, known)


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
    rows = size[0]
    shape = common.extents((rois.shape[0], x.shape[1], *size))

    def body(out: Tensor) -> Stmt:
        # rows of parts are shared out: what a point is mixed from serves all channels
        def row(v: tuple[Expr, ...]) -> Stmt:
            k, p = v[0] // rows, v[0] % rows
            return _Region(x, rois, out, k, scale, samples, mode, half_pixel).row(p)

        kind = sharing(product(shape) * WORK_OF_A_PART)
        return loop_nest([rois.shape[0] * rows], [], row, kind)

    (made,) = program([shape], [common.wide(x.dtype)], [x, rois], body, "roi_align")
    return common.stored(made, x.dtype)


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
            each = zip(begin, step, place, counts, strict=True)
            lines = [[b + s * (p + (i + 0.5) / n) for i in range(n)] for b, s, p, n in each]
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

    def body(out: Tensor) -> Stmt:
        def part(at: tuple[Expr, ...]) -> Stmt:
            k, c, p, q = at

            def pooled(edges: Sequence[Expr]) -> Stmt:
                picture, top, bottom, left, right = edges
                empty = minimum(bottom - top, right - left) < 1
                start = select(empty, common.number(0, x.dtype), min_value(x.dtype))

                def visit(i: tuple[Expr, ...]) -> Stmt:
                    value = x[picture, c, top + i[0], left + i[1]]
                    return store(out, at, maximum(out[at], value))

                return seq(store(out, at, start), loops((bottom - top, right - left), visit))

            ends = [t[k, v, e] for t, v in ((rows, p), (columns, q)) for e in (0, 1)]
            return lets([image[k], *ends], pooled)

        return loops(out.shape, part)

    shape = common.extents((rois.shape[0], x.shape[1], *size))
    return program([shape], [x.dtype], [x, rows, columns, image], body, "roi_pool")[0]


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
@attributes(**sliding(2), groups=1, offset_groups=1)
def deformable_conv2d(
    x: Tensor, offset: Tensor, w: Tensor, mask: Tensor | None = None, *, groups: int,
    offset_groups: int, **given: Ints,
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
    forms = ("[n, c, h, w]", "[n, taps * 2, oh, ow]", "[o, i, kh, kw]", "[n, taps, oh, ow]")
    common.take_forms(*forms, x=x, offset=offset, w=w, mask=mask)
    common.float_only(offset, "offset")
    window = Window(2, w.shape[2:], **given)
    size = window.result(x.shape[2:])
    taps = w.shape[2] * w.shape[3]
    agree_on_channels(x, w, groups)
    common.take_groups(groups, common.named(w=w), w.shape[0])
    common.take_groups(offset_groups, f"offset_groups of {common.named(x=x)}", x.shape[1])
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
        met = enumerate(window.place([p, q], [kh, kw]))
        y, z = [cast(place, v) + cast(place, offset[n, tap * 2 + d, p, q]) for d, v in met]

        def load(r: Expr, s: Expr) -> Expr:
            inside = all_of(r >= 0, r < x.shape[2], s >= 0, s < x.shape[3])
            return if_then_else(inside, x[n, c, r, s], common.number(0, x.dtype))

        value = _neighbours(load, y, z, to)
        return value if mask is None else value * cast(to, mask[n, tap, p, q])

    return common.tensor((*x.shape[:2], *kernel, *size), body, "moved")
