"""Axes at the place where the core wants them."""

from __future__ import annotations

from collections.abc import Callable

from ..nodes import RelaxExpr, call
from .common import normal_axis, rank_of


def moved(x: RelaxExpr, axis: int, to: int, fn: Callable[[RelaxExpr], RelaxExpr]) -> RelaxExpr:
    """What fn makes of a tensor with one axis at another place; the axis goes back afterwards."""
    rank = rank_of(x)
    at = normal_axis(axis, rank)
    to %= rank
    if at == to:
        return fn(x)
    order = [d for d in range(rank) if d != at]
    order.insert(to, at)
    y = fn(call("transpose", x, axes=tuple(order)))
    return call("transpose", y, axes=tuple([order.index(d) for d in range(rank)]))
