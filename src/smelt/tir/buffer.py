"""Buffers declared in Python."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir import dtype as dt
from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import INDEX, Expr, ExprLike, convert

from .nodes import Buffer


def decl_buffer(
    shape: ExprLike | Sequence[ExprLike],
    dtype: str = "float32",
    name: str = "buffer",
    *,
    strides: Sequence[ExprLike] = (),
    scope: str = "",
    axis_separators: Sequence[int] = (),
) -> Buffer:
    """A buffer, e.g. for the parameters of a PrimFunc that is built by hand.

    shape            extents in elements: numbers or expressions
    strides          elements between neighbours per dimension; empty = row-major and dense
    scope            "global" ("" too), "local", "shared", ...
    axis_separators  positions between dimensions that cut memory of several dimensions
    """
    if dt.lanes(dtype) > 1:
        raise TypeMismatch(f"{name}: a buffer holds scalars, not {dtype}")
    extents = _indices(shape if isinstance(shape, Sequence) else (shape,), f"an extent of {name}")
    steps = _indices(strides, f"a stride of {name}")
    if steps and len(steps) != len(extents):
        raise TypeMismatch(f"{name} has {len(extents)} dimensions, {len(steps)} strides given")
    return Buffer(name, extents, dtype, scope or "global", steps, tuple(axis_separators))


def _indices(items: Sequence[ExprLike], what: str) -> tuple[Expr, ...]:
    out = tuple([convert(i, INDEX if isinstance(i, int) else None) for i in items])
    for e in out:
        if not dt.is_int(e.dtype):
            raise TypeMismatch(f"{what} is of type {e.dtype}; legal: an integer")
    return out
