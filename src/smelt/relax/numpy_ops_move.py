"""The operators in numpy: data movement, gathering and scattering, resizing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from smelt.ir.dtype import to_numpy

from .numpy_ops import NUMPY_OPS, Array, Index, numpy_op, widened

NUMPY_OPS.update({
    "reshape": lambda x, shape: np.reshape(x, shape),
    "transpose": lambda x, axes: np.transpose(x, axes),
    "expand_dims": lambda x, axes: np.expand_dims(x, axes),
    "squeeze": lambda x, axes: np.squeeze(x, axes),
    "broadcast_to": lambda x, shape: np.broadcast_to(x, np.broadcast_shapes(x.shape, shape)),
    "concat": lambda *xs, axis: np.concatenate(xs, axis),
    "flip": lambda x, axes: np.flip(x, axes),
    "tile": lambda x, repeats: np.tile(x, repeats),
})  # fmt: skip


def _slice(
    rank: int, axes: Sequence[int], begin: Sequence[int], end: Sequence[int],
    strides: Sequence[int] | None,
) -> Index:  # fmt: skip
    """A basic slice; end -1 under a negative stride runs through element 0."""
    cut = [slice(None)] * rank
    for a, b, e, s in zip(axes, begin, end, strides or (1,) * len(axes), strict=True):
        cut[a] = slice(b, None if e < 0 else e, s)
    return tuple(cut)


@numpy_op
def strided_slice(
    x: Array, *, axes: Sequence[int], begin: Sequence[int], end: Sequence[int],
    strides: Sequence[int] | None,
) -> Array:  # fmt: skip
    """A basic slice."""
    return x[_slice(x.ndim, axes, begin, end, strides)]


@numpy_op
def strided_set(
    x: Array, v: Array, *, axes: Sequence[int], begin: Sequence[int], end: Sequence[int],
    strides: Sequence[int] | None,
) -> Array:  # fmt: skip
    """A basic slice written."""
    out = x.copy()
    out[_slice(x.ndim, axes, begin, end, strides)] = v
    return out


@numpy_op
def dilate(x: Array, *, strides: Sequence[int], value: float) -> Array:
    """Every stride-th element written."""
    shape = [(n - 1) * s + 1 for n, s in zip(x.shape, strides, strict=True)]
    out = np.full(shape, value, x.dtype)
    out[tuple([slice(None, None, s) for s in strides])] = x
    return out


@numpy_op
def sliding_window(
    x: Array, *, axis: int, window_shape: Sequence[int], strides: Sequence[int]
) -> Array:
    """numpy's view of all windows, some of which are kept."""
    axis = axis % x.ndim
    axes = tuple(range(axis, x.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(x, tuple(window_shape), axes)
    kept = [slice(None)] * axis + [slice(None, None, s) for s in strides]
    return np.ascontiguousarray(windows[tuple(kept)])


@numpy_op
def pad(x: Array, *, pads: Sequence[int], mode: str, value: float) -> Array:
    """A border, after cutting where numbers are negative."""
    front, back = pads[: x.ndim], pads[x.ndim :]
    cut = [slice(max(-f, 0), n - max(-b, 0)) for f, b, n in zip(front, back, x.shape, strict=True)]
    border = [(max(f, 0), max(b, 0)) for f, b in zip(front, back, strict=True)]
    if mode == "constant":
        return np.pad(x[tuple(cut)], border, constant_values=value)
    kept = np.pad(x, border, mode=mode)  # type: ignore[call-overload]
    skip = [
        slice(max(-f, 0), n - max(-b, 0)) for f, b, n in zip(front, back, kept.shape, strict=True)
    ]
    return np.asarray(kept[tuple(skip)])


@numpy_op
def depth_to_space(x: Array, *, block: int, mode: str) -> Array:
    """Channels to pixels."""
    n, depth, h, w = x.shape
    c = depth // block**2
    if mode == "DCR":
        y = x.reshape(n, block, block, c, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        y = x.reshape(n, c, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
    return y.reshape(n, c, h * block, w * block)


@numpy_op
def space_to_depth(x: Array, *, block: int, mode: str) -> Array:
    """Pixels to channels."""
    n, c, h, w = x.shape
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    y = x.reshape(n, c, h // block, block, w // block, block).transpose(order)
    return y.reshape(n, c * block**2, h // block, w // block)


@numpy_op
def diagonal(x: Array, *, axes: tuple[int, int]) -> Array:
    """Elements with two equal indices."""
    first, second = (a % x.ndim for a in axes)
    return np.moveaxis(np.diagonal(x, 0, first, second), -1, first - (second < first))


@numpy_op
def trilu(x: Array, *, k: int, upper: bool) -> Array:
    """A triangle."""
    return np.triu(x, k) if upper else np.tril(x, k)


# ----------------------------------------------------------------------------- chosen by indices


def _cut(indices: Array, extent: int) -> Array:
    at = indices.astype(np.int64)
    return np.clip(np.where(at < 0, at + extent, at), 0, extent - 1)


@numpy_op
def gather(x: Array, indices: Array, *, axis: int, mode: str) -> Array:
    """Slices."""
    if mode == "negative":
        return np.take(x, _cut(indices, x.shape[axis]), axis)
    return np.take(x, indices.astype(np.int64), axis, mode=mode)  # type: ignore[call-overload,no-any-return]


@numpy_op
def gather_elements(x: Array, indices: Array, *, axis: int) -> Array:
    """Elements, one place at a time."""
    grid: list[Array] = list(np.indices(indices.shape))
    grid[axis] = _cut(indices, x.shape[axis])
    return np.asarray(x[tuple(grid)])


@numpy_op
def gather_nd(x: Array, indices: Array, *, batch_dims: int) -> Array:
    """Slices named by rows."""
    b, depth = batch_dims, indices.shape[-1]
    out = np.empty((*indices.shape[:-1], *x.shape[b + depth :]), x.dtype)
    for place in np.ndindex(*indices.shape[:-1]):
        row = [int(_cut(v, n)) for v, n in zip(indices[place], x.shape[b:], strict=False)]
        out[place] = x[(*place[:b], *row)]
    return out


@numpy_op
def one_hot(
    indices: Array, *, depth: int, axis: int, on_value: float, off_value: float, dtype: str
) -> Array:
    """on_value at the index along a new dimension."""
    axis = axis % (indices.ndim + 1)
    wanted = np.where(indices < 0, indices + depth, indices)
    line = np.arange(depth).reshape([-1 if d == axis else 1 for d in range(indices.ndim + 1)])
    hit = np.expand_dims(wanted, axis) == line
    return np.where(hit, on_value, off_value).astype(to_numpy(dtype))


_JOIN: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda _, b: b, "add": np.add, "mul": np.multiply, "min": np.minimum,
    "max": np.maximum,
}  # fmt: skip


@numpy_op
def scatter_elements(
    x: Array, indices: Array, updates: Array, *, axis: int, reduction: str
) -> Array:
    """One update after the other."""
    out = widened(x).copy()
    for place in np.ndindex(*indices.shape):
        at = list(place)
        at[axis] = int(indices[place]) % x.shape[axis]
        out[tuple(at)] = _JOIN[reduction](out[tuple(at)], widened(updates)[place])
    return out.astype(x.dtype)


@numpy_op
def scatter_nd(x: Array, indices: Array, updates: Array, *, reduction: str) -> Array:
    """One row after the other."""
    out = widened(x).copy()
    for place in np.ndindex(*indices.shape[:-1]):
        at = tuple([int(v) % n for v, n in zip(indices[place], x.shape, strict=False)])
        out[at] = _JOIN[reduction](out[at], widened(updates)[place])
    return out.astype(x.dtype)


@numpy_op
def topk(x: Array, *, k: int, axis: int, largest: bool, sorted: bool) -> tuple[Array, Array]:
    """The first k of a stable sort, in which NaN is the largest."""
    key = widened(x)
    if largest:
        back = np.argsort(np.flip(key, axis), axis=axis, kind="stable")
        order = x.shape[axis] - 1 - np.flip(back, axis)
    else:
        order = np.argsort(key, axis=axis, kind="stable")
    at = np.take(order, np.arange(k), axis).astype(np.int64)
    return np.take_along_axis(x, at, axis), at


# -------------------------------------------------------------------------------------- resizing


def _source(
    n: int, size: int, extent: int, scale: float, mode: str, roi: tuple[float, float],
    length: float,
) -> np.float32:  # fmt: skip
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


def _nearest(x: float, how: str) -> int:
    return {
        "floor": math.floor(x), "ceil": math.ceil(x), "round_prefer_floor": math.ceil(x - 0.5),
        "round_prefer_ceil": math.floor(x + 0.5),
    }[how]  # fmt: skip


def _weights(x: float, mode: str, a: float, stretch: float) -> list[tuple[int, float]]:
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


@numpy_op
def resize(
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
                where = min(max(_nearest(at, nearest_mode), 0), extent - 1)
                line = np.take(y, where, d)
            else:
                stretch = max(1 / scale, 1) if antialias else 1
                taps = _weights(at, mode, cubic_coeff, stretch)
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
