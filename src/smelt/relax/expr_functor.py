"""Walks over expressions for users to derive from: visitors and mutators by the kind of value.

    class CountConvs(ExprVisitor):
        def visit_call(self, call):
            ...
            super().visit_call(call)

Operands are visited before the call they belong to, without recursion: a chain of many thousand
calls is no deeper than one of ten. Every value is visited once. Functions and branches are scopes:
what is inside is visited when `visit_function` or `visit_if` asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smelt.ir.errors import TypeMismatch
from smelt.ir.node import ordered
from smelt.ir.types import FuncType, TensorType, TupleType, Type, on_parts, parts_of
from smelt.topi.registry import Op

from . import nodes
from .adt import Clause, Constructor, Match
from .analysis import direct_parts
from .graph import operands

_METHODS: dict[type, str] = {
    nodes.Call: "visit_call",
    Constructor: "visit_constructor",
    Match: "visit_match",
    nodes.Constant: "visit_constant",
    nodes.Function: "visit_function",
    nodes.GlobalVar: "visit_global_var",
    nodes.If: "visit_if",
    nodes.Let: "visit_let",
    nodes.MatchCast: "visit_match_cast",
    nodes.Tuple: "visit_tuple",
    nodes.TupleGetItem: "visit_tuple_getitem",
    nodes.Var: "visit_var",
}


def _method(e: Any) -> str:
    if isinstance(e, Op):
        return "visit_op"
    for kind in type(e).__mro__:
        if kind in _METHODS:
            return _METHODS[kind]
    raise TypeMismatch(
        f"visit: a {type(e).__name__} is no expression; of a module, visit a function: mod['main']"
    )


def _before(e: Any) -> list[Any]:
    """What is visited before a value: its operands in the same scope."""
    match e:
        case nodes.Call(op, args):
            inner = [] if isinstance(op, nodes.Function) else [op]
            return [*inner, *[a for a in args if a is not None]]
        case nodes.Let(var, value, body):
            return [var, *([] if isinstance(value, nodes.Function) else [value]), body]
        case nodes.RelaxExpr():
            return [*operands(e)]
    return []


class ExprFunctor:
    """Calls the method for the kind of a value, and remembers what it gave.

    The methods: visit_call, visit_constant, visit_constructor, visit_function, visit_global_var,
    visit_if, visit_let, visit_match, visit_match_cast, visit_op, visit_tuple,
    visit_tuple_getitem, visit_var.
    """

    def __init__(self) -> None:
        """Nothing is visited yet."""
        self.memo_map: dict[Any, Any] = {}

    def visit(self, expr: Any) -> Any:
        """The result for a value; its operands are visited before it."""
        for e in ordered([expr], lambda e: () if e in self.memo_map else _before(e)):
            if e not in self.memo_map:
                self.memo_map[e] = getattr(self, _method(e))(e)
        return self.memo_map[expr]

    def _missing(self, e: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no {_method(e)}")

    visit_call = visit_constant = visit_constructor = visit_function = _missing
    visit_global_var = visit_if = visit_let = visit_match = visit_op = _missing
    visit_match_cast = visit_tuple = visit_tuple_getitem = visit_var = _missing


class ExprVisitor(ExprFunctor):
    """Sees every part of an expression once; override the methods of the kinds of interest."""

    def visit_parts(self, e: Any) -> Any:
        """The parts of a value: operator and operands, items, parameters and body, branches."""
        for part in direct_parts(e):
            self.visit(part)

    visit_call = visit_constant = visit_constructor = visit_function = visit_parts
    visit_global_var = visit_if = visit_let = visit_match = visit_op = visit_parts
    visit_match_cast = visit_tuple = visit_tuple_getitem = visit_var = visit_parts


MixedModeVisitor = ExprVisitor
"""The same: every visitor walks without recursion."""


class ExprMutator(ExprFunctor):
    """Makes a new expression; a value of which nothing changed stays the same object.

    Types of calls on changed operands are found anew.
    """

    def visit_call(self, call: nodes.Call) -> Any:
        """The call on new operands."""
        op = self.visit(call.op)
        args = tuple([None if a is None else self.visit(a) for a in call.args])
        if op is call.op and all(a is b for a, b in zip(args, call.args, strict=True)):
            return call
        changed = call if op is call.op else call.replace(op=op)
        return nodes.renewed_call(changed, *args)

    def visit_renewed(self, e: Any) -> Any:
        """The value on new parts; of a Match, with the clauses' new values."""
        return e.with_children(self._part)

    def _part(self, c: Any) -> Any:
        if isinstance(c, Clause):
            return c.with_children(self._part)
        return self.visit(c) if isinstance(c, nodes.RelaxExpr) else c

    visit_function = visit_let = visit_match = visit_match_cast = visit_renewed
    visit_tuple = visit_tuple_getitem = visit_renewed

    def visit_if(self, i: nodes.If) -> Any:
        """The branch on new parts: its sides are no functions to be visited."""
        sides = (i.then_branch, i.else_branch)
        new = i.with_children(
            lambda c: c.with_children(self._part) if c in sides else self._part(c)
        )
        return i if new is i else new.replace(type=new.then_branch.body.type)

    def visit_leaf(self, e: Any) -> Any:
        """A value without parts, as it is."""
        return e

    visit_constant = visit_constructor = visit_global_var = visit_op = visit_var = visit_leaf


class ExprRewriter:
    """Changes values one by one: `rewrite_call(pre, post)` and so on, for `MixedModeMutator`.

    pre is the old value, post the same on new operands; what is not overridden gives post.
    """

    def rewrite(self, pre: Any, post: Any) -> nodes.RelaxExpr:
        """What stands for a value."""
        name = _method(pre).replace("visit_", "rewrite_")
        method = getattr(self, name, None)
        return post if method is None else method(pre, post)  # type: ignore[no-any-return]


class MixedModeMutator(ExprMutator):
    """A mutator with `rewrite_call(pre, post)`, `rewrite_tuple`, `rewrite_tuple_getitem`."""

    def visit_call(self, call: nodes.Call) -> Any:
        """The call on new operands, then what rewrite_call makes of it."""
        return self.rewrite_call(call, super().visit_call(call))

    def visit_tuple(self, tup: nodes.Tuple) -> Any:
        """The tuple of new items, then what rewrite_tuple makes of it."""
        return self.rewrite_tuple(tup, super().visit_tuple(tup))

    def visit_tuple_getitem(self, t: nodes.TupleGetItem) -> Any:
        """An item of the new tuple, then what rewrite_tuple_getitem makes of it."""
        return self.rewrite_tuple_getitem(t, super().visit_tuple_getitem(t))

    def rewrite_nothing(self, pre: Any, post: Any) -> Any:
        """What stands for a value: the same on new operands."""
        return post

    rewrite_call = rewrite_tuple = rewrite_tuple_getitem = rewrite_nothing


def _asking(name: str) -> Any:
    def ask(self: Any, e: Any) -> Any:
        return getattr(self, name)(e)

    return ask


class _RelaxNames(ExprFunctor):
    """The methods by Relax's names: each does what the walk beside it does with such a value."""

    visit_expr = ExprFunctor.visit
    visit_call_: Callable[[Any], Any]
    visit_constant_: Callable[[Any], Any]
    visit_function_: Callable[[Any], Any]
    visit_global_var_: Callable[[Any], Any]
    visit_if_: Callable[[Any], Any]
    visit_match_cast_: Callable[[Any], Any]
    visit_op_: Callable[[Any], Any]
    visit_tuple_: Callable[[Any], Any]
    visit_tuple_getitem_: Callable[[Any], Any]
    visit_var_: Callable[[Any], Any]


def _by_relax_names(cls: Any) -> Any:
    """visit_call asks visit_call_, and so on."""
    for name in _RelaxNames.__annotations__:
        plain = name.removesuffix("_")
        setattr(cls, name, getattr(cls, plain))
        setattr(cls, plain, _asking(name))
    return cls


@_by_relax_names
class PyExprVisitor(_RelaxNames, ExprVisitor):
    """The visitor by Relax's names: override visit_call_, visit_var_, visit_function_, ...

    `super().visit_call_(call)` visits the parts; `visit_expr` starts.
    """


@_by_relax_names
class PyExprMutator(_RelaxNames, ExprMutator):
    """The mutator by Relax's names: override visit_call_, visit_var_, visit_function_, ...

    `super().visit_call_(call)` gives the call on new operands; `visit_expr` starts.
    """


def visitor(cls: type) -> type:
    """`@relax.expr_functor.visitor`: a subclass of PyExprVisitor as it is."""
    return cls


mutator = visitor
"""`@relax.expr_functor.mutator`: a subclass of PyExprMutator as it is."""


class TypeVisitor:
    """Sees every part of a type; override visit_tensor_type, visit_tuple_type, visit_func_type."""

    def visit(self, t: Type) -> Any:
        """The result for a type; other kinds give None."""
        match t:
            case TensorType():
                return self.visit_tensor_type(t)
            case TupleType():
                return self.visit_tuple_type(t)
            case FuncType():
                return self.visit_func_type(t)
        return None

    def visit_tensor_type(self, t: TensorType) -> Any:
        """A tensor."""

    def visit_parts(self, t: Type) -> Any:
        """Several values, or a function: the types that it is made of."""
        for part in parts_of(t):
            self.visit(part)

    visit_tuple_type = visit_func_type = visit_parts


class TypeMutator(TypeVisitor):
    """Makes a new type of one."""

    def visit(self, t: Type) -> Any:
        """The new type; other kinds stay."""
        found = super().visit(t)
        return t if found is None else found

    def visit_tensor_type(self, t: TensorType) -> Any:
        """A tensor's type."""
        return t

    def visit_parts(self, t: Type) -> Any:
        """A tuple's or a function's type of new parts."""
        return on_parts(t, self.visit)

    visit_tuple_type = visit_func_type = visit_parts
