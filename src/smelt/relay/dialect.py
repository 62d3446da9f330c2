"""Relay's dialect: its operators, and how Python values become operands of calls of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from smelt.ir.errors import TypeMismatch
from smelt.ir.types import TensorType, TupleType
from smelt.relax import nodes as core
from smelt.relax.graph_op import Dialect, GraphOp
from smelt.relax.nodes import RelaxExpr
from smelt.runtime import NDArray
from smelt.topi.registry import Op

__all__ = ["FUNCTIONS", "RELAY", "Face", "builder", "const", "find_builder", "make", "names",
           "relay_function", "relay_op", "value", "wrapped"]  # fmt: skip

RELAY = Dialect("relay")
relay_op = RELAY.op

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""Builders written by hand, by name: their arguments are not the operands and attributes of the
operator of that name, or there is no such operator."""


def relay_function(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function as the builder `relay.<name>`."""

    def enter(fn: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS[name] = fn
        return fn

    return enter


def find_builder(name: str) -> Callable[..., Any] | None:
    """The builder of a name: the one written by hand, or the operator's own."""
    return FUNCTIONS.get(name) or (builder(RELAY.ops[name]) if name in RELAY.ops else None)


def names() -> set[str]:
    """The names of all builders."""
    return {*RELAY.ops, *FUNCTIONS}


class Face(type):
    """A classic class name for nodes of the core: calling it makes a node by `make`.

    `isinstance` asks for the core's class, `node`.
    """

    node: type
    make: Callable[..., Any]

    def __call__(cls, *args: Any, **named: Any) -> Any:
        """A node."""
        return cls.make(*args, **named)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.node)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.node) or type.__subclasscheck__(cls, subclass)


def const(value: Any, dtype: str | None = None) -> core.Constant:
    """A constant: 64-bit Python numbers become 32-bit ones, as everywhere in Relay."""
    data = np.asarray(value)
    if data.dtype.kind not in "biufV":
        raise TypeMismatch(f"relay.const: {value!r} is {data.dtype}; legal: numbers and arrays")
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


def make(op: Op | str, *given: Any, **attrs: Any) -> core.Call:
    """A call of an operator on expressions, and numbers beside them; its type is inferred."""
    found = RELAY.get(op) if isinstance(op, str) else op
    dtype = next(
        (
            g.type.dtype
            for g in given
            if isinstance(g, RelaxExpr) and isinstance(g.type, TensorType)
        ),
        None,
    )
    names = [*found.operands, *[str(i) for i in range(len(given))]]
    operands = [
        None if g is None else value(g, f"{found.name}: the operand {n}", dtype)
        for g, n in zip(given, names, strict=False)
    ]
    return core.call(found, *operands, **attrs)


RELAY.make = make


def builder(op: Op) -> Callable[..., Any]:
    """The function that makes calls of an operator, as `relay.nn.conv2d(...)` is used.

    Attributes may be given by position behind the operands, in their declared order. Several
    results come as a TupleWrapper.
    """

    def build(*given: Any, **named: Any) -> Any:
        operands, attrs = _arguments(op, given, named)
        return wrapped(make(op, *operands, **attrs))

    build.__name__ = build.__qualname__ = op.name
    build.__doc__ = op.__doc__
    return build


def wrapped(made: core.Call) -> Any:
    """A call as builders return it: one with several results as a TupleWrapper."""
    if isinstance(made.type, TupleType):
        return TupleWrapper(made, len(made.type.items))
    count = made.op.results if isinstance(made.op, GraphOp) else 1
    count = count if isinstance(count, int) else count(made)
    return TupleWrapper(made, count) if count != 1 else made


def _arguments(
    op: Op, given: tuple[Any, ...], named: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The operands and the attributes among a builder's arguments."""
    if op.variadic:
        return list(given), named
    count = len(op.operands)
    if len(given) > count + len(op.attributes):
        raise TypeMismatch(
            f"{op.name}: {len(given)} arguments given; it takes "
            f"{', '.join([*op.operands, *op.attributes])}"
        )
    attrs = dict(zip(op.attributes, given[count:], strict=False))
    operands: list[Any] = list(given[:count])
    for name in op.operands[len(operands) :]:
        operands.append(named.pop(name, None))
    while operands and operands[-1] is None:
        operands.pop()
    for name, x in named.items():
        if name in attrs or name in op.operands:
            raise TypeMismatch(f"{op.name}: {name} is given twice")
        attrs[name] = x
    return operands, attrs


class TupleWrapper:
    """A call with several results that can be unpacked: `a, b = relay.split(x, 2)`."""

    def __init__(self, tuple_value: RelaxExpr, size: int) -> None:
        """Keep the value and the number of its items."""
        self.tuple_value, self.size = tuple_value, size

    def astuple(self) -> RelaxExpr:
        """The value itself."""
        return self.tuple_value

    def astext(self) -> str:
        """Its text."""
        return str(self.tuple_value)

    @property
    def checked_type(self) -> Any:
        """Its type."""
        return self.tuple_value.checked_type

    def __getitem__(self, index: int) -> core.TupleGetItem:
        if not -self.size <= index < self.size:
            raise IndexError(f"item {index} of a tuple with {self.size} items")
        return core.TupleGetItem(self.tuple_value, index % self.size)

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"TupleWrapper({self.tuple_value}, {self.size})"
