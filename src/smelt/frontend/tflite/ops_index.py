"""Converters of operators that choose or write elements by index, and of choices."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.frontend.common import Value, moves
from smelt.frontend.common.moves import as_type
from smelt.frontend.common.values import simplify
from smelt.ir.expr import Expr, convert

from .layout import elementwise
from .node import Node
from .quantized import same_numbers
from .registry import tflite_op


@tflite_op("GATHER", 7)
def gather(g: Node, x: Value, indices: Value, *, axis: int = 0, batch_dims: int = 0) -> Value:
    """Slices by index; along batch dimensions, each index looks at its own part."""
    if not batch_dims:
        return moves.take(g, x, indices, axis)
    batch, at = g.axis(batch_dims, indices.rank + 1), g.axis(axis, x.rank)
    if at != batch:
        g.unsupported(f"batch_dims={batch_dims} with axis={axis}", "batch_dims=0, or axis")
    rows = g.call("expand_dims", indices, axes=(indices.rank,))
    return g.call("gather_nd", x, rows, batch_dims=batch)


@tflite_op("GATHER_ND", 5)
def gather_nd(g: Node, x: Value, indices: Value) -> Value:
    """Elements or slices, each named by a row of indices."""
    return g.call("gather_nd", x, indices)


@tflite_op("EMBEDDING_LOOKUP", 4)
def embedding_lookup(g: Node, ids: Value, table: Value) -> Value:
    """Rows of a table; those of 8 bits become floats."""
    y = moves.take(g, table, ids, 0)
    t = g.tensor(1)
    if y.dtype == g.out.dtype or not t.quantized:
        return y
    if t.scales.size == 1:
        return g.call("dequantize", y, g.known(g.scale(t)), None)
    scales = moves.take(g, g.known(t.scales), ids, 0)
    scales = moves.reshape(g, scales, (*scales.shape, *(1,) * (y.rank - scales.rank)))
    return g.call("multiply", as_type(g, y, "float32"), scales)


@tflite_op("SCATTER_ND")
def scatter_nd(g: Node, indices: Value, updates: Value, shape: Value) -> Value:
    """Zeros, and the sums of the updates where rows of indices point."""
    blank = g.call("full", shape=g.dims(shape, "shape"), value=0.0, dtype=updates.dtype)
    return g.call("scatter_nd", blank, indices, updates, reduction="add")


@tflite_op("ONE_HOT")
def one_hot(
    g: Node, indices: Value, depth: Value, on: Value, off: Value, *, axis: int = 0
) -> Value:
    """A row of one value with another one at the index."""
    (count,) = g.dims(depth, "depth")
    at = indices.rank if axis == -1 else g.axis(axis, indices.rank + 1)
    hot = g.call("one_hot", indices, depth=count, axis=at, on_value=1, off_value=0, dtype="bool")
    inside = g.call("greater_equal", indices, g.known(0, indices.dtype))
    hot = g.call("logical_and", hot, g.call("expand_dims", inside, axes=(at,)))
    return g.call("where", hot, *[moves.reshape(g, v, ()) for v in (on, off)])


@tflite_op("TOPK_V2", 3)
def topk(g: Node, x: Value, k: Value) -> tuple[Value, ...]:
    """The largest elements of the last dimension and where they are."""
    (count,) = g.dims(k, "k")
    count = count if isinstance(count, Expr) else int(count)
    values, places = g.calls("topk", x, k=count, axis=x.rank - 1, largest=True, sorted=True)
    return values, as_type(g, places, g.made[1].dtype if len(g.made) > 1 else "int32")


def _place(name: str, op: str) -> None:
    @tflite_op(name, 3)
    def converter(g: Node, x: Value, axis: Value, *, output_type: int = 0) -> Value:
        at = g.axis(g.number(axis, "axis"), x.rank)
        found = g.call(op, x, axis=at, keepdims=False, select_last_index=False)
        return as_type(g, found, g.out.dtype)


_place("ARG_MAX", "argmax")
_place("ARG_MIN", "argmin")


@tflite_op("SELECT", 4)
def select(g: Node, condition: Value, a: Value, b: Value) -> Value:
    """Of two elements one; a vector of conditions chooses rows."""
    if g.integers:
        same_numbers(g, g.tensor(1), g.tensor(2), g.out)
    if condition.rank == 1 and a.rank > 1:
        condition = moves.reshape(g, condition, (condition.shape[0], *(1,) * (a.rank - 1)))
    return g.call("where", condition, a, b)


@tflite_op("SELECT_V2", 2)
def select_v2(g: Node, condition: Value, a: Value, b: Value) -> Value:
    """Of two elements one, broadcast."""
    if g.integers:
        same_numbers(g, g.tensor(1), g.tensor(2), g.out)
    return elementwise(g, lambda c, a, b: g.call("where", c, a, b), condition, a, b)


@tflite_op("WHERE", 3)
def where(g: Node, condition: Value) -> Value:
    """The places of what is true, a row each, as many as the run finds."""
    places, count = g.calls("argwhere", condition)
    return g.shrink(as_type(g, places, "int64"), count)


@tflite_op("CUMSUM")
def cumsum(
    g: Node, x: Value, axis: Value, *, exclusive: bool = False, reverse: bool = False
) -> Value:
    """Sums of all elements up to each."""
    at = g.axis(g.number(axis, "axis"), x.rank)
    return g.call("cumsum", x, axis=at, exclusive=exclusive, reverse=reverse)


@tflite_op("DYNAMIC_UPDATE_SLICE", 4)
def dynamic_update_slice(g: Node, x: Value, update: Value, starts: Value) -> Value:
    """x with a part replaced that begins at places of the run, moved so that it lies inside."""
    room = [simplify(convert(a) - b) for a, b in zip(x.shape, update.shape, strict=True)]
    begin = as_type(g, starts, "int64")
    begin = g.call("maximum", g.call("minimum", begin, Value.of_sizes(room)), 0)
    at: Any = None
    for d in range(update.rank):
        count = g.extent(update, d, "an update")
        line = g.known(np.arange(count).reshape(-1, *(1,) * (update.rank - 1 - d)), "int64")
        own = g.call("add", line, moves.take(g, begin, g.known(d, "int64"), 0))
        own = moves.broadcast_to(g, own, (*update.shape,))
        own = g.call("expand_dims", own, axes=(update.rank,))
        at = own if at is None else moves.concat(g, [at, own], update.rank)
    return g.call("scatter_nd", x, at, update)


@tflite_op("MATRIX_DIAG")
def matrix_diag(g: Node, diagonal: Value) -> Value:
    """Zeros with these diagonals."""
    n = diagonal.shape[-1]
    blank = g.call("full", shape=(*diagonal.shape, n), value=0.0, dtype=diagonal.dtype)
    return g.call("matrix_set_diag", blank, diagonal)


@tflite_op("MATRIX_SET_DIAG")
def matrix_set_diag(g: Node, x: Value, diagonal: Value) -> Value:
    """x with other diagonals."""
    return g.call("matrix_set_diag", x, diagonal)
