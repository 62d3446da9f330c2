"""Maps tried on numbers: two elements in one place, or a place without an element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir import expr
from smelt.ir.node import postorder
from smelt.ir.walk import free_vars

from .analyzer import Analyzer

_POINTS = 1 << 14
"""So many elements are looked at; a larger space is looked at in part."""

_FUNCTIONS: dict[type, Any] = {
    **{o.node: o.fold for o in expr.OPERATORS if o.python is not None and o.fold is not None},
    expr.Min: np.minimum,
    expr.Max: np.maximum,
    expr.And: np.logical_and,
    expr.Or: np.logical_or,
}
"""What integer and truth operators are on arrays."""


def refute_bijection(
    inputs: Sequence[expr.Var], outputs: Sequence[expr.Expr], shape: Sequence[expr.ExprLike]
) -> str | None:
    """Why a map of an array of a constant shape is no bijection; None where no reason is found."""
    extents = [n.value for n in map(expr.convert, shape) if isinstance(n, expr.IntImm)]
    if len(extents) < len(shape) or min(extents, default=1) < 1:
        return None
    count = prod(extents)
    an = Analyzer(dict(zip(inputs, extents, strict=True)))
    ends = [an.bounds(o) for o in outputs]
    sizes = [high - max(low, 0) + 1 for low, high in ends if low is not None and high is not None]
    if len(sizes) == len(outputs) and prod(sizes) < count:
        return f"{count} elements do not fit into {prod(sizes)} places"
    found = _images(inputs, outputs, extents)
    return None if found is None else _witness(*found, count, _last(inputs, outputs, extents))


def _last(
    inputs: Sequence[expr.Var], outputs: Sequence[expr.Expr], extents: list[int]
) -> list[int]:
    """An index that each output takes, the largest one found."""
    last = []
    for o in outputs:
        used = free_vars(o)
        found = _images(
            inputs, [o], [n if v in used else 1 for v, n in zip(inputs, extents, strict=True)]
        )
        last.append(max(i for (i,) in found[1]) if found else 0)
    return last


def _images(
    inputs: Sequence[expr.Var], outputs: Sequence[expr.Expr], extents: list[int]
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]] | None:
    """Some elements (all of a small array) and where they go."""
    kept = list(extents)
    while prod(kept) > _POINTS:
        kept[kept.index(max(kept))] = (max(kept) + 1) // 2
    # the first elements of each dimension, and the last one
    axes = [
        [*range(k - (k < n)), *([n - 1] if k < n else [])]
        for k, n in zip(kept, extents, strict=True)
    ]
    grids = np.meshgrid(*[np.array(a, object) for a in axes], indexing="ij")
    values: dict[expr.Expr, Any] = {v: g.ravel() for v, g in zip(inputs, grids, strict=True)}
    points = list(zip(*[values[v].tolist() for v in inputs], strict=True))
    columns = []
    for o in outputs:
        column = evaluate(o, values)
        if column is None:
            return None
        columns.append(np.broadcast_to(column, len(points)).tolist())
    return points, list(zip(*columns, strict=True)) or [()] * len(points)


def evaluate(e: expr.Expr, values: dict[expr.Expr, Any]) -> Any:
    """The values of an integer expression for those of its variables, which are arrays.

    values  takes up the values of the parts

    None where something else than integers is in it, or a divisor is 0.
    """
    for n in postorder(e):
        if isinstance(n, expr.Expr) and n not in values:
            found = _value(n, values)
            if found is None:
                return None
            values[n] = found
    return values[e]


def _value(e: expr.Expr, values: Mapping[expr.Expr, Any]) -> Any:
    match e:
        case expr.IntImm(_, value):
            return np.array(value)
        case expr.Not(a):
            return np.logical_not(values[a])
        case expr.Call(op="likely", args=(a,)):
            return values[a]
        case expr.Cast(kind, a) if not dt.is_float(kind) and not dt.is_float(a.dtype):
            return values[a]
        case expr.Select(c, a, b) | expr.Call(op="if_then_else", args=(c, a, b)):
            return np.where(values[c], values[a], values[b])
        case expr.Binary(a, b) if type(e) in _FUNCTIONS:
            divides = isinstance(e, expr.FloorDiv | expr.FloorMod)
            known = not divides or (values[b] != 0).all()
            return _FUNCTIONS[type(e)](values[a], values[b]) if known else None
    return None


def _witness(
    points: list[tuple[int, ...]], images: list[tuple[int, ...]], count: int, last: list[int]
) -> str | None:
    """Two elements in one place, or a place that is too much."""
    seen: dict[tuple[int, ...], tuple[int, ...]] = {}
    for p, q in zip(points, images, strict=True):
        if q in seen:
            return f"{seen[q]} and {p} both go to {q}"
        if min(q, default=0) < 0:
            return f"{p} goes to {q}"
        seen[q] = p
    places = prod([n + 1 for n in last])
    if places <= count:
        return None
    if len(points) == count:
        gap = next(q for q in np.ndindex(*[n + 1 for n in last]) if q not in seen)
        return f"nothing goes to {gap}"
    return f"the indices reach {tuple(last)}, which is {places} places for {count} elements"
