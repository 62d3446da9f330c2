"""Converters of operators that choose or write elements by index."""

from __future__ import annotations

from smelt.ir.expr import Expr

from . import moves
from .build import Build
from .registry import onnx_op
from .values import Value

__all__: list[str] = []


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
def scatter(g: Build, x: Value, indices: Value, updates: Value, *, axis: int = 0) -> Value:
    """ScatterElements under its first name."""
    return g.call("scatter_elements", x, indices, updates, axis=g.axis(axis, x.rank))


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
    off, on = g.dims(values, "values")
    if isinstance(off, Expr) or isinstance(on, Expr):
        g.unsupported("values that depend on symbolic sizes", "constants")
    size = g.dims(depth, "depth")
    integers = (
        indices if indices.dtype.startswith("int") else g.call("cast", indices, dtype="int64")
    )
    count = size[0] if isinstance(size[0], Expr) else int(size[0])
    return g.call(
        "one_hot",
        integers,
        depth=count,
        axis=g.axis(axis, indices.rank + 1),
        on_value=on,
        off_value=off,
        dtype=values.dtype,
    )


@onnx_op("TopK", since=10)
def topk_10(g: Build, x: Value, k: Value, *, axis: int = -1) -> tuple[Value, ...]:
    """The largest elements and where they are."""
    return g.calls(
        "topk", x, k=int(g.number(k, "K")), axis=g.axis(axis, x.rank), largest=True, sorted=True
    )


@onnx_op("TopK", since=11)
def topk(
    g: Build, x: Value, k: Value, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Value, ...]:
    """The largest or smallest elements and where they are."""
    return g.calls(
        "topk",
        x,
        k=int(g.number(k, "K")),
        axis=g.axis(axis, x.rank),
        largest=bool(largest),
        sorted=bool(sorted),
    )


@onnx_op("NonZero", since=9)
def non_zero(g: Build, x: Value) -> Value:
    """Known elements only: the result's size depends on them."""
    g.unsupported("the size of the result depends on the values of the inputs", "constants")
