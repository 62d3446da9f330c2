"""Relay's types: names for the types of the one graph IR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir import types
from smelt.ir.classic_class import classic_class
from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import Expr


def checked_type(shape: Any, dtype: Any, where: str) -> types.TensorType:
    """A tensor's type from what a user gives. where: for messages.

    shape  extents from 0 or expressions; one number is a vector's
    dtype  a name, or what numpy calls a dtype
    """
    if isinstance(shape, int | np.integer):
        shape = (shape,)
    try:
        name = dt.from_numpy(np.dtype(dtype)) if not isinstance(dtype, str) else dtype
        dt.kind(name)
    except TypeError as e:
        raise TypeMismatch(f"{where}: {e}") from None
    extents = [int(d) if isinstance(d, np.integer) else d for d in shape]
    for d in extents:
        if not isinstance(d, int | Expr) or isinstance(d, bool) or (isinstance(d, int) and d < 0):
            raise TypeMismatch(
                f"{where}: the shape {tuple(extents)} has an extent {d!r}; legal: numbers from 0, "
                "relay.Any(), symbolic sizes"
            )
    return types.tensor_type(tuple(extents), name)


@classic_class(types.Type)
def Type(*given: Any) -> Any:
    """Any type."""
    raise TypeError("relay.Type is the class of all types; make one of its kinds")


@classic_class(types.TensorType)
def TensorType(shape: Sequence[Any], dtype: str = "float32") -> types.TensorType:
    """A tensor: `relay.TensorType(shape, dtype="float32")`.

    A tensor's type; extents are numbers, relay.Any() or symbolic sizes.
    """
    return checked_type(shape, dtype, "relay.TensorType")


@classic_class(types.TupleType)
def TupleType(fields: Sequence[types.Type]) -> types.TupleType:
    """Several values: `relay.TupleType([a, b])`."""
    return types.TupleType(tuple(fields))


@classic_class(types.FuncType)
def FuncType(
    arg_types: Sequence[types.Type],
    ret_type: types.Type,
    type_params: Sequence[Any] | None = None,
    type_constraints: Sequence[Any] | None = None,
) -> types.FuncType:
    """A function: `relay.FuncType(arg_types, ret_type)`."""
    return types.FuncType(tuple(arg_types), ret_type, tuple(type_params or ()))


@classic_class(types.TypeVar)
def TypeVar(name_hint: str, kind: object = None) -> types.TypeVar:
    """A type that stands for any other: `relay.TypeVar("a")`. Each is another one."""
    return types.TypeVar(name_hint)


@classic_class(types.GlobalTypeVar)
def GlobalTypeVar(name_hint: str, kind: object = None) -> types.GlobalTypeVar:
    """A data type of the module by name: `relay.GlobalTypeVar("List")`."""
    return types.GlobalTypeVar(name_hint)


@classic_class(types.TypeCall)
def TypeCall(func: types.GlobalTypeVar, args: Sequence[types.Type]) -> types.TypeCall:
    """A data type applied to types: `relay.TypeCall(List, [a])`."""
    return types.TypeCall(func, tuple(args))


@classic_class(types.IncompleteType)
def IncompleteType(kind: object = None) -> types.IncompleteType:
    """A type that inference has to find.

    The type that is not known yet.
    """
    return types.IncompleteType()


def scalar_type(dtype: str) -> types.TensorType:
    """The type of one number."""
    return types.tensor_type((), dtype)
