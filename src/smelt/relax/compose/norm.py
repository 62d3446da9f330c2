"""Norms over axes that the core wants at a place of their own, and dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..nodes import RelaxExpr, call
from .common import axes_of, filled, legal, rank_of


def moved(x: RelaxExpr, axes: Any, to: int, fn: Callable[[RelaxExpr], RelaxExpr]) -> RelaxExpr:
    """What fn makes of a tensor with some axes, ascending, at another place; they go back
    afterwards."""
    rank = rank_of(x)
    given = sorted(axes_of(axes, rank))
    order = [d for d in range(rank) if d not in given]
    at = to if to >= 0 else len(order) + 1 + to
    order[at:at] = given
    if order == list(range(rank)):
        return fn(x)
    y = fn(call("transpose", x, axes=tuple(order)))
    return call("transpose", y, axes=tuple([order.index(d) for d in range(rank)]))


def norm(
    name: str, data: RelaxExpr, axes: Any, to: int, gamma: RelaxExpr, beta: RelaxExpr,
    /, *statistics: RelaxExpr, center: bool, scale: bool, **attrs: Any,
) -> RelaxExpr:  # fmt: skip
    """The core's norm `name` of a tensor with some axes at another place.

    center, scale  whether the summands beta and the factors gamma are used; zeros and ones if not
    """
    factors = gamma if scale else filled(gamma, 1.0)
    summands = beta if center else filled(beta, 0.0)
    return moved(data, axes, to, lambda x: call(name, x, factors, summands, *statistics, **attrs))


def dropped(data: RelaxExpr, *, rate: float = 0.5) -> list[RelaxExpr]:
    """(the data, a mask of ones): nothing is dropped at inference."""
    legal(0 <= rate < 1, f"rate={rate}; legal: from 0 to below 1")
    return [data, filled(data, 1.0)]
