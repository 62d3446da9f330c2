"""Relay's expression classes: names for nodes of the one graph IR, and how Relay makes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any as Anything
from typing import ClassVar

import numpy as np

from smelt.ir.classic_class import classic_class
from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import INDEX
from smelt.ir.expr import Var as SizeVar
from smelt.ir.types import IncompleteType, TupleType, Type
from smelt.relax import graph
from smelt.relax import nodes as core
from smelt.relax.nodes import CallAttrs, RelaxExpr
from smelt.topi.registry import Op

from . import dialect
from .dialect import RELAY, make
from .dialect import const as const
from .ty import checked_type


class RelayVar(core.Var):
    """A variable of a Relay program: operators on it are Relay's."""

    dialect: ClassVar[Anything] = RELAY


@classic_class(SizeVar)
def Any() -> SizeVar:
    """An extent that is not known before the program runs: `relay.Any()`. Each is another one.

    A new symbolic size.
    """
    return SizeVar("any", INDEX)


@classic_class(RelaxExpr)
def Expr(*given: Anything) -> Anything:
    """Any value of a graph program."""
    raise TypeMismatch("relay.Expr is the class of all expressions; make one of its kinds")


@classic_class(core.Var)
def Var(name_hint: str, type_annotation: Type | None = None, span: object = None) -> core.Var:
    """A variable: `relay.Var(name_hint, type_annotation=None)`.

    Without a type, inference finds it.
    """
    return RelayVar(name_hint, IncompleteType() if type_annotation is None else type_annotation)


@classic_class(core.Constant)
def Constant(data: Anything, span: object = None) -> core.Constant:
    """An array known at compile time: `relay.Constant(array)`.

    A constant from a numpy array or an NDArray.
    """
    return const(np.asarray(data))


@classic_class(core.GlobalVar)
def GlobalVar(name_hint: str, type_annot: Type | None = None) -> core.GlobalVar:
    """A function of the module by name: `relay.GlobalVar("f")`; called, it makes a Call."""
    return core.GlobalVar(name_hint)


@classic_class(core.Call)
def Call(
    op: Anything,
    args: Sequence[Anything],
    attrs: Mapping[str, Anything] | None = None,
    type_args: Sequence[Type] | None = None,
    span: object = None,
) -> core.Call:
    """An operator, a function or a closure applied: `relay.Call(op, args, attrs=None)`.

    A call; the type of an operator's is inferred, a function's known from its own.
    """
    if isinstance(op, Op):
        return make(op, *args, **dict(attrs or {}))
    given = [dialect.value(a, "relay.Call: an operand") for a in args]
    made = core.call_function(op, given)
    return made if not attrs else made.replace(attrs=CallAttrs("a function", dict(attrs)))


@classic_class(core.Tuple)
def Tuple(fields: Sequence[Anything], span: object = None) -> core.Tuple:
    """Several values together: `relay.Tuple([a, b])`."""
    return core.Tuple(tuple([dialect.value(f, "relay.Tuple: a field") for f in fields]))


@classic_class(core.TupleGetItem)
def TupleGetItem(tuple_value: Anything, index: int, span: object = None) -> core.TupleGetItem:
    """One value of a tuple: `relay.TupleGetItem(t, 0)`."""
    whole = dialect.value(tuple_value, "relay.TupleGetItem: the tuple")
    t = whole.type
    if isinstance(t, TupleType) and not 0 <= index < len(t.items):
        raise TypeMismatch(f"relay.TupleGetItem: item {index} of a tuple of {len(t.items)}")
    if not isinstance(t, TupleType | IncompleteType):
        raise TypeMismatch("relay.TupleGetItem: the value is no tuple, but one tensor")
    return core.TupleGetItem(whole, int(index))


@classic_class(core.Function)
def Function(
    params: Sequence[core.Var],
    body: Anything,
    ret_type: Type | None = None,
    type_params: Sequence[Anything] | None = None,
    attrs: Mapping[str, Anything] | None = None,
    span: object = None,
) -> core.Function:
    """A function: `relay.Function(params, body, ret_type=None, type_params=None, attrs=None)`.

    A function. ret_type is checked where the body's type is known.
    """
    for p in params:
        if not isinstance(p, core.Var):
            raise TypeMismatch(f"relay.Function: a parameter is {type(p).__name__}, not a Var")
    if len(set(params)) < len(params):
        twice = next(p.name for p in params if list(params).count(p) > 1)
        raise TypeMismatch(f"relay.Function: the parameter {twice!r} is given twice")
    made = dialect.value(body, "relay.Function: the body")
    if ret_type is not None and not core.incomplete(made.type) and made.type is not ret_type:
        raise TypeMismatch(f"relay.Function: the body has another type than ret_type={ret_type}")
    given = dict(attrs or {})
    if type_params:
        given["type_params"] = tuple(type_params)
    return core.Function(tuple(params), made, given)


@classic_class(core.If)
def If(
    cond: Anything, true_branch: Anything, false_branch: Anything, span: object = None
) -> core.If:
    """A branch: `relay.If(cond, true_branch, false_branch)`.

    A branch on a scalar bool; both sides have one type.
    """
    yes = dialect.value(true_branch, "relay.If: true_branch")
    no = dialect.value(false_branch, "relay.If: false_branch")
    types = [t for t in (yes.type, no.type) if not core.incomplete(t)]
    if len(types) == 2 and types[0] is not types[1]:
        raise TypeMismatch(
            f"relay.If: the branches have different types: {types[0]} and {types[1]}"
        )
    t = types[0] if types else IncompleteType()
    condition = dialect.value(cond, "relay.If: cond")
    return core.If(condition, core.Function((), yes), core.Function((), no), t)


@classic_class(core.Let)
def Let(variable: core.Var, value: Anything, body: Anything, span: object = None) -> core.Let:
    """A named value: `relay.Let(variable, value, body)`.

    A named value; a Function may call itself by the variable.
    """
    return core.Let(
        variable, dialect.value(value, "relay.Let: the value"), dialect.value(body, "relay.Let")
    )


def var(
    name_hint: str,
    type_annotation: Type | str | None = None,
    shape: Anything = None,
    dtype: str = "float32",
    span: object = None,
) -> core.Var:
    """A variable of a type, or of a shape and dtype; of neither: inference finds the type.

    type_annotation  a type; a dtype as text is that of a scalar
    shape            extents: numbers, relay.Any(), symbolic sizes
    """
    if type_annotation is not None and shape is not None:
        raise TypeMismatch(f"relay.var({name_hint!r}): give either a type or a shape")
    if shape is not None:
        return RelayVar(name_hint, checked_type(shape, dtype, f"relay.var({name_hint!r})"))
    if isinstance(type_annotation, str):
        return RelayVar(name_hint, checked_type((), type_annotation, f"relay.var({name_hint!r})"))
    return RelayVar(name_hint, IncompleteType() if type_annotation is None else type_annotation)


def bind(expr: RelaxExpr, binds: Mapping[core.Var, RelaxExpr]) -> RelaxExpr:
    """An expression with values in place of variables; of a function, its parameters go."""
    made: RelaxExpr = graph.bind(expr, binds)
    return made
