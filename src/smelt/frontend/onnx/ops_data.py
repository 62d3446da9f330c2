"""Converters of operators whose results' sizes the data decide."""

from __future__ import annotations

import numpy as np

from smelt.frontend.common import Build, Value, moves
from smelt.frontend.common.moves import as_type
from smelt.frontend.common.values import product, simplify
from smelt.ir.build import maximum, minimum
from smelt.ir.expr import convert

from .registry import onnx_op


@onnx_op("NonZero", since=9)
def non_zero(g: Build, x: Value) -> Value:
    """Where x is not 0: a row for each dimension, a column for each element."""
    if x.rank == 0:
        g.unsupported("an operand without dimensions", "one dimension or more")
    if x.is_array and x.small:
        return Value.of_array(np.array(np.nonzero(x.known), np.int64))  # type: ignore[arg-type]
    places, count = g.calls("argwhere", x)
    return moves.transpose(g, g.shrink(places, count), (1, 0))


@onnx_op("Compress", since=9)
def compress(g: Build, x: Value, condition: Value, *, axis: int | None = None) -> Value:
    """The slices of x where a vector of conditions is true; conditions behind them do not count."""
    if axis is None:
        x = moves.reshape(g, x, (product(x.shape),))
    at = 0 if axis is None else g.axis(axis, x.rank)
    if condition.is_array and condition.known is not None:
        taken, extent = np.flatnonzero(condition.known), x.shape[at]
        runs = np.split(taken, np.flatnonzero(np.diff(taken) > 1) + 1)
        if len(runs) == 1:  # as many as there are
            first, end = (int(taken[0]), int(taken[-1]) + 1) if taken.size else (0, 0)
            return moves.along(g, x, at, first, end)
        if isinstance(extent, int):
            return moves.take(g, x, Value.of_array(taken[taken < extent]), at)
        ends = [minimum(maximum(convert(extent) - int(r[0]), 0), int(r.size)) for r in runs]
        found = moves.take(g, x, Value.of_array(taken), at)
        return moves.along(g, found, at, 0, simplify(sum(ends)))
    condition = moves.along(g, condition, 0, 0, x.shape[at])
    places, count = g.calls("argwhere", condition)
    return g.call("gather", x, moves.squeeze(g, g.shrink(places, count), (1,)), axis=at)


@onnx_op("Unique", since=11)
def unique(
    g: Build, x: Value, *, axis: int | None = None, sorted: int = 1
) -> tuple[Value, Value, Value, Value]:
    """The distinct elements, or slices along an axis; where they come first, which is which, how
    often they come."""
    number = as_type(g, x, "uint8") if x.dtype == "bool" else x
    if axis is None:
        flat = moves.reshape(g, number, (-1,))
        values, *others, count = g.calls("unique", flat, sorted=bool(sorted))
        found = g.shrink(values, count)
    else:
        place = g.axis(axis, x.rank)
        order = (place, *[k for k in range(x.rank) if k != place])
        moved = moves.transpose(g, number, order)
        rest = moved.shape[1:]
        rows = moves.reshape(g, moved, (moved.shape[0], product(rest)))
        values, *others, count = g.calls("unique_rows", rows, sorted=bool(sorted))
        kept = g.shrink(values, count)
        back = [order.index(k) for k in range(x.rank)]
        found = moves.transpose(g, moves.reshape(g, kept, (kept.shape[0], *rest)), back)
    first, inverse, often = others
    return as_type(g, found, x.dtype), g.shrink(first, count), inverse, g.shrink(often, count)
