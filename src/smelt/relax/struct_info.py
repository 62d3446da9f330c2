"""Struct info by its Relax names: these are the types of the one graph IR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smelt.ir import types
from smelt.ir.classic_class import classic_class
from smelt.ir.errors import TypeMismatch, Unsupported
from smelt.ir.expr import Expr
from smelt.ir.expr import Var as SizeVar


class _Nothing:
    """What no value is an instance of."""


def struct_info_of(given: Any, where: str) -> types.Type:
    """A type: as it is, or what an annotation such as R.Tensor((2, 3), "float32") says.

    where  what it is given for, for messages
    """
    made = given.as_type() if hasattr(given, "as_type") else given
    if not isinstance(made, types.Type):
        raise TypeMismatch(
            f"{where} is {type(given).__name__} {given!r}; legal: relax.TensorStructInfo((2, 3), "
            '"float32"), relax.TupleStructInfo(...), R.Tensor((2, 3), "float32")'
        )
    return made


@classic_class(types.Type)
def StructInfo(*given: Any) -> Any:
    """Any type."""
    raise TypeMismatch("relax.StructInfo is the class of all types; make one of its kinds")


@classic_class(types.TensorType)
def TensorStructInfo(
    shape: Sequence[Any] | None = None, dtype: str = "float32", vdevice: None = None, ndim: int = -1
) -> types.TensorType:
    """A tensor: `relax.TensorStructInfo(shape, dtype="float32")`.

    A tensor's type; of an ndim alone, every extent is a new size.
    """
    if vdevice is not None:
        raise Unsupported("relax.TensorStructInfo: a tensor has no device of its own")
    if shape is None:
        if ndim < 0:
            raise TypeMismatch("relax.TensorStructInfo: give a shape, or ndim")
        return types.tensor_type([SizeVar(f"s_{d}") for d in range(ndim)], dtype)
    extents = tuple(getattr(shape, "values", shape))
    if ndim not in (-1, len(extents)):
        raise TypeMismatch(
            f"relax.TensorStructInfo: ndim is {ndim}, the shape has {len(extents)} dimensions"
        )
    return types.tensor_type(extents, dtype)


@classic_class(types.TupleType)
def TupleStructInfo(fields: Sequence[Any]) -> types.TupleType:
    """Several values: `relax.TupleStructInfo([a, b])`."""
    where = "relax.TupleStructInfo: a field"
    return types.TupleType(tuple([struct_info_of(f, where) for f in fields]))


@classic_class(types.FuncType)
def FuncStructInfo(params: Sequence[Any], ret: Any, purity: bool = True) -> types.FuncType:
    """A function: `relax.FuncStructInfo(params, ret)`."""
    if not purity:
        raise Unsupported("relax.FuncStructInfo: functions of a graph have no side effects")
    where = "relax.FuncStructInfo: a parameter"
    made = tuple([struct_info_of(p, where) for p in params])
    return types.FuncType(made, struct_info_of(ret, "relax.FuncStructInfo: the result"))


@classic_class(types.IncompleteType)
def ObjectStructInfo() -> types.IncompleteType:
    """A value of which nothing is known: inference finds it out.

    The type that is not known yet.
    """
    return types.IncompleteType()


@classic_class(_Nothing)
def PrimStructInfo(dtype: str | Expr | None = None, value: Expr | None = None) -> types.TensorType:
    """One number: `relax.PrimStructInfo("int64")` is the type of a tensor without dimensions.

    The type of a number; numbers and their tensors are the same here.
    """
    kind = dtype if isinstance(dtype, str) else getattr(dtype or value, "dtype", "int64")
    return types.tensor_type((), kind)


@classic_class(_Nothing)
def ShapeStructInfo(values: Any = None, ndim: int = -1) -> Any:
    """A shape as a value: there is none here.

    Shapes are known to the compiler and are no values of a program.
    """
    raise Unsupported(
        "relax.ShapeStructInfo: shapes are known to the compiler and are no values of a "
        "program; legal: relax.ShapeExpr as an argument of an operator, sizes in tensors' types"
    )
