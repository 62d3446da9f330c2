"""Convolutions with 3 x 3 filters by fewer products: Winograd's algorithm.

A tile of m x m results is A' [(G g G') * (B' d B)] A, where g is a filter, d are the pixels under
the tile, n = m + 2 to a side, and * multiplies element by element, summed over channels: n^2
products in place of 9 m^2. All tiles together are n^2 products of matrices, tiles by channels and
channels by filters.

A, B and G interpolate polynomials at n - 1 points and infinity. Points near zero keep rounding
small: sums over 256 channels are off by 0.6 (m = 2) and 2 times (m = 4) what adding the products
one by one is off by.

Source   S. Winograd, Arithmetic Complexity of Computations, 1980; A. Lavin, S. Gray, Fast
         Algorithms for Convolutional Neural Networks, 2015
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

from smelt.ir.build import all_of, if_then_else, value_of
from smelt.ir.expr import Expr
from smelt.ir.types import TensorType
from smelt.te.tensor import Tensor, reduce_axis

from . import common
from .conv import Window
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
    x, w = types[:2]
    assert x is not None
    assert w is not None
    window = (attrs["groups"], *(attrs["strides"] or (1,)), *(attrs["dilations"] or (1,)))
    square = [value_of(e) for e in w.shape[2:]] == [_TAPS, _TAPS]
    return square and set(window) == {1} and x.dtype == "float32" and not attrs["out_dtype"]


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


def _enter(m: int) -> None:
    """Another body of convolutions, for tiles of m results to a side."""

    def body(x: Tensor, w: Tensor, **attrs: Any) -> Tensor:
        return _winograd(x, w, m, attrs)

    body.__name__ = f"winograd{m}"
    get_op("conv2d").implements(_fits)(body)


def _winograd(x: Tensor, w: Tensor, m: int, attrs: Attrs) -> Tensor:
    """See the module; tiles are numbered image by image, row by row."""
    back, forth, under = _matrices(m)
    n = m + _TAPS - 1
    window = Window(2, w.shape[2:], attrs["strides"], attrs["pads"], attrs["dilations"])
    size = window.result(x.shape[2:])
    high, wide = [(e + (m - 1)) // m for e in size]
    tiles = x.shape[0] * high * wide
    zero = common.number(0, x.dtype)

    def pixel(a: Expr, k: Expr, t: Expr, c: Expr) -> Expr:
        at = [t // wide % high * m + a - window.begin[0], t % wide * m + k - window.begin[1]]
        inside = [v < h for v, h in zip(at, x.shape[2:], strict=True)]
        inside += [v >= 0 for v, p in zip(at, window.begin, strict=True) if p]
        return if_then_else(all_of(inside), x[t // (high * wide), c, at[0], at[1]], zero)

    ic = reduce_axis((0, x.shape[1]), "ic")
    filters = common.tensor(
        (n, n, w.shape[0], w.shape[1]),
        lambda i, j, o, c: _chosen(
            i,
            forth,
            [_chosen(j, forth, [w[o, c, a, b] for b in range(_TAPS)]) for a in range(_TAPS)],
        ),
        "filters",
    )
    shape = (n, n, tiles, x.shape[1])
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
    products = common.sum_over(
        (n, n, tiles, w.shape[0]),
        lambda i, j, t, o: pixels[i, j, t, ic.var] * filters[i, j, o, ic.var],
        [ic],
        "products",
    )
    rows = common.tensor(
        (m, n, tiles, w.shape[0]),
        lambda r, j, t, o: _chosen(r, back, [products[i, j, t, o] for i in range(n)]),
        "rows",
    )

    def result(b: Expr, o: Expr, y: Expr, u: Expr) -> Expr:
        t = (b * high + y // m) * wide + u // m
        return _chosen(u % m, back, [rows[y % m, j, t, o] for j in range(n)])

    return common.tensor((x.shape[0], w.shape[0], *size), result, "conv")


for _m in _POINTS:
    _enter(_m)
