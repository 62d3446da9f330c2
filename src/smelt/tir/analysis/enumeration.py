"""Accesses by enumeration: which elements are touched in which iteration of a loop, as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from smelt.arith.refute import evaluate
from smelt.ir import expr

from .parallel_accesses import Access, Loop

_ROWS = 20_000
"""At most so many iterations of the loops around an access are looked at."""
_FEW = (None, 8, 4, 3, 2)
"""How many iterations of each loop are looked at: all, or the first ones."""

Column = np.ndarray[Any, Any]
Columns = dict[expr.Expr, Column]


@dataclass(frozen=True)
class Conflict:
    """What enumeration says of two accesses.

    iterations       values of the loop's variable in which both touch one element; None: none found
    exhaustive  whether all iterations have been looked at
    """

    iterations: tuple[int, int] | None
    exhaustive: bool


def find_conflict(
    loop: Loop, a: Access, b: Access, same: set[expr.Var], sizes: Mapping[expr.Var, int]
) -> Conflict | None:
    """Two iterations of a loop in which two accesses touch one element, if there are any.

    same   variables that have one value in both
    sizes  what symbolic sizes are taken to be

    None where what is touched depends on data.
    """
    if a.indices is None or b.indices is None:
        return None
    for few in _FEW:
        first, second = _columns(a, sizes, few), _columns(b, sizes, few)
        if first is _TOO_MANY or second is _TOO_MANY:
            continue
        if first is None or second is None:
            return None
        common = [x.var for x in a.loops if x.var in same and x.var in second]
        mine, others = _picked(a, first, common), _picked(b, second, common)
        if mine is None or others is None:
            return None
        keys = _keys(mine, others)
        return Conflict(_different(*keys, first[loop.var], second[loop.var]), few is None)
    return Conflict(None, False)


_TOO_MANY: Columns = {}


def _columns(a: Access, sizes: Mapping[expr.Var, int], few: int | None) -> Columns | None:
    """The values of loop variables, one row for each time that an access happens.

    None: how often it does depends on data.
    """
    columns: Columns = {v: np.array([n]) for v, n in sizes.items()}
    rows = 1
    for x in a.loops:
        low, iterations = evaluate(x.low, dict(columns)), evaluate(x.iterations, dict(columns))
        if low is None or iterations is None:
            return None
        low, iterations = (
            np.broadcast_to(low, rows),
            np.broadcast_to(np.maximum(iterations, 0), rows),
        )
        if few is not None:
            iterations = np.minimum(iterations, few)
        rows = int(iterations.sum())
        if rows > _ROWS:
            return _TOO_MANY
        start = np.cumsum(iterations) - iterations
        at = np.arange(rows) - np.repeat(start, iterations)
        columns = {v: c if len(c) == 1 and v in sizes else np.repeat(c, iterations)
                   for v, c in columns.items()}  # fmt: skip
        columns[x.var] = np.repeat(low, iterations) + at
    for g in a.guards:
        holds = evaluate(g, dict(columns))
        if holds is None:
            return None
        kept = np.broadcast_to(holds.astype(bool), rows)
        columns = {v: c if v in sizes else c[kept] for v, c in columns.items()}
        rows = int(kept.sum())
    return columns


def _picked(a: Access, columns: Columns, common: Sequence[expr.Var]) -> list[Column] | None:
    """The columns that tell which element is meant, and in which iteration of the common loops.

    None: the element depends on data.
    """
    rows = len(columns[a.loops[0].var])
    out = [np.zeros(rows, np.int64), *[columns[v] for v in common]]
    for e in a.indices or ():
        value = evaluate(e, dict(columns))
        if value is None:
            return None
        out.append(np.broadcast_to(value, rows))
    return out


def _keys(a: Sequence[Column], b: Sequence[Column]) -> tuple[Column, Column]:
    """One number for each row; equal rows have equal numbers."""
    table = np.stack([np.concatenate([x, y]) for x, y in zip(a, b, strict=True)], axis=1)
    _, keys = np.unique(table, axis=0, return_inverse=True)
    keys = keys.reshape(-1)
    return keys[: len(a[0])], keys[len(a[0]) :]


def _different(a: Column, b: Column, mine: Column, other: Column) -> tuple[int, int] | None:
    """Two different iterations with one key, the first of `a` and the second of `b`."""
    if not len(a) or not len(b):
        return None
    count = int(max(a.max(), b.max())) + 1
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(low, b, other)
    np.maximum.at(high, b, other)
    for end in (low, high):
        found = np.flatnonzero((high[a] >= low[a]) & (end[a] != mine))
        if len(found):
            n = int(found[0])
            return int(mine[n]), int(end[a[n]])
    return None
