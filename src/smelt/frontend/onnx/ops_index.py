"""Converters of operators that choose or write elements by index."""

from __future__ import annotations

from typing import Any

from smelt.frontend.common import Build, Value, moves
from smelt.ir.expr import Expr

from .registry import onnx_op, same


@onnx_op("Gather")
def gather(g: Build, x: Value, indices: Value, *, axis: int = 0) -> Value:
    """Slices by index."""
    return moves.take(g, x, indices, axis)


same("GatherElements", "x indices", core="gather_elements", since=11, along="axis", axis=0)
same("GatherND", "x indices", core="gather_nd", since=11, batch_dims=0)

_REDUCTIONS = {"reduction": ("none", "add", "mul", "min", "max")}
for _name, _since in (("Scatter", 9), ("ScatterElements", 11)):
    same(_name, "x indices updates", core="scatter_elements", since=_since, along="axis",
         legal=_REDUCTIONS, axis=0, reduction="none")  # fmt: skip
same("ScatterND", "x indices updates", core="scatter_nd", since=11, legal=_REDUCTIONS,
     reduction="none")  # fmt: skip


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
    flags = {"largest": bool(largest), "sorted": bool(sorted)}
    return g.calls("topk", x, k=_count(g, k), axis=g.axis(axis, x.rank), **flags)
