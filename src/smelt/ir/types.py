"""Types of graph values: tensors with symbolic shapes, tuples of them, functions."""

from __future__ import annotations

from collections.abc import Sequence

from . import dtype as dt
from .expr import INDEX, Expr, ExprLike, IntImm, convert
from .node import Node

__all__ = ["FuncType", "IncompleteType", "TensorType", "TupleType", "Type", "tensor_type"]


class Type(Node, interned=True):
    """What is known of a value before it exists."""


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
        out = []
        for e in self.shape:
            if not isinstance(e, IntImm):
                return None
            out.append(e.value)
        return tuple(out)

    def elements(self) -> Expr:
        """The number of elements."""
        count = convert(1, INDEX)
        for e in self.shape:
            count = count * e
        return count

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
    """A function: what it takes and what it gives."""

    arg_types: tuple[Type, ...]
    ret_type: Type


class IncompleteType(Type, interned=True):
    """Not known yet: inference fills it in. A call with such an operand has such a result."""


def tensor_type(shape: Sequence[ExprLike], dtype: str = "float32") -> TensorType:
    """A tensor's type from extents given as numbers or expressions."""
    return TensorType(tuple([convert(e, INDEX) for e in shape]), dtype)
