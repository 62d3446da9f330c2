"""Converters of operators whose results' sizes the data decide."""

from __future__ import annotations

import numpy as np

from . import moves
from .build import Build
from .registry import onnx_op
from .values import Value, product, simplify

__all__: list[str] = []


@onnx_op("NonZero", since=9)
def non_zero(g: Build, x: Value) -> Value:
    """Where x is not 0: a row for each dimension, a column for each element."""
    if x.rank == 0:
        g.unsupported("an operand without dimensions", "one dimension or more")
    places, count = g.calls("argwhere", x)
    return moves.transpose(g, g.shrink(places, count), (1, 0))


@onnx_op("Compress", since=9)
def compress(g: Build, x: Value, condition: Value, *, axis: int | None = None) -> Value:
    """The slices of x where a vector of conditions is true; conditions behind them do not count."""
    if axis is None:
        x = moves.reshape(g, x, (product(x.shape),))
    at = 0 if axis is None else g.axis(axis, x.rank)
    if condition.is_array and condition.known is not None:
        taken = np.flatnonzero(condition.known)
        first, end = (int(taken[0]), int(taken[-1]) + 1) if taken.size else (0, 0)
        if taken.size == end - first:  # as many as there are
            return moves.slice_(g, x, (at,), (first,), (end,), (1,))
        if isinstance(x.shape[at], int):
            taken = taken[taken < x.shape[at]]
        else:  # the last one has to be there
            x = moves.split(g, x, (end, simplify(x.shape[at] - end)), at)[0]
        return moves.take(g, x, Value.of_array(taken), at)
    condition = moves.slice_(g, condition, (0,), (0,), (x.shape[at],), (1,))
    places, count = g.calls("argwhere", condition)
    return g.call("gather", x, moves.squeeze(g, g.shrink(places, count), (1,)), axis=at)
