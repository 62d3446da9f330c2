"""Tensors made from nothing but attributes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import equal, select
from smelt.ir.expr import Expr, ExprLike, cast, convert
from smelt.te.tensor import Tensor

from .common import extents, known_dtype, number, tensor
from .reference import Array
from .registry import op


@op
def full(*, shape: tuple[int, ...], value: float = 0.0, dtype: str = "float32") -> Tensor:
    """Every element is `value`."""
    known_dtype(dtype)
    return tensor(extents(shape), lambda *i: number(value, dtype), "full")


@full.numpy
def _(*, shape: Sequence[int], value: float, dtype: str) -> Array:
    """One value everywhere."""
    return np.full(shape, value, dt.to_numpy(dtype))


@op
def arange(
    *, start: ExprLike = 0, step: ExprLike = 1, count: ExprLike, dtype: str = "int64"
) -> Tensor:
    """start, start + step, ...: `count` elements."""
    known_dtype(dtype)

    def value(e: ExprLike) -> Expr:
        return number(e, dtype) if isinstance(e, int | float) else cast(dtype, convert(e))

    return tensor(
        extents((count,)), lambda i: value(start) + cast(dtype, i) * value(step), "arange"
    )


@arange.numpy
def _(*, start: float, step: float, count: int, dtype: str) -> Array:
    """start + i * step."""
    t = dt.to_numpy(dtype)
    steps = np.arange(count).astype(t) * np.asarray(step, t)
    return np.asarray(np.asarray(start, t) + steps).astype(t)


@op
def eye(*, rows: ExprLike, columns: ExprLike, k: int = 0, dtype: str = "float32") -> Tensor:
    """1 on the diagonal that starts k columns to the right, 0 elsewhere."""
    known_dtype(dtype)
    return tensor(
        extents((rows, columns)),
        lambda i, j: select(equal(j, i + k), number(1, dtype), number(0, dtype)), "eye",
    )  # fmt: skip


@eye.numpy
def _(*, rows: int, columns: int, k: int, dtype: str) -> Array:
    """Ones on a diagonal."""
    return np.eye(rows, columns, k).astype(dt.to_numpy(dtype))
