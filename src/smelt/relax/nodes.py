"""Graph programs: a DAG of operator calls on tensors with symbolic shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import TypeMismatch
from smelt.ir.node import Node, postorder
from smelt.ir.text import Scripted
from smelt.ir.types import TensorType, TupleType, Type, tensor_type
from smelt.topi.registry import Op, get_op

__all__ = [
    "Call",
    "Constant",
    "Function",
    "GlobalVar",
    "If",
    "Let",
    "RelaxExpr",
    "Tuple",
    "TupleGetItem",
    "Var",
    "call",
    "call_tir",
    "constant",
    "rewrite",
    "tensor_type_of",
    "values",
]


class RelaxExpr(Node):
    """A value of a graph program. Has identity; `type` is what is known of it."""

    __extra_slots__: ClassVar[tuple[str, ...]] = ()

    @property
    def type(self) -> Type:
        """What is known of the value."""
        raise AttributeError(f"a {type(self).__name__} has no type of its own")


class Var(RelaxExpr):
    """A parameter."""

    name: str
    type: Type


class Constant(RelaxExpr):
    """An array known at compile time, held by reference. `name` tells where it comes from."""

    data: np.ndarray
    type: TensorType
    name: str = ""


class GlobalVar(Node):
    """A function of the module, by name."""

    name: str


class Call(RelaxExpr):
    """An operator, or a tensor program of the module (`GlobalVar`), applied to values.

    args   operands; None stands for an optional operand left out
    attrs  all attributes of the operator, in declared order
    type   the result's type: a TupleType where the operator has several results
    name   a hint for people: the node's name in the model
    """

    op: Op | GlobalVar
    args: tuple[RelaxExpr | None, ...]
    attrs: Mapping[str, Any]
    type: Type
    name: str = ""


class Tuple(RelaxExpr):
    """Several values together."""

    items: tuple[RelaxExpr, ...]

    @property
    def type(self) -> Type:
        """The tuple of the items' types."""
        return TupleType(tuple([i.type for i in self.items]))


class TupleGetItem(RelaxExpr):
    """One item of a tuple."""

    value: RelaxExpr
    index: int

    @property
    def type(self) -> Type:
        """The item's type."""
        t = self.value.type
        assert isinstance(t, TupleType)
        return t.items[self.index]


class Function(Scripted, RelaxExpr):
    """A graph function. A Tuple as body returns several results.

    attrs  plain data, e.g. {"output_names": (...)}
    """

    params: tuple[Var, ...]
    body: RelaxExpr
    attrs: Mapping[str, Any] = {}

    def results(self) -> tuple[RelaxExpr, ...]:
        """The results one by one."""
        return self.body.items if isinstance(self.body, Tuple) else (self.body,)


class If(RelaxExpr):
    """A branch on a scalar bool; the branches are functions without parameters of their own."""

    condition: RelaxExpr
    then_branch: Function
    else_branch: Function
    type: Type


class Let(RelaxExpr):
    """A value under a name: `body`, in which `var` stands for `value`."""

    var: Var
    value: RelaxExpr
    body: RelaxExpr

    @property
    def type(self) -> Type:
        """The body's type."""
        return self.body.type


def tensor_type_of(x: RelaxExpr | None) -> TensorType:
    """The type of a value that is one tensor."""
    assert x is not None
    t = x.type
    assert isinstance(t, TensorType)
    return t


def constant(data: np.ndarray, name: str = "") -> Constant:
    """A constant from an array, which is referred to and not copied."""
    return Constant(data, tensor_type(data.shape, dt.from_numpy(data.dtype)), name)


def call(op: Op | str, *args: RelaxExpr | None, name: str = "", **attrs: Any) -> Call:
    """An operator applied to values; the result's type is inferred."""
    op = get_op(op) if isinstance(op, str) else op
    full = op.normalize(attrs)
    types = [None if a is None else _tensor_type(op, i, a) for i, a in enumerate(args)]
    out = op.infer(types, full)
    return Call(op, args, full, out[0] if len(out) == 1 else TupleType(out), name)


def _tensor_type(op: Op, index: int, arg: RelaxExpr) -> TensorType:
    t = arg.type
    if not isinstance(t, TensorType):
        raise TypeMismatch(f"{op.name}: operand {index} is a tuple; take one of its items")
    return t


def call_tir(func: GlobalVar, args: Sequence[RelaxExpr], type: Type, name: str = "") -> Call:
    """A tensor program of the module applied to values; results have the given type."""
    return Call(func, tuple(args), {}, type, name)


def values(root: RelaxExpr) -> Iterator[RelaxExpr]:
    """Every value below `root` once, operands first; branches are not entered."""
    for node in postorder(root):
        if isinstance(node, RelaxExpr):
            yield node


def rewrite(f: Function, fn: Callable[[Any], RelaxExpr | None]) -> Function:
    """A function with `fn` applied to each value, operands first.

    fn  gets a value whose operands are already rewritten; None or the value itself keeps it
    """
    memo: dict[int, RelaxExpr] = {}
    for node in postorder(f.body):
        if isinstance(node, RelaxExpr):
            new = node.with_children(lambda c: memo.get(id(c), c))
            replaced = fn(new)
            memo[id(node)] = new if replaced is None else replaced
    body = memo[id(f.body)]
    return f if body is f.body else f.replace(body=body)
