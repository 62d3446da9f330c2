"""Converters of operators that choose or write elements by index."""

from __future__ import annotations

from typing import Any

from smelt.frontend.common import Build, Value, moves
from smelt.ir.expr import Expr

from .registry import onnx_op


@onnx_op("Gather")
def gather(g: Build, x: Value, indices: Value, *, axis: int = 0) -> Value:
    """Slices by index."""
    return moves.take(g, x, indices, axis)


@onnx_op("GatherElements", since=11)
def gather_elements(g: Build, x: Value, indices: Value, *, axis: int = 0) -> Value:
    """One element per index."""
    return g.call("gather_elements", x, indices, axis=g.axis(axis, x.rank))


@onnx_op("GatherND", since=11)
def gather_nd(g: Build, x: Value, indices: Value, *, batch_dims: int = 0) -> Value:
    """Slices by index tuples."""
    return g.call("gather_nd", x, indices, batch_dims=batch_dims)


@onnx_op("Scatter", since=9)
@onnx_op("ScatterElements", since=11)
def scatter_elements(
    g: Build, x: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: str = "none"
) -> Value:
    """Elements written by index."""
    g.one_of("reduction", reduction, ("none", "add", "mul", "min", "max"))
    return g.call(
        "scatter_elements", x, indices, updates, axis=g.axis(axis, x.rank), reduction=reduction
    )


@onnx_op("ScatterND", since=11)
def scatter_nd(
    g: Build, x: Value, indices: Value, updates: Value, *, reduction: str = "none"
) -> Value:
    """Slices written by index tuples."""
    g.one_of("reduction", reduction, ("none", "add", "mul", "min", "max"))
    return g.call("scatter_nd", x, indices, updates, reduction=reduction)


@onnx_op("OneHot", since=9)
def one_hot(g: Build, indices: Value, depth: Value, values: Value, *, axis: int = -1) -> Value:
    """A row of `off` values with one `on`."""
    integers = (
        indices if indices.dtype.startswith("int") else g.call("cast", indices, dtype="int64")
    )
    count = _count(g, depth, "depth")
    at = g.axis(axis, indices.rank + 1)
    if values.is_array:
        off, on = g.dims(values, "values")
        return g.call(
            "one_hot", integers, depth=count, axis=at, on_value=on, off_value=off,
            dtype=values.dtype,
        )  # fmt: skip
    hot = g.call("one_hot", integers, depth=count, axis=at, on_value=1, off_value=0, dtype="bool")
    off_at, on_at = [moves.take(g, values, g.constant(n, "int64"), 0) for n in (0, 1)]
    return g.call("where", hot, on_at, off_at)


def _count(g: Build, k: Value, what: str = "K") -> Any:
    """The only element of an operand that becomes an extent."""
    (count,) = g.dims(k, what)
    return count if isinstance(count, Expr) else int(count)


@onnx_op("TopK", since=10)
def topk(
    g: Build, x: Value, k: Value, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Value, ...]:
    """The largest or smallest elements and where they are."""
    return g.calls(
        "topk",
        x,
        k=_count(g, k),
        axis=g.axis(axis, x.rank),
        largest=bool(largest),
        sorted=bool(sorted),
    )
