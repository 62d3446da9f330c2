"""The operators in numpy: sparse matrices and tensors, Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from .numpy_ops import Array, numpy_op, widened


def _blocks(data: Array, indices: Array, indptr: Array) -> Iterator[tuple[int, int, Array]]:
    """Row, column and elements of every block."""
    blocks = data.reshape(-1, 1, 1) if data.ndim == 1 else data
    for line in range(indptr.size - 1):
        for e in range(int(indptr[line]), int(indptr[line + 1])):
            yield line * blocks.shape[1], int(indices[e]) * blocks.shape[2], blocks[e]


def _dense(rows: int, columns: int, data: Array, indices: Array, indptr: Array) -> Array:
    out = np.zeros((rows, columns), data.dtype)
    for r, c, block in _blocks(data, indices, indptr):
        out[r : r + block.shape[0], c : c + block.shape[1]] += block
    return out


@numpy_op
def sparse_dense(x: Array, data: Array, indices: Array, indptr: Array) -> Array:
    """x times the transpose of the whole matrix."""
    rows = (indptr.size - 1) * (1 if data.ndim == 1 else data.shape[1])
    whole = _dense(rows, x.shape[1], widened(data), indices, indptr)
    return np.asarray(widened(x) @ whole.T).astype(x.dtype)


@numpy_op
def sparse_add(x: Array, data: Array, indices: Array, indptr: Array) -> Array:
    """x plus the whole matrix."""
    return np.asarray(x + _dense(x.shape[0], x.shape[1], data, indices, indptr), x.dtype)


@numpy_op
def sparse_transpose(
    data: Array, indices: Array, indptr: Array, *, columns: int | None
) -> tuple[Array, Array, Array]:
    """The elements sorted by column."""
    count = indptr.size - 1 if columns is None else columns
    rows = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    order = np.argsort(indices, kind="stable")
    begins = np.searchsorted(indices[order], np.arange(count + 1))
    return data[order], rows[order].astype(indices.dtype), begins.astype(indptr.dtype)


@numpy_op
def sparse_to_dense(
    indices: Array, values: Array, *, shape: Sequence[int], default: float
) -> Array:
    """One value after the other."""
    out = np.full(shape, default, values.dtype)
    places = indices.reshape(-1, 1) if indices.ndim < 2 else indices
    for place, value in zip(places, np.broadcast_to(values, len(places)), strict=True):
        out[tuple(place)] = value
    return out


@numpy_op
def sparse_fill_empty_rows(
    indices: Array, values: Array, default: Array, *, shape: Sequence[int]
) -> tuple[Array, ...]:
    """Row by row."""
    places: list[Array] = []
    kept: list[Array] = []
    empty = np.zeros(shape[0], bool)
    for r in range(shape[0]):
        own = np.flatnonzero(indices[:, 0] == r)
        empty[r] = own.size == 0
        places += [indices[i] for i in own] or [np.array([r] + [0] * (len(shape) - 1))]
        kept += [values[i] for i in own] or [default]
    room = len(values) + shape[0]
    out = np.zeros((room, len(shape)), indices.dtype), np.zeros(room, values.dtype)
    out[0][: len(places)], out[1][: len(kept)] = places, kept
    return *out, empty, np.asarray(len(places), np.int64)


@numpy_op
def sparse_reshape(indices: Array, *, prev_shape: Sequence[int], new_shape: Sequence[int]) -> Array:
    """Through places in row-major order."""
    after = np.zeros(prev_shape, bool).reshape(new_shape).shape
    places = np.ravel_multi_index(tuple(indices.T), tuple(prev_shape))
    return np.stack(np.unravel_index(places, after), 1).astype(indices.dtype)


# ------------------------------------------------------------------------------------- transforms


@numpy_op
def dft(re: Array, im: Array, *, inverse: bool, axis: int) -> tuple[Array, Array]:
    """numpy's fast transform."""
    x = re.astype(np.float64) + 1j * im.astype(np.float64)
    y = np.fft.ifft(x, axis=axis) if inverse else np.fft.fft(x, axis=axis)
    return y.real.astype(re.dtype), y.imag.astype(re.dtype)


@numpy_op
def stft(
    x: Array, window: Array, *, n_fft: int, hop_length: int, normalized: bool, onesided: bool
) -> Array:
    """One frame after the other."""
    wide, weights = x.astype(np.float64), window.astype(np.float64)
    starts = range(0, x.shape[-1] - n_fft + 1, hop_length)
    frames = np.stack([wide[..., s : s + n_fft] * weights for s in starts], -1)
    y = np.fft.rfft(frames, axis=-2) if onesided else np.fft.fft(frames, axis=-2)
    y = y / math.sqrt(n_fft) if normalized else y
    return np.stack([y.real, y.imag], -1).astype(x.dtype)
