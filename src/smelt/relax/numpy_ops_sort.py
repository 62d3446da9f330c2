"""The operators in numpy: sorting, searching, sets, sequences."""

from __future__ import annotations

import numpy as np

from smelt.ir.dtype import to_numpy

from .numpy_ops import Array, numpy_op, widened

__all__ = ["argsort", "argwhere", "invert_permutation", "searchsorted", "sort", "unique"]


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
        return np.searchsorted(keys, wanted, side).astype(to_numpy(dtype))  # type: ignore[call-overload]
    out = np.empty(values.shape, to_numpy(dtype))
    for row in np.ndindex(*sorted.shape[:-1]):
        out[row] = np.searchsorted(keys[row], wanted[row], side)  # type: ignore[call-overload]
    return out
