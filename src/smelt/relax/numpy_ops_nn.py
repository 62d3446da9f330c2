"""The operators in numpy: products, convolution, pooling, normalisation, attention."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from smelt.ir.dtype import to_numpy

from .numpy_ops import NUMPY_OPS, Array, Index, numpy_op, softmax, summed, widened


@numpy_op
def matmul(a: Array, b: Array, *, transpose_a: bool, transpose_b: bool, out_dtype: str) -> Array:
    """numpy's product; vectors are not transposed."""
    left, right = summed(a, out_dtype), summed(b, out_dtype)
    left = np.swapaxes(left, -1, -2) if transpose_a and a.ndim > 1 else left
    right = np.swapaxes(right, -1, -2) if transpose_b and b.ndim > 1 else right
    return np.asarray(np.matmul(left, right)).astype(_stored(a, out_dtype))


def _stored(x: Array, out_dtype: str) -> np.dtype[Any]:
    return to_numpy(out_dtype) if out_dtype else x.dtype


# ---------------------------------------------------------------------------------- convolution


def _padded(x: Array, pads: Sequence[int], value: float) -> Array:
    rank = x.ndim - 2
    border = list(zip(pads[:rank], pads[rank:], strict=True)) if pads else [(0, 0)] * rank
    return np.pad(x, [(0, 0), (0, 0), *border], constant_values=value)


def _taps(
    x: Array, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], Array]]:
    """For every element of the kernel: its place and the part of the padded image it meets."""
    rank = len(kernel)
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    size = [
        (h - d * (k - 1) - 1) // s + 1
        for h, k, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True)
    ]
    for place in itertools.product(*map(range, kernel)):
        cut = [
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(place, dilations, size, strides, strict=True)
        ]
        yield place, x[(slice(None), slice(None), *cut)]


def _conv(
    x: Array, w: Array, *, strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int],
    groups: int, out_dtype: str,
) -> Array:  # fmt: skip
    """Every kernel element's product with the image moved under it, summed."""
    image, filters = _padded(summed(x, out_dtype), pads, 0), summed(w, out_dtype)
    o, per = w.shape[0] // groups, w.shape[1]
    parts = []
    for g in range(groups):
        own = filters[g * o : (g + 1) * o]
        total: Array | None = None
        for place, part in _taps(image, w.shape[2:], strides, dilations):
            seen = part[:, g * per : (g + 1) * per]
            at: Index = (..., *place)
            one = np.einsum("nc...,oc->no...", seen, own[at])
            total = one if total is None else total + one
        assert total is not None
        parts.append(total)
    return np.concatenate(parts, 1).astype(_stored(x, out_dtype))


NUMPY_OPS.update({"conv1d": _conv, "conv2d": _conv, "conv3d": _conv})


@numpy_op
def conv_transpose(
    x: Array, w: Array, *, strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int],
    output_padding: Sequence[int], groups: int, out_dtype: str,
) -> Array:  # fmt: skip
    """Every pixel stamps the kernel, times its value, on the result."""
    rank = x.ndim - 2
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    pads, extra = pads or (0,) * (2 * rank), output_padding or (0,) * rank
    kernel, o, per = w.shape[2:], w.shape[1], w.shape[0] // groups
    full = [
        (h - 1) * s + d * (k - 1) + 1 + e
        for h, s, d, k, e in zip(x.shape[2:], strides, dilations, kernel, extra, strict=True)
    ]
    image, filters = summed(x, out_dtype), summed(w, out_dtype)
    out = np.zeros((x.shape[0], o * groups, *full), image.dtype)
    for g, place in itertools.product(range(groups), itertools.product(*map(range, kernel))):
        cut = [
            slice(t * d, t * d + max(0, (h - 1) * s + 1), s)
            for t, d, h, s in zip(place, dilations, x.shape[2:], strides, strict=True)
        ]
        at: Index = (slice(g * per, (g + 1) * per), slice(None), *place)
        own = filters[at]
        part = np.einsum("nc...,co->no...", image[:, g * per : (g + 1) * per], own)
        out[(slice(None), slice(g * o, (g + 1) * o), *cut)] += part
    keep = [slice(b, n - e) for b, e, n in zip(pads[:rank], pads[rank:], full, strict=True)]
    return out[(slice(None), slice(None), *keep)].astype(_stored(x, out_dtype))


# -------------------------------------------------------------------------------------- pooling


@numpy_op
def max_pool(
    x: Array, *, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int],
    dilations: Sequence[int],
) -> Array:  # fmt: skip
    """The largest element under the window."""
    low = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    windows = [part for _, part in _taps(_padded(x, pads, low), kernel, strides, dilations)]
    return np.asarray(np.max(np.stack(windows), axis=0))


@numpy_op
def avg_pool(
    x: Array, *, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int],
    dilations: Sequence[int], count_include_pad: bool,
) -> Array:  # fmt: skip
    """The sum under the window over the number of elements that count."""
    narrow = x.dtype.kind in "iu" and x.dtype.itemsize < 4
    wide = x.astype(np.int32) if narrow else widened(x)
    image = _padded(wide, pads, 0)
    ones = _padded(np.ones_like(wide), pads, 1 if count_include_pad else 0)
    total = sum([part for _, part in _taps(image, kernel, strides, dilations)])
    count = sum([part for _, part in _taps(ones, kernel, strides, dilations)])
    if x.dtype.kind in "iu":
        return np.trunc(total / np.maximum(count, 1)).astype(x.dtype)
    return np.asarray(total / np.maximum(count, 1)).astype(x.dtype)


@numpy_op
def lp_pool(
    x: Array, *, kernel: Sequence[int], p: float, strides: Sequence[int], pads: Sequence[int],
    dilations: Sequence[int],
) -> Array:  # fmt: skip
    """The root of the sum of powers under the window."""
    powers = np.abs(_padded(widened(x), pads, 0)) ** p
    total = sum([part for _, part in _taps(powers, kernel, strides, dilations)])
    return np.asarray(total ** (1 / p)).astype(x.dtype)


@numpy_op
def max_pool_with_indices(
    x: Array, *, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int],
    dilations: Sequence[int], column_major: bool,
) -> tuple[Array, Array]:  # fmt: skip
    """The largest element under the window, and its number in a tensor that counts."""
    low = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    image = x.shape[2:][::-1] if column_major else x.shape[2:]
    numbers = np.arange(x.size).reshape(*x.shape[:2], *image)
    if column_major:
        numbers = numbers.transpose(0, 1, *reversed(range(2, x.ndim)))
    parts = [
        np.stack([part for _, part in _taps(_padded(v, pads, border), kernel, strides, dilations)])
        for v, border in ((x, low), (numbers, -1))
    ]
    values = np.where(parts[1] < 0, low, parts[0])
    best = values.max(0)
    # of equal elements the first that is no border's
    first = np.argmax((values == best) & (parts[1] >= 0), 0)
    return best.astype(x.dtype), np.take_along_axis(parts[1], first[None], 0)[0]


def _pixels(x: Array) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


# ---------------------------------------------------------------------------------- normalisation


def _per_channel(v: Array, rank: int) -> Array:
    return widened(v).reshape(-1, *[1] * (rank - 2))


def _standard(w: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    mean = np.mean(w, axis=axes, keepdims=True)
    var = np.mean((w - mean) ** 2, axis=axes, keepdims=True)
    result: Array = (w - mean) / np.sqrt(var + w.dtype.type(epsilon))
    return result


@numpy_op
def batch_norm(
    x: Array, scale: Array, bias: Array, mean: Array, var: Array, *, epsilon: float
) -> Array:
    """(x - mean) / sqrt(var + epsilon) * scale + bias."""
    s, b, m, v = [_per_channel(t, x.ndim) for t in (scale, bias, mean, var)]
    w = widened(x)
    return np.asarray((w - m) / np.sqrt(v + v.dtype.type(epsilon)) * s + b).astype(x.dtype)


@numpy_op
def layer_norm(
    x: Array, scale: Array, bias: Array | None = None, *, axis: int, epsilon: float
) -> Array:
    """Mean 0 and variance 1 over the last dimensions."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    y = _standard(widened(x), axes, epsilon) * widened(scale)
    return (y if bias is None else y + widened(bias)).astype(x.dtype)


@numpy_op
def rms_norm(x: Array, scale: Array, *, axis: int, epsilon: float) -> Array:
    """Mean square 1 over the last dimensions."""
    w = widened(x)
    axes = tuple(range(axis % x.ndim, x.ndim))
    square = np.mean(w * w, axis=axes, keepdims=True)
    y = w / np.sqrt(square + w.dtype.type(epsilon)) * widened(scale)
    return np.asarray(y).astype(x.dtype)


@numpy_op
def instance_norm(x: Array, scale: Array, bias: Array, *, epsilon: float) -> Array:
    """Mean 0 and variance 1 in each image's channel."""
    y = _standard(widened(x), _pixels(x), epsilon)
    return (y * _per_channel(scale, x.ndim) + _per_channel(bias, x.ndim)).astype(x.dtype)


@numpy_op
def group_norm(x: Array, scale: Array, bias: Array, *, groups: int, epsilon: float) -> Array:
    """Mean 0 and variance 1 in each group of channels."""
    y = widened(x).reshape(x.shape[0], groups, -1)
    y = _standard(y, (2,), epsilon).reshape(x.shape)
    return (y * _per_channel(scale, x.ndim) + _per_channel(bias, x.ndim)).astype(x.dtype)


@numpy_op
def lrn(x: Array, *, size: int, alpha: float, beta: float, bias: float) -> Array:
    """x over a power of the squares in neighbouring channels."""
    w = widened(x)
    total = np.zeros_like(w)
    for c in range(x.shape[1]):
        begin = max(0, c - (size - 1) // 2)
        end = min(x.shape[1], c + math.ceil((size - 1) / 2) + 1)
        total[:, c] = np.sum(w[:, begin:end] ** 2, axis=1)
    return (w / (bias + alpha / size * total) ** beta).astype(x.dtype)


@numpy_op
def lp_norm(x: Array, *, axis: int, p: int) -> Array:
    """x over its norm; 0 where that is 0."""
    w = widened(x)
    norm = np.sum(np.abs(w) ** p, axis=axis, keepdims=True) ** (1 / p)
    return np.where(norm == 0, 0, w / np.where(norm == 0, 1, norm)).astype(x.dtype)


@numpy_op
def attention(q: Array, k: Array, v: Array, mask: Array | None = None, *, scale: float) -> Array:
    """softmax(q k^T * scale + mask) v."""
    scores = np.matmul(widened(q), np.swapaxes(widened(k), -1, -2)) * widened(q).dtype.type(scale)
    if mask is not None:
        added = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else widened(mask)
        scores = scores + added.astype(scores.dtype)
    return np.asarray(np.matmul(softmax(scores, axis=-1), widened(v))).astype(q.dtype)
