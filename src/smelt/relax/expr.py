"""Relax's expression classes: names for nodes of the one graph IR, and how Relax makes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from smelt.ir import types
from smelt.ir.classic_class import classic_class
from smelt.ir.errors import TypeMismatch, Unsupported
from smelt.ir.expr import INDEX, convert
from smelt.ir.expr import Expr as SizeExpr
from smelt.topi.registry import Op

from . import nodes as core
from .compose.operands import const as const
from .compose.operands import value
from .shapes import ShapeExpr as ShapeExpr
from .struct_info import struct_info_of


@classic_class(core.RelaxExpr)
def Expr(*given: Any) -> Any:
    """Any value of a graph program."""
    raise TypeMismatch("relax.Expr is the class of all expressions; make one of its kinds")


@classic_class(core.Var)
def Var(name_hint: str, struct_info: Any = None, span: object = None) -> core.Var:
    """A variable: `relax.Var("x", relax.TensorStructInfo((2, 3), "float32"))`.

    Without a type nothing is known of it.
    """
    if struct_info is None:
        return core.Var(name_hint, types.IncompleteType())
    return core.Var(name_hint, struct_info_of(struct_info, f"relax.Var({name_hint!r}): a type"))


DataflowVar = Var
"""The same: a dataflow block has no variables of another kind."""


@classic_class(core.Constant)
def Constant(data: Any, struct_info: Any = None, span: object = None) -> core.Constant:
    """An array known at compile time: `relax.Constant(array)`.

    A constant from a numpy array or an NDArray.
    """
    return const(np.asarray(data))


@classic_class(core.GlobalVar)
def GlobalVar(name_hint: str) -> core.GlobalVar:
    """A function of the module by name: `relax.GlobalVar("f")`."""
    return core.GlobalVar(name_hint)


@classic_class(core.Call)
def Call(
    op: Any,
    args: Sequence[Any],
    attrs: Mapping[str, Any] | None = None,
    sinfo_args: Sequence[Any] | None = None,
    span: object = None,
) -> core.Call:
    """An operator, a function or a closure applied: `relax.Call(op, args, attrs=None)`.

    A call; the type of an operator's is inferred. sinfo_args: a function's result.
    """
    given = [None if a is None else value(a, "relax.Call: an operand") for a in args]
    if isinstance(op, Op | str):
        return core.call(op, *given, **dict(attrs or {}))
    if attrs:
        raise Unsupported("relax.Call: a call of a function has no attributes")
    types_given = [struct_info_of(s, "relax.Call: the result") for s in sinfo_args or ()]
    operands = [g for g in given if g is not None]
    return core.call_function(op, operands, types_given[0] if types_given else None)


@classic_class(core.Tuple)
def Tuple(fields: Sequence[Any], span: object = None) -> core.Tuple:
    """Several values together: `relax.Tuple([a, b])`."""
    return core.Tuple(tuple([value(f, "relax.Tuple: a field") for f in fields]))


@classic_class(core.TupleGetItem)
def TupleGetItem(tuple_value: Any, index: int, span: object = None) -> core.TupleGetItem:
    """One value of a tuple: `relax.TupleGetItem(t, 0)`."""
    whole = value(tuple_value, "relax.TupleGetItem: the tuple")
    t = whole.type
    if isinstance(t, types.TupleType) and not 0 <= index < len(t.items):
        raise TypeMismatch(f"relax.TupleGetItem: item {index} of {len(t.items)}")
    return core.TupleGetItem(whole, index)


@classic_class(core.If)
def If(cond: Any, true_branch: Any, false_branch: Any, span: object = None) -> core.If:
    """A branch: `relax.If(cond, true_branch, false_branch)`.

    A branch whose sides are values of one type.
    """
    sides = [value(s, "relax.If: a side") for s in (true_branch, false_branch)]
    if sides[0].type is not sides[1].type:
        raise TypeMismatch(
            f"relax.If: the sides have different types, {sides[0].type} and {sides[1].type}"
        )
    yes, no = (core.Function((), s) for s in sides)
    return core.If(value(cond, "relax.If: the condition"), yes, no, sides[0].type)


@classic_class(core.Function)
def Function(
    params: Sequence[core.Var],
    body: Any,
    ret_struct_info: Any = None,
    is_pure: bool = True,
    attrs: Mapping[str, Any] | None = None,
    span: object = None,
) -> core.Function:
    """A graph function: `relax.Function(params, body, ret_struct_info=None)`.

    A function; ret_struct_info has to be the type of the body.
    """
    if not is_pure:
        raise Unsupported("relax.Function: functions of a graph have no side effects")
    made = core.Function(tuple(params), value(body, "relax.Function: the body"), attrs or {})
    if ret_struct_info is not None:
        said = struct_info_of(ret_struct_info, "relax.Function: the result")
        if said is not made.body.type and not core.incomplete(made.body.type):
            raise TypeMismatch(f"relax.Function: the result is {made.body.type}, not {said}")
    return made


@classic_class(core.MatchCast)
def MatchCast(given: Any, struct_info: Any, span: object = None) -> core.MatchCast:
    """A value and a type that is claimed of it: `relax.MatchCast(value, struct_info)`.

    The value with the type.
    """
    t = struct_info_of(struct_info, "relax.MatchCast: the type")
    return core.MatchCast(value(given, "relax.MatchCast: the value"), t)


@classic_class(SizeExpr)
def PrimValue(given: Any, span: object = None) -> SizeExpr:
    """One number: `relax.PrimValue(1)` is an expression of sizes, or a number's constant.

    A number as an expression; integers are of the type of sizes.
    """
    return convert(given, INDEX) if isinstance(given, int) else convert(given)


def get_shape_of(expr: core.RelaxExpr) -> ShapeExpr:
    """The extents of a tensor, which attributes of operators take."""
    t = expr.type
    if not isinstance(t, types.TensorType):
        raise TypeMismatch(f"relax.get_shape_of takes a tensor; this value is {t}")
    return ShapeExpr(t.shape)
