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
    data: None = None,
    strides: Sequence[ExprLike] | None = (),
    elem_offset: ExprLike | None = None,
    scope: str = "",
    data_alignment: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Sequence[int] | None = (),
) -> Buffer:
    """A buffer, e.g. for the parameters of a PrimFunc that is built by hand.

    shape            extents in elements: numbers or expressions
    strides          elements between neighbours per dimension; empty = row-major and dense
    scope            "global" ("" too), "local", "shared", ...
    axis_separators  positions between dimensions that cut memory of several dimensions
    data_alignment, offset_factor, elem_offset  promises that nothing here needs
    """
    if data is not None or buffer_type not in ("", "default"):
        raise TypeMismatch(
            f"{name}: data is {data!r}, buffer_type {buffer_type!r}\n"
            '  legal: data=None, buffer_type="": a new buffer, read as it is declared'
        )
    if dt.lanes(dtype) > 1:
        raise TypeMismatch(f"{name}: a buffer holds scalars, not {dtype}")
    extents = _indices(shape if isinstance(shape, Sequence) else (shape,), f"an extent of {name}")
    steps = _indices(strides or (), f"a stride of {name}")
    if steps and len(steps) != len(extents):
        raise TypeMismatch(f"{name} has {len(extents)} dimensions, {len(steps)} strides given")
    return Buffer(name, extents, dtype, scope or "global", steps, tuple(axis_separators or ()))


def _indices(items: Sequence[ExprLike], what: str) -> tuple[Expr, ...]:
    out = tuple([convert(i, INDEX if isinstance(i, int) else None) for i in items])
    for e in out:
        if not dt.is_int(e.dtype):
            raise TypeMismatch(f"{what} is of type {e.dtype}; legal: an integer")
    return out
