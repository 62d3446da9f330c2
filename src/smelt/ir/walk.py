"""Functions that walk expressions: replace variables, rebuild and fold, find variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from . import expr
from .build import all_of, any_of, if_then_else, logical_not, select
from .node import Node, postorder

T = TypeVar("T")


def substitute(e: expr.Expr, values: Mapping[expr.Var, expr.Expr]) -> expr.Expr:
    """`e` with variables replaced; constants fold again on the way up."""
    memo: dict[expr.Expr, expr.Expr] = dict(values.items())
    try:
        return _rebuild(e, memo)
    except RecursionError:
        for part in postorder(e):  # the operands first: then each step is a short one
            if isinstance(part, expr.Expr):
                _rebuild(part, memo)
        return memo[e]


def _rebuild(e: expr.Expr, memo: dict[expr.Expr, expr.Expr]) -> expr.Expr:
    found = memo.get(e)
    if found is not None:
        return found
    new: expr.Expr
    if isinstance(e, expr.Binary):
        a, b = _rebuild(e.a, memo), _rebuild(e.b, memo)
        new = e if a is e.a and b is e.b else rebuild_binary(type(e), a, b)
    elif isinstance(e, expr.IntImm | expr.FloatImm | expr.Var):
        new = e
    else:
        new = e.with_children(lambda c: _part(c, memo))
        if new is not e:
            new = refold(new)
    memo[e] = new
    return new


def _part(node: Node, memo: dict[expr.Expr, expr.Expr]) -> Node:
    if isinstance(node, expr.Expr):
        return _rebuild(node, memo)
    if not node.part:
        return node
    bound = getattr(node, "var", None)  # an axis' own variable stays
    return node.with_children(lambda c: c if c is bound else _part(c, memo))


def rebuild_binary(cls: type[expr.Binary], a: expr.Expr, b: expr.Expr) -> expr.Expr:
    """A binary operation after its operands changed, folded where they became constant."""
    if cls is expr.And:
        return all_of(a, b)
    if cls is expr.Or:
        return any_of(a, b)
    return expr.binary(cls, a, b)


def refold(e: expr.Expr) -> expr.Expr:
    """Fold one node whose children have become constant."""
    match e:
        case expr.Not(a):
            return logical_not(a)
        case expr.Select(c, a, b):
            return select(c, a, b)
        case expr.Cast(t, v):
            return expr.cast(t, v)
        case expr.Call(_, "if_then_else", (c, a, b)):
            return if_then_else(c.value if isinstance(c, expr.Broadcast) else c, a, b)
        case expr.Broadcast(v, 1):
            return v
    return e


def joined(e: expr.Expr, *kinds: type[expr.Expr]) -> list[expr.Expr]:
    """What nested binary operations of some kinds join, from the left: a, b, c of a + b + c."""
    found: list[expr.Expr] = []
    stack = [e]
    while stack:
        x = stack.pop()
        if isinstance(x, expr.Binary) and type(x) in kinds:
            stack += (x.b, x.a)
        else:
            found.append(x)
    return found


def free_vars(e: Node) -> set[expr.Var]:
    """The variables that occur in an expression."""
    found: set[expr.Var] = set()
    seen: set[Node] = set()
    stack: list[Node] = [e]
    while stack:
        n = stack.pop()
        if isinstance(n, expr.Var):
            found.add(n)
        elif n not in seen:
            seen.add(n)
            stack += n.children()
    return found


def fixed_point(step: Callable[[T], T], x: T, most: int) -> T:
    """What repeating a step makes of a value: until the step changes nothing, or so often."""
    for _ in range(most):
        new = step(x)
        if new is x:
            break
        x = new
    return x
