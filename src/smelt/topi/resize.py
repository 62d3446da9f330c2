"""Images made larger or smaller, one dimension after the other."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import all_of, any_of, call, equal, maximum, minimum, select, value_of
from smelt.ir.expr import INDEX, Expr, cast, const
from smelt.te.tensor import Tensor, max_value, min_value, reduce_axis

from .common import clamped, extents, number, one_of, require, stored, sum_over, take_count, tensor
from .reference import Array, widened
from .registry import op

MODES = ("nearest", "linear", "cubic")
COORDINATES = (
    "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric",
    "tf_crop_and_resize",
)  # fmt: skip
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
FLOAT = "float32"


class _Axis:
    """One dimension to be resized.

    size, extent  of the result and of the operand, in elements
    scale         result elements per operand element; 0: size / extent
    known         the scale as a number, 0 where only the run knows it
    length        size before it was rounded down to whole elements, in float32
    roi           begin and end of the part that is kept, from 0 to 1 (tf_crop_and_resize)
    """

    def __init__(
        self, size: Expr, extent: Expr, scale: float, mode: str, roi: tuple[float, float]
    ) -> None:
        self.size, self.extent, self.mode, self.roi = size, extent, mode, roi
        s = value_of(size)
        h = value_of(extent)
        self.known = float(scale) or (s / h if s is not None and h else 0.0)
        self.ratio: Expr = cast(FLOAT, size) / cast(FLOAT, extent)
        if self.known:
            self.ratio = const(self.known, FLOAT)
        self.length = cast(FLOAT, size)
        if scale:
            whole = float(scale) * h if h is not None else None
            self.length = self.ratio * cast(FLOAT, extent) if whole is None else const(whole, FLOAT)
        known = value_of(self.length) if scale else s
        self.single: Expr | bool = equal(size, 1) if known is None else known == 1
        self.factor = s // h if s is not None and h and s % h == 0 else 0
        if scale and scale != self.factor:
            self.factor = 0

    def source(self, i: Expr) -> Expr:
        """The coordinate in the operand, in float32, that place `i` of the result looks at."""
        x, one = cast(FLOAT, i), const(1, INDEX)
        last_in, last_out = cast(FLOAT, self.extent - one), self.length - 1.0
        if self.mode == "asymmetric":
            return x / self.ratio
        if self.mode == "align_corners":
            return self.unless_single(x * last_in / maximum(last_out, 1.0), const(0.0, FLOAT))
        if self.mode == "tf_crop_and_resize":
            a, b = self.roi
            along = a * last_in + x * (b - a) * last_in / maximum(last_out, 1.0)
            return self.unless_single(along, 0.5 * (a + b) * last_in)
        half = (x + 0.5) / self.ratio - 0.5
        if self.mode == "pytorch_half_pixel":
            return self.unless_single(half, const(0.0, FLOAT))
        if self.mode == "half_pixel_symmetric":
            wide = cast(FLOAT, self.extent)
            adjustment = cast(FLOAT, self.size) / self.length
            return half + wide * 0.5 * (1.0 - adjustment)
        return half

    def unless_single(self, place: Expr, middle: Expr) -> Expr:
        """`place`; `middle` where the result has one element only."""
        if isinstance(self.single, bool):
            return middle if self.single else place
        return select(self.single, middle, place)

    def inside(self, at: Expr) -> Expr:
        """An index cut to the dimension."""
        return clamped(at, 0, self.extent - 1)

    def outside(self, x: Expr) -> Expr:
        """Whether a coordinate lies outside the operand."""
        return any_of(x < 0.0, x > cast(FLOAT, self.extent - 1))


def _rounded(x: Expr, how: str) -> Expr:
    """A coordinate as an index."""
    name, moved = {
        "floor": ("floor", x), "ceil": ("ceil", x), "round_prefer_ceil": ("floor", x + 0.5),
        "round_prefer_floor": ("ceil", x - 0.5),
    }[how]  # fmt: skip
    return cast(INDEX, call(name, moved))


def _nearest(a: _Axis, i: Expr, how: str) -> list[tuple[Expr, Expr | None]]:
    whole = (a.mode == "asymmetric" and how == "floor") or (
        a.mode in ("half_pixel", "half_pixel_symmetric") and how.startswith("round")
    )
    if a.factor and whole:
        return [(i // a.factor, None)]
    return [(a.inside(_rounded(a.source(i), how)), None)]


def _linear(a: _Axis, i: Expr) -> list[tuple[Expr, Expr | None]]:
    x = a.source(i)
    inside = maximum(minimum(x, cast(FLOAT, a.extent - 1)), 0.0)
    down = call("floor", inside)
    left = cast(INDEX, down)
    weight = inside - down
    return [(left, 1.0 - weight), (minimum(left + 1, a.extent - 1), weight)]


def _near(v: Expr, c: float) -> Expr:
    """The weight of cubic convolution at a distance up to 1."""
    return ((c + 2) * v - (c + 3)) * v * v + 1.0


def _far(v: Expr, c: float) -> Expr:
    """The weight at a distance from 1 to 2."""
    return ((c * v - 5 * c) * v + 8 * c) * v - 4 * c


def cubic_weights(t: Expr, c: float) -> list[Expr]:
    """The weights of the four elements around a point that lies `t` behind the second of them, by
    cubic convolution with the coefficient c."""

    return [_far(t + 1.0, c), _near(t, c), _near(1.0 - t, c), _far(2.0 - t, c)]


def _mixed(
    a: _Axis, i: Expr, weights: Callable[[Expr], list[Expr]], exclude: bool
) -> list[tuple[Expr, Expr | None]]:
    """The elements around a point with their weights, by how far it lies behind the one in front.

    exclude  those outside the operand count 0 and the others sum up to 1
    """
    x = a.source(i)
    down = call("floor", x)
    kept = weights(x - down)
    first, before = cast(INDEX, down), len(kept) // 2 - 1
    places = [first + (n - before) for n in range(len(kept))]
    if exclude:
        inside = [all_of(at >= 0, at < a.extent) for at in places]
        kept = [select(c, w, 0.0) for c, w in zip(inside, kept, strict=True)]
        total = functools.reduce(operator.add, kept)
        kept = [w / total for w in kept]
    return [(a.inside(at), w) for at, w in zip(places, kept, strict=True)]


def _tent(v: Expr) -> Expr:
    """The weight of linear interpolation at a distance."""
    return maximum(1.0 - v, 0.0)


def _cubic_kernel(v: Expr, c: float) -> Expr:
    """The weight of cubic convolution at a distance."""
    return select(v <= 1.0, _near(v, c), select(v < 2.0, _far(v, c), 0.0))


def _filtered(
    x: Tensor, d: int, a: _Axis, kernel: Callable[[Expr], Expr], reach: int, exclude: bool,
    blank: float | None,
) -> Tensor:  # fmt: skip
    """x made smaller along dimension d by weights that reach over as many more elements.

    kernel  the weight at a distance, 0 from `reach` on
    """
    before = math.ceil(reach / a.known) - 1
    taps = const(2 * before + 2, INDEX)

    def place(i: Expr, t: Expr) -> Expr:
        return cast(INDEX, call("floor", a.source(i))) + (t - before)

    def raw(i: Expr, t: Expr) -> Expr:
        at = place(i, t)
        weight = kernel(call("abs", cast(FLOAT, at) - a.source(i)) * a.ratio)
        return select(all_of(at >= 0, at < a.extent), weight, 0.0) if exclude else weight

    weights = tensor((a.size, taps), raw, "resize_weight")
    k, t = [reduce_axis((0, taps), name) for name in ("k", "t")]
    total = sum_over((a.size,), lambda i: weights[i, k.var], [k], "resize_total")
    share = tensor(weights.shape, lambda i, t: weights[i, t] / total[i], "resize_share")
    index = tensor(weights.shape, lambda i, t: a.inside(place(i, t)), "resize_index")

    def body(*i: Expr) -> Expr:
        at = (*i[:d], index[i[d], t.var], *i[d + 1 :])
        return x[at] * cast(x.dtype, share[i[d], t.var])

    shape = [a.size if n == d else e for n, e in enumerate(x.shape)]
    found = sum_over(shape, body, [t], "resize")
    if blank is None:
        return found

    def held(*i: Expr) -> Expr:
        return select(a.outside(a.source(i[d])), number(blank, x.dtype), found[i])

    return tensor(shape, held, "resize_held")


def _along(
    x: Tensor, d: int, a: _Axis, taps: Callable[[Expr], list[tuple[Expr, Expr | None]]],
    blank: float | None,
) -> Tensor:  # fmt: skip
    """x resized along dimension d."""

    def body(*i: Expr) -> Expr:
        values = [(x[(*i[:d], at, *i[d + 1 :])], weight) for at, weight in taps(i[d])]
        parts = [v if weight is None else v * weight for v, weight in values]
        total: Expr = functools.reduce(operator.add, parts)
        if blank is None:
            return total
        return select(a.outside(a.source(i[d])), number(blank, x.dtype), total)

    shape = [a.size if n == d else e for n, e in enumerate(x.shape)]
    return tensor(shape, body, "resize")


@op(channels_last=True)
def resize(
    x: Tensor, *, sizes: tuple[int, ...], scales: tuple[float, ...] = (), mode: str = "nearest",
    coordinate_mode: str = "half_pixel", nearest_mode: str = "round_prefer_floor",
    cubic_coeff: float = -0.75, exclude_outside: bool = False, extrapolation_value: float = 0.0,
    roi: tuple[float, ...] = (), antialias: bool = False,
) -> Tensor:  # fmt: skip
    """x with other extents, by the nearest element or by interpolation, axis by axis.

    sizes      extents of the result, one per dimension
    scales     result elements per element of x, where the model gives them; empty: sizes / extents
    roi        begin of every dimension, then end, from 0 to 1 (tf_crop_and_resize)
    antialias  "linear" and "cubic": where a dimension becomes smaller, weights reach over as many
               more elements, so that every element counts; the scale has to be a known number
    Types      integers are mixed in float32, rounded toward zero and held in their range
    Source     ONNX Resize-19
    """
    rank, new = len(x.shape), extents(sizes)
    one_of(MODES, mode=mode)
    one_of(COORDINATES, coordinate_mode=coordinate_mode)
    one_of(NEAREST, nearest_mode=nearest_mode)
    take_count(x, rank, sizes=new, scales=scales or new)
    take_count(x, 2 * rank, roi=roi or 2 * new)
    crop = coordinate_mode == "tf_crop_and_resize"
    narrow = mode != "nearest" and x.dtype not in ("float32", "float64")
    moved = stored(x, FLOAT, "widen") if narrow else x
    blank = extrapolation_value if crop else None
    for d in range(rank):
        part = (roi[d], roi[rank + d]) if crop and roi else (0.0, 1.0)
        if new[d] is x.shape[d] and (not scales or scales[d] == 1) and part == (0.0, 1.0):
            continue
        a = _Axis(new[d], x.shape[d], scales[d] if scales else 0.0, coordinate_mode, part)
        if antialias and mode != "nearest":
            require(
                a.known > 0,
                f"antialias: dimension {d} of {x.shape[d]} elements becomes "
                f"{new[d]}; the scale has to be a number that is known",
            )
            if a.known < 1:
                cubic = mode == "cubic"
                kernel = _tent if not cubic else lambda v: _cubic_kernel(v, cubic_coeff)
                moved = _filtered(moved, d, a, kernel, 1 + cubic, exclude_outside, blank)
                continue

        def taps(i: Expr, a: _Axis = a) -> list[tuple[Expr, Expr | None]]:
            if mode == "nearest":
                return _nearest(a, i, nearest_mode)
            if mode == "cubic":
                weights = functools.partial(cubic_weights, c=cubic_coeff)
                return _mixed(a, i, weights, exclude_outside)
            return _mixed(a, i, lambda t: [1.0 - t, t], True) if exclude_outside else _linear(a, i)

        moved = _along(moved, d, a, taps, blank)
    if moved is x:
        return tensor(x.shape, lambda *i: x[i], "resize")
    return _narrowed(moved, x.dtype)


def _source(
    n: int, size: int, extent: int, scale: float, mode: str, roi: tuple[float, float], length: float
) -> np.float32:
    """Where place n of the result lies in the operand, in float32; length is the size before it was
    rounded down."""
    f = np.float32
    x, s = f(n), f(scale)
    if mode == "asymmetric":
        return x / s
    if mode == "align_corners":
        return f(0) if length == 1 else x * f(extent - 1) / max(f(length - 1), f(1))
    if mode == "tf_crop_and_resize":
        a, b = roi
        if length == 1:
            return f(0.5 * (a + b) * (extent - 1))
        return f(a * (extent - 1) + x * (b - a) * (extent - 1) / max(length - 1, 1))
    if mode == "pytorch_half_pixel" and size == 1:
        return f(0)
    half = (x + f(0.5)) / s - f(0.5)
    if mode == "half_pixel_symmetric":
        return f(half + extent / 2 * (1 - size / length))
    return half


def _nearest_array(x: float, how: str) -> int:
    return {
        "floor": math.floor(x), "ceil": math.ceil(x), "round_prefer_floor": math.ceil(x - 0.5),
        "round_prefer_ceil": math.floor(x + 0.5),
    }[how]  # fmt: skip


def tap_weights(
    x: float, mode: str, a: float = -0.75, stretch: float = 1.0
) -> list[tuple[int, float]]:
    """The elements a coordinate is mixed from, some perhaps outside the operand.

    stretch  how many times as far as without antialias the weights reach
    """
    reach = 1 if mode == "linear" else 2

    def weight(v: float) -> float:
        if mode == "linear":
            return max(1 - v, 0)
        if v <= 1:
            return ((a + 2) * v - (a + 3)) * v * v + 1
        return ((a * v - 5 * a) * v + 8 * a) * v - 4 * a if v < 2 else 0.0

    first, last = math.floor(x - reach * stretch), math.ceil(x + reach * stretch)
    near = [(i, abs(i - x) / stretch) for i in range(first, last + 1)]
    return [(i, weight(v)) for i, v in near if v < reach]


@resize.numpy
def _(
    x: Array, *, sizes: Sequence[int], scales: Sequence[float], mode: str, coordinate_mode: str,
    nearest_mode: str, cubic_coeff: float, exclude_outside: bool, extrapolation_value: float,
    roi: Sequence[float], antialias: bool,
) -> Array:  # fmt: skip
    """A matrix of weights for every dimension, applied one after the other."""
    y = x if mode == "nearest" else widened(x.astype(np.float32) if x.dtype.kind in "iu" else x)
    for d, (size, extent) in enumerate(zip(sizes, x.shape, strict=True)):
        scale = scales[d] if scales else size / extent
        part = (roi[d], roi[x.ndim + d]) if roi else (0.0, 1.0)
        lines = []
        for n in range(size):
            length = scale * extent if scales else size
            at = float(_source(n, size, extent, scale, coordinate_mode, part, length))
            if coordinate_mode == "tf_crop_and_resize" and not 0 <= at <= extent - 1:
                line = np.full_like(np.take(y, 0, d), extrapolation_value)
            elif mode == "nearest":
                where = min(max(_nearest_array(at, nearest_mode), 0), extent - 1)
                line = np.take(y, where, d)
            else:
                stretch = max(1 / scale, 1) if antialias else 1
                taps = tap_weights(at, mode, cubic_coeff, stretch)
                if exclude_outside:
                    taps = [(i, w) for i, w in taps if 0 <= i < extent]
                total = sum([w for _, w in taps]) if exclude_outside or stretch > 1 else 1.0
                line = sum([
                    np.take(y, min(max(i, 0), extent - 1), d) * y.dtype.type(w / total)
                    for i, w in taps
                ])  # fmt: skip
            lines.append(line)
        y = np.stack(lines, d)
    if x.dtype.kind in "iu":
        info = np.iinfo(x.dtype)
        y = np.clip(np.trunc(y), info.min, info.max)
    return y.astype(x.dtype)


def _narrowed(x: Tensor, dtype: str) -> Tensor:
    """x in the type of the result; integers are held in their range."""
    if x.dtype == dtype or dt.is_float(dtype):
        return stored(x, dtype)
    low, high = [cast(x.dtype, v) for v in (min_value(dtype), max_value(dtype))]
    return tensor(
        x.shape, lambda *i: cast(dtype, maximum(minimum(x[i], high), low)), "resize_narrow"
    )
