"""Relay expressions: read-only views of the values of a graph program.

There is no second graph IR. A view holds one of smelt's nodes (`.node`) and answers in Relay's
words; two views are equal if they show the same node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from smelt.ir.errors import TypeMismatch
from smelt.ir.node import Node
from smelt.ir.types import TensorType, tensor_type
from smelt.relax import nodes as relax
from smelt.runtime import NDArray, array

from .op import Op, get
from .printer import expression_text
from .table import describe

__all__ = ["Attrs", "Call", "Constant", "Expr", "GlobalVar", "If", "Tuple", "TupleGetItem", "Var",
           "const", "unwrap", "var", "view"]  # fmt: skip

Scope = Mapping[str, Node]


class Attrs(Mapping[str, Any]):
    """The attributes of a call, under Relay's names: `attrs.strides` or `attrs["strides"]`."""

    def __init__(self, op: str, values: Mapping[str, Any]) -> None:
        """Name the operator, for messages."""
        self._op, self._values = op, dict(values)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in self._values:
            return self._values[name]
        known = ", ".join(self._values) or "none"
        raise AttributeError(f"{self._op} has no attribute {name!r}; attributes: {known}")

    def __repr__(self) -> str:
        return f"{self._op} {self._values}"


class Expr:
    """A value. Made by `view`."""

    __slots__ = ("node", "scope")

    def __init__(self, node: Any, scope: Scope | None = None) -> None:
        """Show a node; scope: the functions of its module."""
        self.node = node
        self.scope: Scope = scope if scope is not None else {}

    @property
    def checked_type(self) -> Any:
        """The type: smelt's TensorType (shape, dtype) or TupleType."""
        return self.node.type

    def operands(self) -> tuple[Any, ...]:
        """The expressions that this one is made of."""
        return ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and other.node is self.node

    def __hash__(self) -> int:
        return hash(id(self.node))

    def __str__(self) -> str:
        return expression_text(self.node, self.scope)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"


class Var(Expr):
    """A parameter."""

    __slots__ = ()

    @property
    def name_hint(self) -> str:
        """Its name."""
        return str(self.node.name)

    @property
    def type_annotation(self) -> Any:
        """Its type."""
        return self.node.type


class Constant(Expr):
    """An array known at compile time."""

    __slots__ = ()

    @property
    def data(self) -> NDArray:
        """A copy of the array."""
        return array(self.node.data)


class GlobalVar(Expr):
    """A function of the module, by name."""

    __slots__ = ()

    @property
    def name_hint(self) -> str:
        """Its name."""
        return str(self.node.name)

    def __str__(self) -> str:
        return f"@{self.name_hint}"


class Call(Expr):
    """An operator, or a function of the module, applied to values."""

    __slots__ = ()

    @property
    def op(self) -> Any:
        """An Op; the function itself where a fused group is called; a GlobalVar otherwise."""
        callee = self.node.op
        if not isinstance(callee, relax.GlobalVar):
            return get(describe(self.node)[0])
        f = self.scope.get(callee.name)
        fused = isinstance(f, relax.Function) and f.attrs.get("primitive")
        return f if fused else GlobalVar(callee, self.scope)

    @property
    def args(self) -> tuple[Any, ...]:
        """The operands; those left out are not counted, those of concatenate are one tuple."""
        given = [a for a in self.node.args if a is not None]
        if getattr(self.node.op, "variadic", False):
            return (view(relax.Tuple(tuple(given)), self.scope),)
        return tuple([view(a, self.scope) for a in given])

    @property
    def attrs(self) -> Attrs:
        """The attributes, under Relay's names."""
        if isinstance(self.node.op, relax.GlobalVar):
            return Attrs(f"@{self.node.op.name}", {})
        return Attrs(*describe(self.node))

    def operands(self) -> tuple[Any, ...]:
        """The operator, then the operands."""
        return (self.op, *self.args)


class Tuple(Expr):
    """Several values together."""

    __slots__ = ()

    @property
    def fields(self) -> tuple[Any, ...]:
        """The values."""
        return tuple([view(i, self.scope) for i in self.node.items])

    def operands(self) -> tuple[Any, ...]:
        """The values."""
        return self.fields


class TupleGetItem(Expr):
    """One value of a tuple."""

    __slots__ = ()

    @property
    def tuple_value(self) -> Any:
        """The tuple."""
        return view(self.node.value, self.scope)

    @property
    def index(self) -> int:
        """Which value of it."""
        return int(self.node.index)

    def operands(self) -> tuple[Any, ...]:
        """The tuple."""
        return (self.tuple_value,)


class If(Expr):
    """A branch."""

    __slots__ = ()

    @property
    def cond(self) -> Any:
        """The scalar bool that decides."""
        return view(self.node.condition, self.scope)

    @property
    def true_branch(self) -> Any:
        """The value where it is true."""
        return view(self.node.then_branch.body, self.scope)

    @property
    def false_branch(self) -> Any:
        """The value where it is false."""
        return view(self.node.else_branch.body, self.scope)

    def operands(self) -> tuple[Any, ...]:
        """Condition and branches."""
        return (self.cond, self.true_branch, self.false_branch)


_VIEWS: dict[type, type[Expr]] = {
    relax.Var: Var,
    relax.Constant: Constant,
    relax.GlobalVar: GlobalVar,
    relax.Call: Call,
    relax.Tuple: Tuple,
    relax.TupleGetItem: TupleGetItem,
    relax.If: If,
}


def view(node: Any, scope: Scope | None = None) -> Any:
    """A node of a graph program as a Relay expression; functions are their own view.

    scope  the functions of its module, so that fused groups can be entered
    """
    if isinstance(node, Expr | Op | relax.Function):
        return node
    made = _VIEWS.get(type(node))
    if made is None:
        raise TypeMismatch(f"relay.view: a {type(node).__name__} is no value of a graph program")
    return made(node, scope)


def unwrap(value: Any) -> Any:
    """The node behind a view; other values as they are."""
    return value.node if isinstance(value, Expr) else value


def var(
    name_hint: str, type_annotation: TensorType | None = None, shape: Any = None,
    dtype: str = "float32",
) -> Var:  # fmt: skip
    """A parameter for a function, of a type or of a shape and dtype."""
    if (type_annotation is None) == (shape is None):
        raise TypeMismatch(f"relay.var({name_hint!r}): give either a type or a shape")
    t = type_annotation if type_annotation is not None else tensor_type(tuple(shape), dtype)
    return Var(relax.Var(name_hint, t))


def const(value: npt.ArrayLike | NDArray, dtype: str | None = None) -> Constant:
    """A constant: 64-bit Python numbers become 32-bit ones, as everywhere in Relay."""
    data = np.asarray(value)
    if dtype is not None:
        data = data.astype(dtype)
    elif not isinstance(value, np.ndarray | np.generic | NDArray):
        data = data.astype(
            {"float64": "float32", "int64": "int32"}.get(str(data.dtype), data.dtype)
        )
    return Constant(relax.constant(np.asarray(data, order="C")))
