"""Python values as operands of calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.ir.errors import TypeMismatch
from smelt.runtime import NDArray

from .. import nodes as core
from ..nodes import RelaxExpr

Indices = RelaxExpr
"""An operand of integers: plain numbers are int64 whatever stands beside them."""


def const(value: Any, dtype: str | None = None) -> core.Constant:
    """A constant: 64-bit Python numbers become 32-bit ones, as in Relay and Relax."""
    data = np.asarray(value)
    if data.dtype.kind not in "biufV":
        raise TypeMismatch(f"const: {value!r} is {data.dtype}; legal: numbers and arrays")
    if dtype is not None:
        data = data.astype(dtype)
    elif not isinstance(value, np.ndarray | np.generic | NDArray):
        narrow = {"float64": "float32", "int64": "int32"}
        data = data.astype(narrow.get(str(data.dtype), data.dtype))
    return core.constant(np.asarray(data, order="C"))


def value(given: Any, where: str, dtype: str | None = None) -> RelaxExpr:
    """An operand: an expression as it is, sequences as tuples, numbers and arrays as constants.

    where  what it is given for, for messages
    dtype  of a plain number, where an operand beside it tells
    """
    if isinstance(given, RelaxExpr):
        return given
    if hasattr(given, "astuple"):
        return given.astuple()  # type: ignore[no-any-return]
    if isinstance(given, list | tuple):
        return core.Tuple(tuple([value(g, where, dtype) for g in given]))
    if isinstance(given, bool | int | float):
        return const(given, dtype)
    if isinstance(given, np.ndarray | np.generic | NDArray):
        return const(given)
    raise TypeMismatch(
        f"{where} is {type(given).__name__} {given!r}; legal: an expression, a sequence of them, "
        "a number or an array"
    )
