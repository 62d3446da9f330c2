"""Looking at Relay programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from smelt.ir.errors import TypeMismatch
from smelt.ir.module import IRModule
from smelt.ir.node import Node
from smelt.relax.nodes import Call, Constant, If, Var
from smelt.relax.nodes import free_vars as free
from smelt.topi.registry import Op

from .op import name_of

__all__ = ["all_vars", "constants", "count_ops", "free_vars", "post_order_visit"]


def post_order_visit(expr: Any, fvisit: Callable[[Any], object]) -> None:
    """Call fvisit with everything an expression is made of, once each, parts before wholes.

    expr    a function (`mod["main"]`) or another expression
    fvisit  gets expressions (relay.Call, relay.Var, ...) and operators (relay.op.Op)
    """
    for part in _parts(expr):
        fvisit(part)


def _parts(expr: Any) -> Iterator[Any]:
    if isinstance(expr, IRModule):
        raise TypeMismatch('post_order_visit takes a function, e.g. mod["main"], not a module')
    seen: set[Any] = set()
    stack: list[tuple[Any, bool]] = [(expr, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(part, False) for part in reversed(_inside(node))]


def _inside(node: Any) -> list[Any]:
    match node:
        case Call(op, args):
            return [op, *[a for a in args if a is not None]]
        case If(condition, yes, no):
            return [condition, yes.body, no.body]
        case Node():
            return list(node.children())
    return []


def all_vars(expr: Any) -> list[Var]:
    """All variables of an expression, parameters included, in order of first use."""
    return [p for p in _parts(expr) if isinstance(p, Var)]


def free_vars(expr: Any) -> list[Var]:
    """Variables that nothing in the expression binds."""
    return free(expr)


def count_ops(expr: Any) -> dict[str, int]:
    """How often each operator is called, the most frequent first."""
    found: Counter[str] = Counter()
    for part in _parts(expr):
        if isinstance(part, Call) and isinstance(part.op, Op):
            found[name_of(part.op)] += 1
    return dict(found.most_common())


def constants(expr: Any) -> list[Constant]:
    """The constants of an expression, in order of first use."""
    return [p for p in _parts(expr) if isinstance(p, Constant)]
