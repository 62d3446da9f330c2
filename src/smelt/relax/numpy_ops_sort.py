"""The operators in numpy: sorting, searching, sets, sequences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smelt.ir.dtype import to_numpy

from .numpy_ops import Array, numpy_op, widened


def _order(x: Array, axis: int, descending: bool) -> Array:
    """Stable; turned round twice where the largest element comes first."""
    w = widened(x)
    if not descending:
        return np.argsort(w, axis=axis, kind="stable")
    back = np.argsort(np.flip(w, axis), axis=axis, kind="stable")
    return np.asarray(x.shape[axis] - 1 - np.flip(back, axis))


@numpy_op
def argsort(x: Array, *, axis: int, descending: bool, dtype: str) -> Array:
    """The order of the elements."""
    return _order(x, axis, descending).astype(to_numpy(dtype))


@numpy_op
def sort(x: Array, *, axis: int, descending: bool) -> Array:
    """The elements in order."""
    return np.take_along_axis(x, _order(x, axis, descending), axis)


@numpy_op
def searchsorted(sorted: Array, values: Array, *, right: bool, dtype: str) -> Array:
    """numpy's, row by row."""
    side = "right" if right else "left"
    keys, wanted = widened(sorted), widened(values)
    if sorted.ndim == 1:
        found = np.searchsorted(keys, wanted, side)  # type: ignore[call-overload]
        return np.asarray(found, to_numpy(dtype))
    out = np.empty(values.shape, to_numpy(dtype))
    for row in np.ndindex(*sorted.shape[:-1]):
        out[row] = np.searchsorted(keys[row], wanted[row], side)  # type: ignore[call-overload]
    return out


# ------------------------------------------------------------------------------------------ sets


@numpy_op
def unique(x: Array, *, sorted: bool) -> tuple[Array, ...]:
    """numpy's, with room for n values."""
    values, indices, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True
    )
    if not sorted:
        order = np.argsort(indices)
        place = np.argsort(order)
        values, indices, counts = values[order], indices[order], counts[order]
        inverse = place[inverse]
    room = x.size - values.size
    padded = [np.pad(a, (0, room)) for a in (values, indices, counts)]
    found, first, often = padded[0], *(a.astype(np.int64) for a in padded[1:])
    return found, first, inverse.astype(np.int64), often, np.asarray(values.size, np.int64)


@numpy_op
def argwhere(x: Array) -> tuple[Array, Array]:
    """numpy's, with room for all elements."""
    found = np.argwhere(x != 0).astype(np.int64)
    padded = np.pad(found, ((0, x.size - len(found)), (0, 0)))
    return padded, np.asarray(len(found), np.int64)


@numpy_op
def unravel_index(indices: Array, *, shape: Sequence[int]) -> Array:
    """numpy's."""
    return np.stack(np.unravel_index(indices, shape)).astype(indices.dtype)


@numpy_op
def invert_permutation(x: Array) -> Array:
    """Where each number stands."""
    out = np.zeros_like(x)
    for i, v in enumerate(x):
        if 0 <= v < x.size:
            out[v] = i
    return out


@numpy_op
def unique_rows(x: Array, *, sorted: bool) -> tuple[Array, ...]:
    """Rows by what they hold, in a dictionary."""
    seen: dict[tuple[float, ...], list[int]] = {}
    for i, row in enumerate(x):
        seen.setdefault(tuple(row.tolist()), []).append(i)
    keys = list(seen)
    if sorted:
        keys.sort()
    values, indices, counts = np.zeros_like(x), *np.zeros((2, x.shape[0]), np.int64)
    inverse = np.zeros(x.shape[0], np.int64)
    for k, key in enumerate(keys):
        values[k], indices[k], counts[k] = x[seen[key][0]], seen[key][0], len(seen[key])
        inverse[seen[key]] = k
    return values, indices, inverse, counts, np.asarray(len(keys), np.int64)


# ------------------------------------------------------------------------------------- sequences


@numpy_op
def sequence_mask(x: Array, valid_length: Array, *, mask_value: float, axis: int) -> Array:
    """One sequence after the other."""
    out = x.copy()
    for b, n in enumerate(valid_length):
        end = (slice(max(int(n), 0), None), b)
        out[end if axis == 0 else end[::-1]] = mask_value
    return out


@numpy_op
def reverse_sequence(x: Array, seq_lengths: Array, *, seq_axis: int, batch_axis: int) -> Array:
    """One sequence after the other."""
    out = x.copy()
    moved = np.moveaxis(out, (batch_axis, seq_axis), (0, 1))
    for b, n in enumerate(seq_lengths):
        moved[b, :n] = moved[b, :n][::-1].copy()
    return out


@numpy_op
def write_sequence(x: Array, update: Array, begins: Array, *, axis: int, circular: bool) -> Array:
    """One element of one sequence after the other."""
    out = x.copy()
    moved, new = np.moveaxis(out, axis, 1), np.moveaxis(update, axis, 1)
    for b, begin in enumerate(begins):
        for k in range(new.shape[1]):
            at = int(begin) + k
            at = at % moved.shape[1] if circular else at
            if 0 <= at < moved.shape[1]:
                moved[b, at] = new[b, k]
    return out


@numpy_op
def matrix_set_diag(x: Array, diagonal: Array, *, k: Sequence[int], align: str) -> Array:
    """One diagonal after the other."""
    out, (low, high) = x.copy(), k
    above, below = align.split("_")
    for d in range(low, high + 1):
        line = diagonal if low == high else diagonal[..., high - d, :]
        rows = np.arange(max(-d, 0), min(x.shape[-2], x.shape[-1] - d))
        left = (d >= 0 and above == "LEFT") or (d <= 0 and below == "LEFT")
        start = 0 if left else line.shape[-1] - rows.size
        out[..., rows, rows + d] = line[..., start : start + rows.size]
    return out
