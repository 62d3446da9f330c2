"""Struct info by its Relax names: these are the types of the one graph IR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smelt.ir import types
from smelt.ir.errors import TypeMismatch, Unsupported
from smelt.ir.expr import Expr
from smelt.ir.expr import Var as SizeVar
from smelt.ir.face import Face

__all__ = ["FuncStructInfo", "ObjectStructInfo", "PrimStructInfo", "ShapeStructInfo", "StructInfo",
           "TensorStructInfo", "TupleStructInfo", "struct_info_of"]  # fmt: skip


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


class StructInfo(metaclass=Face):
    """Any type."""

    node = types.Type

    @staticmethod
    def make(*given: Any) -> Any:
        """Types are made by their own classes."""
        raise TypeMismatch("relax.StructInfo is the class of all types; make one of its kinds")


class TensorStructInfo(metaclass=Face):
    """A tensor: `relax.TensorStructInfo(shape, dtype="float32")`."""

    node = types.TensorType

    @staticmethod
    def make(
        shape: Sequence[Any] | None = None,
        dtype: str = "float32",
        vdevice: None = None,
        ndim: int = -1,
    ) -> types.TensorType:
        """A tensor's type; of an ndim alone, every extent is a new size."""
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


class TupleStructInfo(metaclass=Face):
    """Several values: `relax.TupleStructInfo([a, b])`."""

    node = types.TupleType

    @staticmethod
    def make(fields: Sequence[Any]) -> types.TupleType:
        """A tuple's type."""
        where = "relax.TupleStructInfo: a field"
        return types.TupleType(tuple([struct_info_of(f, where) for f in fields]))


class FuncStructInfo(metaclass=Face):
    """A function: `relax.FuncStructInfo(params, ret)`."""

    node = types.FuncType

    @staticmethod
    def make(params: Sequence[Any], ret: Any, purity: bool = True) -> types.FuncType:
        """A function's type."""
        if not purity:
            raise Unsupported("relax.FuncStructInfo: functions of a graph have no side effects")
        where = "relax.FuncStructInfo: a parameter"
        made = tuple([struct_info_of(p, where) for p in params])
        return types.FuncType(made, struct_info_of(ret, "relax.FuncStructInfo: the result"))


class ObjectStructInfo(metaclass=Face):
    """A value of which nothing is known: inference finds it out."""

    node = types.IncompleteType

    @staticmethod
    def make() -> types.IncompleteType:
        """The type that is not known yet."""
        return types.IncompleteType()


class PrimStructInfo(metaclass=Face):
    """One number: `relax.PrimStructInfo("int64")` is the type of a tensor without dimensions."""

    node = _Nothing

    @staticmethod
    def make(dtype: str | Expr | None = None, value: Expr | None = None) -> types.TensorType:
        """The type of a number; numbers and their tensors are the same here."""
        kind = dtype if isinstance(dtype, str) else getattr(dtype or value, "dtype", "int64")
        return types.tensor_type((), kind)


class ShapeStructInfo(metaclass=Face):
    """A shape as a value: there is none here."""

    node = _Nothing

    @staticmethod
    def make(values: Any = None, ndim: int = -1) -> Any:
        """Shapes are known to the compiler and are no values of a program."""
        raise Unsupported(
            "relax.ShapeStructInfo: shapes are known to the compiler and are no values of a "
            "program; legal: relax.ShapeExpr as an argument of an operator, sizes in tensors' types"
        )
