"""The operators in numpy: matrices, decision trees, runs of integers."""

from __future__ import annotations

import operator
from collections import Counter

import numpy as np

from .numpy_ops import Array, numpy_op, widened


@numpy_op
def det(x: Array) -> Array:
    """numpy's, in float64."""
    return np.asarray(np.linalg.det(widened(x).astype(np.float64))).astype(x.dtype)


@numpy_op
def pairwise_coupling(x: Array) -> Array:
    """The solution of the equations that a smallest sum of squares fulfils."""
    out = np.zeros(x.shape[:2], np.float64)
    for r, m in enumerate(x.astype(np.float64)):
        off = m - np.diag(np.diag(m))
        q = np.diag((off**2).sum(0)) - off * off.T
        ones = np.ones((len(m), 1))
        system = np.block([[q, ones], [ones.T, np.zeros((1, 1))]])
        out[r] = np.linalg.solve(system, np.append(np.zeros(len(m)), 1.0))[:-1]
    return out.astype(x.dtype)


_COMPARISONS = (operator.le, operator.lt, operator.ge, operator.gt, operator.eq, operator.ne)


@numpy_op
def tree_leaves(
    x: Array, roots: Array, features: Array, modes: Array, values: Array, then: Array,
    other: Array, missing: Array, *, depth: int,
) -> Array:  # fmt: skip
    """One row in one tree after the other."""
    out = np.zeros((x.shape[0], roots.shape[0]), np.int64)
    for row, tree in np.ndindex(*out.shape):
        node = int(roots[tree])
        while node >= 0:
            v = x[row, features[node]]
            met = missing[node] if v != v else _COMPARISONS[modes[node]](v, values[node])
            node = int(then[node] if met else other[node])
        out[row, tree] = -1 - node
    return out


@numpy_op
def count_runs(
    x: Array, pool: Array, begins: Array, sizes: Array, places: Array, *, skips: int, width: int
) -> Array:
    """All runs of a row counted, then looked up."""
    out = np.zeros((x.shape[0], width), np.float32)
    for row, items in enumerate(x.tolist()):
        for size in set(sizes.tolist()):
            found: Counter[tuple[int, ...]] = Counter()
            for stride in range(1, 2 if size == 1 else skips + 2):
                reach = (size - 1) * stride
                for start in range(len(items) - reach):
                    found[tuple(items[start : start + reach + 1 : stride])] += 1
            for begin, s, place in zip(begins, sizes, places, strict=True):
                if s == size:
                    out[row, place] += found[tuple(pool[begin : begin + s].tolist())]
    return out
