"""Types of graph values: tensors with symbolic shapes, tuples of them, functions, data types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar as Generic

from smelt.ir.expr import numbers_of

from . import dtype as dt
from .build import product
from .expr import INDEX, Expr, ExprLike, convert
from .node import Node

T = Generic("T", bound="Type")


class Type(Node, interned=True):
    """What is known of a value before it exists."""


def parts_of(t: Type) -> list[Type]:
    """The types that a type is made of directly."""
    return [c for c in t.children() if isinstance(c, Type)]


def on_parts(t: T, fn: Callable[[Type], Type]) -> T:
    """A type on what a function makes of those that it is made of."""
    return t.with_children(lambda c: fn(c) if isinstance(c, Type) else c)


class TensorType(Type, interned=True):
    """A tensor: extents (constants or expressions over symbolic sizes) and element type."""

    shape: tuple[Expr, ...]
    dtype: str

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def fixed_shape(self) -> tuple[int, ...] | None:
        """The extents as Python integers, or None where one is symbolic."""
        return numbers_of(self.shape)

    def elements(self) -> Expr:
        """The number of elements."""
        return product(self.shape)

    def bytes(self) -> Expr:
        """The size in memory, dense."""
        return self.elements() * dt.bytes_of(self.dtype)


class TupleType(Type, interned=True):
    """Several values together."""

    items: tuple[Type, ...]

    @property
    def fields(self) -> tuple[Type, ...]:
        """The types of the values."""
        return self.items


class FuncType(Type, interned=True):
    """A function: what it takes and what it gives, for all types in the place of type_params."""

    arg_types: tuple[Type, ...]
    ret_type: Type
    type_params: tuple[TypeVar, ...] = ()


class Named:
    """What has a name, by which the classic stack knows it too."""

    __slots__ = ()

    name: str

    @property
    def name_hint(self) -> str:
        """Its name."""
        return self.name


class TypeVar(Named, Type, interned=False):
    """A type that stands for any other in a function or a data type. Has identity."""

    name: str


class GlobalTypeVar(Named, Type, interned=True):
    """A data type of the module, by name."""

    name: str

    def __call__(self, *args: Type) -> TypeCall:
        """The data type of values of these types: List(tensor)."""
        return TypeCall(self, args)


class TypeCall(Type, interned=True):
    """A data type applied to types: the lists of a tensor."""

    func: GlobalTypeVar
    args: tuple[Type, ...]


class IncompleteType(Type, interned=True):
    """Not known yet: inference fills it in. A call with such an operand has such a result."""


def tensor_type(shape: Sequence[ExprLike], dtype: str = "float32") -> TensorType:
    """A tensor's type from extents given as numbers or expressions."""
    return TensorType(tuple([convert(e, INDEX) for e in shape]), dtype)
