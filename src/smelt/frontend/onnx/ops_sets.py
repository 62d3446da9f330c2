"""Converters of operators whose result is a set: its size is known when the program has run."""

from __future__ import annotations

from smelt.frontend.common import Build, Value, moves
from smelt.frontend.common.moves import as_type
from smelt.frontend.common.values import product

from .registry import onnx_op


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
