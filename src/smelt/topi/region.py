"""Regions of interest: parts of images pooled to one size, and convolution at moved points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from smelt.ir.build import all_of, call, ceildiv, if_then_else, maximum, minimum, select, value_of
from smelt.ir.expr import INDEX, Expr, cast, const
from smelt.te.tensor import Tensor, extern, min_value, reduce_axis
from smelt.te.tensor import max as te_max
from smelt.te.tensor import sum as te_sum
from smelt.tir.nodes import Stmt

from .common import (
    agree,
    describe,
    float_only,
    number,
    require,
    same_dtype,
    stored,
    sum_over,
    tensor,
    wide,
)  # fmt: skip
from .conv import Window
from .registry import op
from .statements import at, loop, put, seq


ALIGN_MODES = ("avg", "max", "max_pixel")


def _plus(a: Expr, b: Expr) -> Expr:
    return a + b


def _larger(a: Expr, b: Expr) -> Expr:
    return maximum(a, b)


def _neighbours(
    load: Callable[[Expr, Expr], Expr], y: Expr, x: Expr, to: str,
    join: Callable[[Expr, Expr], Expr] = _plus,
) -> Expr:  # fmt: skip
    """The value of a point between four pixels.

    load  (row, column) -> the pixel
    join  of the pixels, each times its weight
    """

    def two(v: Expr) -> list[tuple[Expr, Expr]]:
        down = call("floor", v)
        first, f = cast(INDEX, down), cast(to, v - down)
        return [(first, 1.0 - f), (first + 1, f)]

    total: Expr | None = None
    for r, a in two(y):
        for c, b in two(x):
            part = cast(to, load(r, c)) * (a * b)
            total = part if total is None else join(total, part)
    assert total is not None
    return total


# --------------------------------------------------------------------------------------- regions


def _regions(x: Tensor, rois: Tensor, size: Sequence[int]) -> None:
    float_only(x)
    float_only(rois, "rois")
    require(len(x.shape) == 4, f"x {describe(x.shape)} has to be [n, c, h, w]")
    require(
        len(rois.shape) == 2 and value_of(rois.shape[1]) in (5, None),
        f"rois {describe(rois.shape)} have to be [k, 5]",
    )
    require(len(size) == 2 and min(size) >= 1, f"size={size} has to be two positive numbers")


def _image(x: Tensor, rois: Tensor, k: Expr) -> Expr:
    """Which image a region belongs to, kept inside the batch."""
    n = cast(INDEX, rois[k, 0])
    return maximum(minimum(n, x.shape[0] - 1), 0)


class _Region:
    """The regions' places on the image.

    begin, bin  of one region and dimension (0: y, 1: x): where it begins, and the extent of one
                of its `size` parts, in pixels
    count       how many points are read in one part
    """

    def __init__(
        self, x: Tensor, rois: Tensor, size: Sequence[int], scale: float, samples: int,
        half_pixel: bool, join: Callable[[Expr, Expr], Expr],
    ) -> None:  # fmt: skip
        self.x, self.rois, self.size, self.samples, self.join = x, rois, size, samples, join
        self.scale, self.half_pixel, self.to = scale, half_pixel, wide(rois.dtype)

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

    def value(self, k: Expr, c: Expr, y: Expr, z: Expr) -> Expr:
        """The image at a point; 0 more than a pixel outside."""
        x, to = self.x, wide(self.x.dtype)
        ends = [cast(self.to, e) for e in x.shape[2:]]
        inside = all_of(y >= -1.0, y <= ends[0], z >= -1.0, z <= ends[1])
        zero = const(0.0, self.to)
        row, column = [
            maximum(minimum(v, e - 1.0), zero) for v, e in zip((y, z), ends, strict=True)
        ]
        image = _image(x, self.rois, k)

        def load(r: Expr, s: Expr) -> Expr:
            return x[image, c, minimum(r, x.shape[2] - 1), minimum(s, x.shape[3] - 1)]

        return select(inside, _neighbours(load, row, column, to, self.join), const(0.0, to))


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
    require(mode in ALIGN_MODES, f"mode={mode!r}; legal: {', '.join(ALIGN_MODES)}")
    join = _larger if mode == "max_pixel" else _plus
    region = _Region(x, rois, size, scale, samples, half_pixel, join)
    shape = (rois.shape[0], x.shape[1], *size)
    make = _align_fixed if samples > 0 else _align_counted
    return stored(make(region, shape, mode), x.dtype)


def _align_fixed(region: _Region, shape: Sequence[Any], mode: str) -> Tensor:
    """As many points in every part."""
    n = const(region.samples, INDEX)
    axes = [reduce_axis((0, n), name) for name in ("sy", "sx")]

    def body(k: Expr, c: Expr, p: Expr, q: Expr) -> Any:
        y, z = [
            region.point(k, d, v, a.var, n)
            for d, (v, a) in enumerate(zip((p, q), axes, strict=True))
        ]
        return (te_sum if mode == "avg" else te_max)(region.value(k, c, y, z), axes)

    pooled = tensor(shape, body, "roi_pool")
    if mode != "avg":
        return pooled
    return tensor(shape, lambda *i: pooled[i] / float(region.samples**2), "roi_align")


def _align_counted(region: _Region, shape: Sequence[Any], mode: str) -> Tensor:
    """Parts of larger regions are read at more points."""
    x, rois = region.x, region.rois
    to = wide(x.dtype)
    counts = tensor(
        (rois.shape[0], const(2, INDEX)),
        lambda k, d: select(d < 1, region.count(k, 0), region.count(k, 1)), "roi_points",
    )  # fmt: skip

    def program(ins: list[Tensor], outs: list[Tensor]) -> Stmt:
        (out,) = outs
        k_count, c_count, rows, columns = [out.shape[d] for d in range(4)]

        def part(k: Expr, c: Expr, p: Expr, q: Expr) -> Stmt:
            ny, nx = [maximum(at(counts, k, d), 1) for d in (0, 1)]

            def visit(i: Expr, j: Expr) -> Stmt:
                y, z = region.point(k, 0, p, i, ny), region.point(k, 1, q, j, nx)
                value, old = region.value(k, c, y, z), at(out, k, c, p, q)
                joined = old + value if mode == "avg" else maximum(old, value)
                return put(out, joined, k, c, p, q)

            points = loop(
                "sy",
                at(counts, k, 0),
                lambda i: loop("sx", at(counts, k, 1), lambda j: visit(i, j)),
            )
            nothing = at(counts, k, 0) * at(counts, k, 1) < 1
            if mode != "avg":
                start: Expr = select(nothing, const(0.0, to), min_value(to))
                return seq(put(out, start, k, c, p, q), points)
            mean = at(out, k, c, p, q) / cast(to, ny * nx)
            return seq(put(out, const(0.0, to), k, c, p, q), points, put(out, mean, k, c, p, q))

        return loop("k", k_count, lambda k: loop("c", c_count, lambda c: loop(
            "p", rows, lambda p: loop("q", columns, lambda q: part(k, c, p, q)))))  # fmt: skip

    made: Tensor = extern(shape, [x, rois, counts], program, "roi_align", to)
    return made


@op(kind="opaque")
def roi_pool(x: Tensor, rois: Tensor, *, size: tuple[int, ...], scale: float = 1.0) -> Tensor:
    """Regions of images cut into size[0] x size[1] parts of whole pixels: the largest of each, 0
    where a part has none.

    Shapes   x [n, c, h, w]; rois [k, 5] = (image, x1, y1, x2, y2); result [k, c, size...]
    Units    rois in pixels of an image that x is `scale` times as large as, both ends included;
             rounded to whole pixels of x, halves away from zero
    """
    _regions(x, rois, size)
    to = wide(rois.dtype)

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

        return tensor((rois.shape[0], size[d], 2), body, "roi_bounds")

    rows, columns = bounds(0), bounds(1)
    image = tensor((rois.shape[0],), lambda k: _image(x, rois, k), "roi_image")

    def program(ins: list[Tensor], outs: list[Tensor]) -> Stmt:
        (out,) = outs

        def part(k: Expr, c: Expr, p: Expr, q: Expr) -> Stmt:
            tall, broad = [at(t, k, v, 1) - at(t, k, v, 0) for t, v in ((rows, p), (columns, q))]
            empty = minimum(tall, broad) < 1
            start = select(empty, number(0, x.dtype), min_value(x.dtype))

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
    dtype = same_dtype(x=x, w=w)
    float_only(x)
    for name, t in (("x", x), ("offset", offset), ("w", w), ("mask", mask)):
        if t is not None:
            require(len(t.shape) == 4, f"{name} {describe(t.shape)} has to have four dimensions")
    float_only(offset, "offset")
    window = Window(2, w.shape[2:], strides, pads, dilations)
    size = window.result(x.shape[2:])
    taps = w.shape[2] * w.shape[3]
    _deformable_shapes(x, w, groups, offset_groups)
    for name, t, each in (("offset", offset, 2), ("mask", mask, 1)):
        if t is None:
            continue
        want = (x.shape[0], taps * (each * offset_groups), *size)
        for d, (a, b) in enumerate(zip(t.shape, want, strict=True)):
            agree(a, b, f"{name} {describe(t.shape)} has to be {describe(want)}: dimension {d}")
    moved = _moved(x, offset, mask, window, size, offset_groups)
    outputs, inputs = w.shape[0] // groups, w.shape[1]
    axes = [reduce_axis((0, e), n) for e, n in zip(w.shape[1:], ("ic", "kh", "kw"), strict=True)]

    def body(n: Expr, oc: Expr, p: Expr, q: Expr) -> Expr:
        ic, kh, kw = [a.var for a in axes]
        channel = ic if groups == 1 else (oc // outputs) * inputs + ic
        return moved[n, channel, kh, kw, p, q] * cast(moved.dtype, w[oc, ic, kh, kw])

    return stored(sum_over((x.shape[0], w.shape[0], *size), body, axes, "conv"), dtype)


def _deformable_shapes(x: Tensor, w: Tensor, groups: int, offset_groups: int) -> None:
    agree(
        x.shape[1], w.shape[1] * groups,
        f"x {describe(x.shape)} and w {describe(w.shape)} with groups={groups}: the channels of "
        "x have to be dimension 1 of w times groups",
    )  # fmt: skip
    for name, count, by in (
        ("groups", value_of(w.shape[0]), groups),
        ("offset_groups", value_of(x.shape[1]), offset_groups),
    ):
        require(by >= 1, f"{name}={by}; it has to be at least 1")
        require(
            count is None or count % by == 0, f"{count} channels cannot be split into {name}={by}"
        )


def _moved(
    x: Tensor, offset: Tensor, mask: Tensor | None, window: Window, size: Sequence[Expr],
    offset_groups: int,
) -> Tensor:  # fmt: skip
    """[n, c, kh, kw, oh, ow]: the image where each kernel element meets it, 0 outside."""
    to, place = wide(x.dtype), wide(offset.dtype)
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
            return if_then_else(inside, x[n, c, r, s], number(0, x.dtype))

        value = _neighbours(load, y, z, to)
        return value if mask is None else value * cast(to, mask[n, tap, p, q])

    return tensor((*x.shape[:2], *kernel, *size), body, "moved")
