"""Reductions."""

from __future__ import annotations

from typing import Any

from smelt.relax.nodes import RelaxExpr, call
from smelt.topi import get_op

from ..dialect import RELAY, relay_op
from .common import axes_of, rank_of

NAMES = ("sum", "prod", "min", "max", "mean", "all", "any")


def _enter(name: str) -> None:
    def body(
        data: RelaxExpr, *, axis: Any = None, keepdims: bool = False, exclude: bool = False
    ) -> RelaxExpr:
        axes = axes_of(axis, rank_of(data), exclude)
        return call(name, data, axes=axes, keepdims=keepdims)

    body.__doc__ = f"{get_op(name).__doc__} exclude: over all axes but those given."
    RELAY.op(name)(body)


for _name in NAMES:
    _enter(_name)


def _enter_index(name: str) -> None:
    def body(
        data: RelaxExpr,
        *,
        axis: Any = None,
        keepdims: bool = False,
        exclude: bool = False,
        select_last_index: bool = False,
    ) -> RelaxExpr:
        axes = axes_of(axis, rank_of(data), exclude)
        x, at = data, axes[0] if axes else 0
        if len(axes) == rank_of(data) and len(axes) != 1:
            x, at = call("reshape", data, shape=(_count(data),)), 0
        found = call(
            name,
            x,
            axis=at,
            keepdims=keepdims and x is data,
            select_last_index=select_last_index,
        )
        made = call("cast", found, dtype="int32")
        return (
            call("reshape", made, shape=(1,) * rank_of(data))
            if keepdims and x is not data
            else made
        )

    body.__doc__ = get_op(name).__doc__
    RELAY.op(name)(body)


def _count(x: RelaxExpr) -> Any:
    return x.type.elements()  # type: ignore[attr-defined]


_enter_index("argmax")
_enter_index("argmin")


@relay_op("cumsum")
def cumsum(
    data: RelaxExpr, *, axis: int | None = None, dtype: str = "", exclusive: bool = False
) -> RelaxExpr:
    """Running sums along an axis; None: of all elements in order."""
    x = data if not dtype else call("cast", data, dtype=dtype)
    if axis is None:
        x, axis = call("reshape", x, shape=(_count(x),)), 0
    return call("cumsum", x, axis=axis, exclusive=exclusive)
