"""Tensors made of nothing, or of the shape of another one."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.ir.expr import Expr

from ..compose import create
from ..compose.common import dtype_of, legal, rank_of, shape_of
from ..compose.operands import const
from ..nodes import RelaxExpr, call, constant
from .entry import entry, number_given, same, shape_given, size_given


@entry("full")
def full(shape: Any, fill_value: Any, dtype: str | None = None) -> RelaxExpr:
    """A tensor of one value, a number or a scalar; dtype None: of its type."""
    return create.full(shape_given(shape), _value(fill_value, dtype), dtype)


@entry("full_like")
def full_like(x: RelaxExpr, fill_value: Any, dtype: str | None = None) -> RelaxExpr:
    """One value in the shape (and type, where dtype is None) of a tensor."""
    kind = dtype or dtype_of(x)
    return create.full(shape_of(x), _value(fill_value, kind), kind)


def _value(given: Any, dtype: str | None) -> RelaxExpr:
    return given if isinstance(given, RelaxExpr) else const(given, dtype or None)


def _all(name: str, value: float) -> None:
    def like(x: RelaxExpr, dtype: str | None = None) -> RelaxExpr:
        return call("full", shape=shape_of(x), value=value, dtype=dtype or dtype_of(x))

    like.__doc__ = f"All {value:g}, in the shape (and type, where dtype is None) of a tensor."
    same(name, "", core="full", fixed={"value": value}, forms={"shape": shape_given},
         required="shape", dtype="float32")  # fmt: skip
    entry(f"{name}_like", core="full")(like)


_all("zeros", 0.0)
_all("ones", 1.0)


@entry("eye", core="eye")
def eye(n: Any, m: Any = None, k: Any = 0, dtype: str = "float32") -> RelaxExpr:
    """n rows and m columns (None: n) with ones on the diagonal k."""
    rows = size_given(n)
    columns = rows if m is None else size_given(m)
    return call("eye", rows=rows, columns=columns, k=size_given(k), dtype=dtype)


@entry("eye_like", core="eye")
def eye_like(x: RelaxExpr, k: Any = 0, dtype: str | None = None) -> RelaxExpr:
    """Ones on the diagonal k, in the shape of a matrix."""
    legal(rank_of(x) == 2, f"x has {rank_of(x)} dimensions; 2 are legal")
    rows, columns = shape_of(x)
    return call("eye", rows=rows, columns=columns, k=size_given(k), dtype=dtype or dtype_of(x))


@entry("arange", core="arange")
def arange(start: Any, end: Any = None, step: Any = 1, dtype: str | None = None) -> RelaxExpr:
    """start, start + step, ... up to end; one argument alone is the end.

    dtype  None: int64 where all three are integers, else float32
    """
    if end is None:
        start, end = 0, start
    first, last, by = (number_given(v) for v in (start, end, step))
    whole = all(isinstance(v, int | Expr) for v in (first, last, by))
    return create.arange(first, last, by, dtype or ("int64" if whole else "float32"))


@entry("hamming_window")
def hamming_window(
    window_size: Any, periodic: Any = True, alpha: Any = 0.54, beta: Any = 0.46,
    dtype: str = "float32",
) -> RelaxExpr:  # fmt: skip
    """alpha - beta * cos(2 pi i / n), n the size of a periodic window and one less otherwise."""
    count = size_given(window_size)
    legal(isinstance(count, int), "window_size has to be a number")
    n = count if number_given(periodic) else count - 1
    turns = np.arange(count) * (2 * np.pi / max(n, 1))
    made = float(number_given(alpha)) - float(number_given(beta)) * np.cos(turns)
    return constant((np.ones(count) if count == 1 else made).astype(dtype))


for _name, _upper in (("tril", False), ("triu", True)):
    same(_name, "x", core="trilu", fixed={"upper": _upper}, forms={"k": size_given}, k=0)
