"""Images: morphological dilation, and the likeness of two images' patches."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from smelt.ir.build import call, if_then_else, value_of
from smelt.ir.expr import INDEX, Expr, ExprLike, cast, const
from smelt.te.tensor import Tensor, min_value, reduce_axis
from smelt.te.tensor import max as te_max

from .common import (
    at_least,
    float_only,
    number,
    require,
    same_dtype,
    stored,
    sum_over,
    take_forms,
    tensor,
    wide,
)
from .conv import Ints, Window, kernel_axes, sliding
from .reference import Array, lowest, padded_image, under_window, widened
from .registry import attributes, op


@op
@attributes(**sliding(2))
def dilation2d(x: Tensor, w: Tensor, **given: Ints) -> Tensor:
    """The largest sum of a pixel and the kernel element that lies on it; the border never counts.

    Shapes   x [n, c, h, w]; w [c, kh, kw]; result [n, c, oh, ow], extents as in conv2d
    Units    strides, pads (top, left, bottom, right) and dilations in pixels
    """
    same_dtype(x=x, w=w)
    take_forms("[n, c, h, w]", "[c, kh, kw]", x=x, w=w)
    window = Window(2, w.shape[1:], **given)
    size = window.result(x.shape[2:])
    taps = kernel_axes(w.shape[1:])

    def body(n: Expr, c: Expr, *y: Expr) -> Any:
        k = [t.var for t in taps]
        at = window.place(y, k)
        value = x[(n, c, *at)] + w[(c, *k)]
        inside = window.guards(at, x.shape[2:])
        return te_max(if_then_else(inside, value, min_value(x.dtype)), taps)

    return tensor((*x.shape[:2], *size), body, "dilation2d")


@dilation2d.numpy
def _(x: Array, w: Array, **given: Any) -> Array:
    """The largest sum of a pixel and the kernel's element; the border never counts."""
    window = {"kernel": w.shape[1:], **given}
    pixels = under_window(widened(x), 0, **window)
    inside = under_window(np.ones(x.shape, bool), False, **window)
    elements = widened(w).reshape(w.shape[0], -1).T[:, None, :, None, None]
    return np.asarray(np.where(inside, pixels + elements, lowest(x)).max(0)).astype(x.dtype)


@op
def correlation(
    a: Tensor, b: Tensor, *, kernel_size: int = 1, max_displacement: int = 1, stride1: int = 1,
    stride2: int = 1, pads: tuple[int, ...] = (0, 0, 0, 0), is_multiply: bool = True,
) -> Tensor:  # fmt: skip
    """For every patch of a and every displacement the mean product with that patch of b, or the
    mean distance from it.

    Shapes   a and b [n, c, h, w]; result [n, d * d, oh, ow] with
             d = 2 * (max_displacement // stride2) + 1, down then right, and
             oh = ceil((h + top + bottom - 2 * (max_displacement + kernel_size // 2)) / stride1)
    Units    all in pixels; kernel_size is odd, pads are (top, left, bottom, right)
    """
    dtype = same_dtype(a=a, b=b)
    float_only(a, "a")
    take_forms("[n, c, h, w]", "[n, c, h, w]", a=a, b=b)
    require(
        kernel_size >= 1 and kernel_size % 2 == 1,
        f"kernel_size={kernel_size}; it has to be odd and positive",
    )
    at_least(0, max_displacement=max_displacement)
    window = Window(2, (kernel_size,) * 2, (stride1,) * 2, pads, None)
    at_least(1, stride2=stride2)
    border, reach = max_displacement + kernel_size // 2, max_displacement // stride2
    across = 2 * reach + 1
    size = []
    for d, e in enumerate(a.shape[2:]):
        room = e + (window.begin[d] + window.end[d] - 2 * border)
        known = value_of(room)
        require(
            known is None or known >= 1,
            f"spatial dimension {d}: patches and displacements cover {2 * border} pixels around a "
            f"pixel, the padded image has {(known or 0) + 2 * border}",
        )
        size.append((room + (stride1 - 1)) // stride1)
    images = [window.pad(t, number(0, dtype)) for t in (a, b)]
    sizes: dict[str, ExprLike] = {"c": a.shape[1], "kh": kernel_size, "kw": kernel_size}
    axes = [reduce_axis((0, e), name) for name, e in sizes.items()]
    to = wide(dtype)

    def body(n: Expr, q: Expr, *y: Expr) -> Expr:
        c, *k = [t.var for t in axes]
        here = [v * stride1 + max_displacement + t for v, t in zip(y, k, strict=True)]
        moves = [q // across - reach, q % across - reach]
        there = [v + m * stride2 for v, m in zip(here, moves, strict=True)]
        left, right = [
            cast(to, t[(n, c, *at)]) for t, at in zip(images, (here, there), strict=True)
        ]
        return left * right if is_multiply else call("abs", left - right)

    shape = (a.shape[0], const(across * across, INDEX), *size)
    total = sum_over(shape, body, axes, "correlation_sum")
    count = cast(to, a.shape[1] * (kernel_size * kernel_size))
    return stored(tensor(shape, lambda *i: total[i] / count, "correlation"), dtype)


@correlation.numpy
def _(
    a: Array, b: Array, *, kernel_size: int, max_displacement: int, stride1: int, stride2: int,
    pads: Sequence[int], is_multiply: bool,
) -> Array:  # fmt: skip
    """Patch by patch."""
    left, right = [padded_image(t.astype(np.float64), pads, 0) for t in (a, b)]
    edge, reach = max_displacement + kernel_size // 2, max_displacement // stride2
    size = [-(-(n - 2 * edge) // stride1) for n in left.shape[2:]]
    moves = list(itertools.product(range(-reach, reach + 1), repeat=2))
    out = np.zeros((a.shape[0], len(moves), *size), np.float64)
    for q, (dy, dx) in enumerate(moves):
        for i, j in np.ndindex(*size):
            y, x = i * stride1 + max_displacement, j * stride1 + max_displacement
            v, u = y + dy * stride2, x + dx * stride2
            p = left[:, :, y : y + kernel_size, x : x + kernel_size]
            o = right[:, :, v : v + kernel_size, u : u + kernel_size]
            out[:, q, i, j] = (p * o if is_multiply else np.abs(p - o)).mean((1, 2, 3))
    return out.astype(a.dtype)
