"""Elements chosen by tensors of indices, by their rank, by a slope; those next to each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from smelt.ir.build import value_of
from smelt.topi import get_op

from ..nodes import RelaxExpr, call
from .common import (
    against,
    cast_to,
    dtype_of,
    flat,
    items_of,
    legal,
    normal_axis,
    one_of,
    rank_of,
    reshaped,
    shape_of,
)


def rows_of(data: RelaxExpr, indices: Sequence[RelaxExpr]) -> RelaxExpr:
    """Tensors of indices, one an axis, broadcast against each other as rows [..., axes]."""
    legal(
        1 <= len(indices) <= rank_of(data),
        f"{len(indices)} tensors of indices; legal: 1 to the {rank_of(data)} dimensions of the "
        "data",
    )
    total = cast_to(indices[0], "int64")
    for i in indices[1:]:
        total = call("add", total, cast_to(i, "int64"))
    shape = shape_of(total)
    wide = [call("broadcast_to", cast_to(i, "int64"), shape=shape) for i in indices]
    columns = [call("expand_dims", w, axes=(len(shape),)) for w in wide]
    return call("concat", *columns, axis=len(shape))


def largest(
    data: RelaxExpr, k: Any, axis: int, ret_type: str, downwards: bool, dtype: str
) -> list[RelaxExpr] | RelaxExpr:
    """The k first elements along an axis, the largest first (or the smallest); k below 1: all.

    ret_type  "both", "values" or "indices"
    """
    one_of("ret_type", ret_type, "both", "values", "indices")
    at, known = normal_axis(axis, rank_of(data)), value_of(k)
    count = shape_of(data)[at] if known is not None and known < 1 else k
    found, places = items_of(call("topk", data, k=count, axis=at, largest=downwards))
    indices = cast_to(places, dtype)
    if ret_type == "both":
        return [found, indices]
    return found if ret_type == "values" else indices


def prelu(data: RelaxExpr, alpha: RelaxExpr, *, axis: int = 1) -> RelaxExpr:
    """x where it is positive, alpha * x elsewhere; alpha varies along an axis."""
    legal(rank_of(alpha) == 1, f"alpha has {rank_of(alpha)} dimensions; one is legal")
    return call("prelu", data, against(alpha, data, axis))


def scan(name: str) -> Callable[..., RelaxExpr]:
    """The body of cumsum or cumprod."""

    def body(
        data: RelaxExpr, *, axis: int | None = None, dtype: str | None = None,
        exclusive: bool = False,
    ) -> RelaxExpr:  # fmt: skip
        x = cast_to(data, dtype or ("int32" if dtype_of(data) == "bool" else ""))
        if axis is None:
            x, axis = flat(x), 0
        return call(name, x, axis=normal_axis(axis, rank_of(x)), exclusive=bool(exclusive))

    body.__doc__ = f"{get_op(name).__doc__} axis None: of all elements in order."
    return body


def position(
    name: str, data: RelaxExpr, axis: int | None, keepdims: bool, **attrs: Any
) -> RelaxExpr:
    """argmax or argmin along an axis; None: of all elements in order."""
    if axis is not None:
        return call(name, data, axis=axis, keepdims=keepdims, **attrs)
    found = call(name, flat(data), axis=0, keepdims=False, **attrs)
    return reshaped(found, (1,) * rank_of(data)) if keepdims else found


def stacked(items: Sequence[RelaxExpr], axis: int) -> RelaxExpr:
    """Tensors behind each other along a new axis."""
    legal(bool(items), "no tensor is given; at least one is needed")
    at = normal_axis(axis, rank_of(items[0]) + 1)
    return call("concat", *[call("expand_dims", x, axes=(at,)) for x in items], axis=at)
