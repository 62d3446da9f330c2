"""Convolutions with 3 x 3 filters by fewer products: Winograd's algorithm.

A tile of m x m results is A' [(G g G') * (B' d B)] A, where g is a filter, d are the pixels under
the tile, n = m + 2 to a side, and * multiplies element by element, summed over channels: n^2
products in place of 9 m^2. All tiles together are n^2 products of matrices, tiles by channels and
channels by filters.

A, B and G interpolate polynomials at n - 1 points and infinity. Points near zero keep rounding
small: sums over 256 channels are off by 0.6 (m = 2) and 2 times (m = 4) what adding the products
one by one is off by.

Of bytes, tiles of m = 2 are exact: B is of 0 and 1, twice G of integers below 3, so that pixels and
filters of 16 bits and sums of 32 hold four times the result.

Source   S. Winograd, Arithmetic Complexity of Computations, 1980; A. Lavin, S. Gray, Fast
         Algorithms for Convolutional Neural Networks, 2015
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

from smelt.ir.build import ceildiv, value_of
from smelt.ir.expr import Expr, cast
from smelt.ir.types import TensorType
from smelt.te.tensor import Tensor, reduce_axis

from . import common
from .conv import Window, outside
from .dot import both, filled, sums_bytes
from .registry import Attrs, get_op

Matrix = tuple[tuple[float, ...], ...]

_TAPS = 3
_POINTS = {
    2: (0, 1, -1),
    4: (0, Fraction(3, 4), Fraction(-3, 4), Fraction(3, 2), Fraction(-3, 2)),
}  # fmt: skip
"""Where the polynomials of a tile of m results to a side are interpolated."""


@cache
def _matrices(m: int) -> tuple[Matrix, Matrix, Matrix]:
    """A' [m, n], G [n, 3] and B' [n, n] for n = m + 2."""
    points = [Fraction(p) for p in _POINTS[m]]
    back = [[p**i for p in points] + [Fraction(i == m - 1)] for i in range(m)]
    filters, pixels = [], []
    for p in points:
        others = [q for q in points if q != p]
        scale = Fraction(1)
        for q in others:
            scale *= p - q
        filters.append([p**k / scale for k in range(_TAPS)])
        pixels.append([*_coefficients(others), Fraction(0)])
    filters.append([Fraction(k == _TAPS - 1) for k in range(_TAPS)])
    pixels.append(_coefficients(points))
    return _floats(back), _floats(filters), _floats(pixels)


def _coefficients(roots: Sequence[Fraction]) -> list[Fraction]:
    """Of the product of (x - root), the lowest power first."""
    found = [Fraction(1)]
    for r in roots:
        found = [
            a - r * b for a, b in zip([Fraction(0), *found], [*found, Fraction(0)], strict=True)
        ]
    return found


def _floats(rows: Sequence[Sequence[Fraction]]) -> Matrix:
    return tuple([tuple(map(float, row)) for row in rows])


def _fits(types: Sequence[TensorType | None], attrs: Attrs) -> bool:
    """Whether a convolution has 3 x 3 filters that move by one pixel, for all channels."""
    _, w = both(types)
    window = (attrs["groups"], *(attrs["strides"] or (1,)), *(attrs["dilations"] or (1,)))
    square = [value_of(e) for e in w.shape[2:]] == [_TAPS, _TAPS]
    return square and set(window) == {1}


def _fits_floats(types: Sequence[TensorType | None], attrs: Attrs) -> bool:
    return _fits(types, attrs) and both(types)[0].dtype == "float32" and not attrs["out_dtype"]


_CHANNELS = 1800
"""As many as there may be for int32 to hold four times the sums of products of bytes."""


def _fits_bytes(types: Sequence[TensorType | None], attrs: Attrs) -> bool:
    _, w = both(types)
    few = (value_of(w.shape[1]) or _CHANNELS + 1) <= _CHANNELS
    return few and _fits(types, attrs) and sums_bytes(types, attrs)


def _times(row: Sequence[float], values: Sequence[Expr]) -> Expr:
    """The sum of a row of a matrix times values."""
    parts = [
        v if f == 1 else v * common.number(f, v.dtype)
        for f, v in zip(row, values, strict=True)
        if f
    ]
    return sum(parts[1:], parts[0])


def _chosen(k: Expr, matrix: Matrix, values: Sequence[Expr]) -> Expr:
    """Row k of a matrix times values."""
    return common.pick(k, [_times(row, values) for row in matrix])


def _enter(m: int, group: int = 0) -> None:
    """Another body of convolutions, for tiles of m results to a side; group: of bytes."""

    def body(x: Tensor, w: Tensor, **attrs: Any) -> Tensor:
        return _winograd(x, w, m, group, attrs)

    body.__name__ = f"winograd{m}{'_pairs' * (group > 0)}"
    get_op("conv2d").implements(_fits_bytes if group else _fits_floats)(body)


class _Sums:
    """How products are summed: floats one after another; integers in groups, which are the last
    dimension of the filters, and filled up with zeros.

    group  so many integers at once; 0: floats
    to     the type of pixels and filters
    """

    def __init__(self, x: Tensor, group: int) -> None:
        self.group, self.depth, self.each = group, x.shape[1], max(1, group)
        self.to = "int16" if group else x.dtype
        self.groups = ceildiv(self.depth, self.each)

    def filled(self, inside: list[Expr], value: Expr, c: Expr, other: Expr | None = None) -> Expr:
        """A value; another one (None: 0) where a condition does not hold, and behind the last
        channel."""
        return filled(inside, value, self.depth, self.each, c, other)

    def filters(self, w: Tensor, forth: Matrix) -> Tensor:
        """G g G' for all filters: [n, n, o, c], or [n, n, c / group, o, group]."""

        def made(i: Expr, j: Expr, o: Expr, c: Expr) -> Expr:
            taps = [[cast(self.to, w[o, c, a, b]) for b in range(_TAPS)] for a in range(_TAPS)]
            value = _chosen(i, forth, [_chosen(j, forth, row) for row in taps])
            return self.filled([], value, c)

        n = len(forth)
        if not self.group:
            return common.tensor((n, n, *w.shape[:2]), made, "filters")
        return common.tensor(
            (n, n, self.groups, w.shape[0], self.group),
            lambda i, j, g, o, e: made(i, j, o, g * self.group + e),
            "filters",
        )

    def products(self, pixels: Tensor, filters: Tensor, outputs: Expr) -> Tensor:
        """Pixels times filters, summed over channels."""
        ic, e = reduce_axis((0, self.groups), "ic"), reduce_axis((0, self.each), "e")

        def product(i: Expr, j: Expr, t: Expr, o: Expr) -> Expr:
            if not self.group:
                return pixels[i, j, t, ic.var] * filters[i, j, o, ic.var]
            seen = pixels[i, j, t, ic.var * self.group + e.var]
            return cast("int32", seen) * cast("int32", filters[i, j, ic.var, o, e.var])

        axes = [ic, e] if self.group else [ic]
        return common.sum_over((*pixels.shape[:3], outputs), product, axes, "products")


def _winograd(x: Tensor, w: Tensor, m: int, group: int, attrs: Attrs) -> Tensor:
    """See the module; tiles are numbered image by image, row by row.

    group  so many channels are summed at once, of integers; 0: of floats, one after another
    """
    back, forth, under = _matrices(m)
    if group:
        forth = tuple([tuple([2 * v for v in row]) for row in forth])
    sums, n = _Sums(x, group), m + _TAPS - 1
    window = Window(2, w.shape[2:], attrs["strides"], attrs["pads"], attrs["dilations"])
    size, border = window.result(x.shape[2:]), outside(x.dtype, attrs["border"])
    high, wide = [(e + (m - 1)) // m for e in size]
    tiles = x.shape[0] * high * wide

    def pixel(a: Expr, k: Expr, t: Expr, c: Expr) -> Expr:
        at = [t // wide % high * m + a - window.begin[0], t % wide * m + k - window.begin[1]]
        inside = [v < h for v, h in zip(at, x.shape[2:], strict=True)]
        inside += [v >= 0 for v, p in zip(at, window.begin, strict=True) if p]
        seen = cast(sums.to, x[t // (high * wide), c, at[0], at[1]])
        return sums.filled(inside, seen, c, cast(sums.to, border))

    filters = sums.filters(w, forth)
    shape = (n, n, tiles, sums.groups * sums.each)
    patch = common.tensor(shape, pixel, "patch")
    columns = common.tensor(
        shape,
        lambda i, k, t, c: _chosen(i, under, [patch[a, k, t, c] for a in range(n)]),
        "columns",
    )
    pixels = common.tensor(
        shape,
        lambda i, j, t, c: _chosen(j, under, [columns[i, k, t, c] for k in range(n)]),
        "pixels",
    )
    products = sums.products(pixels, filters, w.shape[0])
    rows = common.tensor(
        (m, n, tiles, w.shape[0]),
        lambda r, j, t, o: _chosen(r, back, [products[i, j, t, o] for i in range(n)]),
        "rows",
    )

    def result(b: Expr, o: Expr, y: Expr, u: Expr) -> Expr:
        t = (b * high + y // m) * wide + u // m
        made = _chosen(u % m, back, [rows[y % m, j, t, o] for j in range(n)])
        return made >> 2 if group else made

    return common.tensor((x.shape[0], w.shape[0], *size), result, "conv")


for _m in _POINTS:
    _enter(_m)
_enter(2, group=2)
