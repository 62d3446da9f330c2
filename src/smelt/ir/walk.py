"""Functions that walk expressions: replace variables, rebuild and fold, find variables."""

from __future__ import annotations

from collections.abc import Mapping

from .build import all_of, any_of, if_then_else, logical_not, select
from .expr import (
    And,
    Binary,
    Broadcast,
    Call,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    Not,
    Or,
    Select,
    Var,
    binary,
    cast,
)
from .node import Node, postorder


def substitute(e: Expr, values: Mapping[Var, Expr]) -> Expr:
    """`e` with variables replaced; constants fold again on the way up."""
    memo: dict[Expr, Expr] = dict(values.items())
    try:
        return _rebuild(e, memo)
    except RecursionError:
        for part in postorder(e):  # the operands first: then each step is a short one
            if isinstance(part, Expr):
                _rebuild(part, memo)
        return memo[e]


def _rebuild(e: Expr, memo: dict[Expr, Expr]) -> Expr:
    found = memo.get(e)
    if found is not None:
        return found
    new: Expr
    if isinstance(e, Binary):
        a, b = _rebuild(e.a, memo), _rebuild(e.b, memo)
        new = e if a is e.a and b is e.b else rebuild_binary(type(e), a, b)
    elif isinstance(e, IntImm | FloatImm | Var):
        new = e
    else:
        new = e.with_children(lambda c: _rebuild(c, memo) if isinstance(c, Expr) else c)
        if new is not e:
            new = refold(new)
    memo[e] = new
    return new


def rebuild_binary(cls: type[Binary], a: Expr, b: Expr) -> Expr:
    """A binary operation after its operands changed, folded where they became constant."""
    if cls is And:
        return all_of(a, b)
    if cls is Or:
        return any_of(a, b)
    return binary(cls, a, b)


def refold(e: Expr) -> Expr:
    """Fold one node whose children have become constant."""
    match e:
        case Not(a):
            return logical_not(a)
        case Select(c, a, b):
            return select(c, a, b)
        case Cast(t, v):
            return cast(t, v)
        case Call(_, "if_then_else", (c, a, b)):
            return if_then_else(c.value if isinstance(c, Broadcast) else c, a, b)
        case Broadcast(v, 1):
            return v
    return e


def free_vars(e: Node) -> set[Var]:
    """The variables that occur in an expression."""
    found: set[Var] = set()
    seen: set[Node] = set()
    stack: list[Node] = [e]
    while stack:
        n = stack.pop()
        if isinstance(n, Var):
            found.add(n)
        elif n not in seen:
            seen.add(n)
            stack.extend(n.children())
    return found
