"""The operators in numpy: windows of images, their derivatives, and sampling between pixels."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from .numpy_ops import Array, numpy_op, widened

Slices = tuple[slice, ...]


@numpy_op
def dilate(x: Array, *, strides: Sequence[int], value: float) -> Array:
    """x written into every stride-th place."""
    shape = [(n - 1) * s + 1 for n, s in zip(x.shape, strides, strict=True)]
    out = np.full(shape, value).astype(x.dtype)
    out[tuple([slice(None, None, s) for s in strides])] = x
    return out


# -------------------------------------------------------------------------------------- adaptive


def _even(extents: Sequence[int], size: Sequence[int]) -> Iterator[tuple[tuple[int, ...], Slices]]:
    """Every place of the result, and the pixels of its window."""
    for place in np.ndindex(*size):
        yield (
            place,
            tuple(
                [
                    slice(i * h // n, -(-(i + 1) * h // n))
                    for i, h, n in zip(place, extents, size, strict=True)
                ]
            ),
        )


@numpy_op
def adaptive_max_pool(x: Array, *, size: Sequence[int]) -> Array:
    """The largest pixel of each window."""
    out = np.empty((*x.shape[:2], *size), x.dtype)
    for place, window in _even(x.shape[2:], size):
        out[(..., *place)] = x[(slice(None), slice(None), *window)].max(tuple(range(2, x.ndim)))
    return out


@numpy_op
def adaptive_avg_pool(x: Array, *, size: Sequence[int]) -> Array:
    """The mean of each window."""
    w = widened(x)
    out = np.empty((*x.shape[:2], *size), x.dtype)
    for place, window in _even(x.shape[2:], size):
        part = w[(slice(None), slice(None), *window)].reshape(*x.shape[:2], -1)
        mean = part.sum(-1) / part.shape[-1]
        out[(..., *place)] = np.trunc(mean) if x.dtype.kind in "iu" else mean
    return out


# ----------------------------------------------------------------------------------- derivatives


def _windows(
    shape: Sequence[int], size: Sequence[int], kernel: Sequence[int], strides: Sequence[int],
    pads: Sequence[int], dilations: Sequence[int],
) -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...]], int]]:  # fmt: skip
    """Every place of a pooling's result, the pixels of the image in its window in the order of
    memory, and the number of pixels with the padding's."""
    rank = len(kernel)
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    pads = pads or (0,) * (2 * rank)
    for place in np.ndindex(*size):
        lines = [
            [y * s - b + t * d for t in range(k)]
            for y, s, b, d, k in zip(place, strides, pads, dilations, kernel, strict=False)
        ]
        pixels = [
            p
            for p in itertools.product(*lines)
            if all(0 <= v < n for v, n in zip(p, shape, strict=True))
        ]
        yield place, pixels, int(np.prod(kernel))


@numpy_op
def avg_pool_grad(
    grad: Array, x: Array, *, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int],
    dilations: Sequence[int], count_include_pad: bool,
) -> Array:  # fmt: skip
    """Every window's derivative divided among its pixels."""
    g = widened(grad)
    out = np.zeros(x.shape, g.dtype)
    places = _windows(x.shape[2:], grad.shape[2:], kernel, strides, pads, dilations)
    for place, pixels, everything in places:
        count = everything if count_include_pad else max(len(pixels), 1)
        for p in pixels:
            out[(..., *p)] += g[(..., *place)] / g.dtype.type(count)
    return out.astype(x.dtype)


@numpy_op
def max_pool_grad(
    grad: Array, x: Array, *, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int],
    dilations: Sequence[int],
) -> Array:  # fmt: skip
    """Every window's derivative at its first largest pixel."""
    g = widened(grad)
    out = np.zeros(x.shape, g.dtype)
    places = _windows(x.shape[2:], grad.shape[2:], kernel, strides, pads, dilations)
    for place, pixels, _ in places:
        if not pixels:
            continue
        values = np.stack([x[(..., *p)] for p in pixels])
        best = values.argmax(0)
        for k, p in enumerate(pixels):
            out[(..., *p)] += np.where(best == k, g[(..., *place)], 0)
    return out.astype(x.dtype)


@numpy_op
def conv_backward_weight(
    grad: Array, x: Array, *, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int],
    dilations: Sequence[int], groups: int,
) -> Array:  # fmt: skip
    """For every kernel element the image moved under it, times the derivative."""
    rank = len(kernel)
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    pads = pads or (0,) * (2 * rank)
    border = list(zip(pads[:rank], pads[rank:], strict=True))
    image, g = np.pad(widened(x), [(0, 0), (0, 0), *border]), widened(grad)
    size, outputs = grad.shape[2:], grad.shape[1] // groups
    inputs = x.shape[1] // groups
    out = np.zeros((grad.shape[1], inputs, *kernel), g.dtype)
    for place in np.ndindex(*kernel):
        cut = [
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(place, dilations, size, strides, strict=True)
        ]
        seen = image[(slice(None), slice(None), *cut)]
        for k in range(groups):
            o = slice(k * outputs, (k + 1) * outputs)
            c = slice(k * inputs, (k + 1) * inputs)
            # the last dimension of both runs over all places of the result
            one = [t.reshape(*t.shape[:2], -1) for t in (g[:, o], seen[:, c])]
            out[(o, slice(None), *place)] = np.einsum("nop,ncp->oc", *one)
    return out.astype(x.dtype)
