"""Looking at Relay programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from smelt.ir.errors import TypeMismatch
from smelt.ir.module import IRModule
from smelt.relax import nodes as relax

from .expr import Call, Constant, Expr, Var, view
from .module import Function
from .op import Op

__all__ = ["all_vars", "count_ops", "free_vars", "post_order_visit"]


def post_order_visit(expr: Any, fvisit: Callable[[Any], object]) -> None:
    """Call fvisit with everything an expression is made of, once each, parts before wholes.

    expr    a function (`mod["main"]`), a view, or a node of a graph program. Operators and the
            functions of fused groups are visited too
    fvisit  gets views (relay.Call, relay.Var, ...), operators (relay.op.Op) and functions
    """
    for part in _parts(expr):
        fvisit(part)


def _parts(expr: Any) -> Iterator[Any]:
    if isinstance(expr, IRModule):
        raise TypeMismatch('post_order_visit takes a function, e.g. mod["main"], not a module')
    seen: set[Any] = set()
    stack: list[tuple[Any, bool]] = [(view(expr), False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(part, False) for part in reversed(_inside(node))]


def _inside(node: Any) -> tuple[Any, ...]:
    if isinstance(node, Op):
        return ()
    if isinstance(node, relax.Function):
        scope = node.scope if isinstance(node, Function) else {}
        return (*[view(p, scope) for p in node.params], view(node.body, scope))
    assert isinstance(node, Expr)
    return node.operands()


def all_vars(expr: Any) -> list[Var]:
    """All variables of an expression, parameters included, in order of first use."""
    return [p for p in _parts(expr) if isinstance(p, Var)]


def free_vars(expr: Any) -> list[Var]:
    """Variables that are no parameter of a function of the expression."""
    parts = list(_parts(expr))
    bound = {id(p) for f in parts if isinstance(f, relax.Function) for p in f.params}
    return [p for p in parts if isinstance(p, Var) and id(p.node) not in bound]


def count_ops(expr: Any) -> dict[str, int]:
    """How often each operator is called, the most frequent first."""
    found: Counter[str] = Counter()
    for part in _parts(expr):
        if isinstance(part, Call) and isinstance(part.op, Op):
            found[part.op.name] += 1
    return dict(found.most_common())


def constants(expr: Any) -> list[Constant]:
    """The constants of an expression, in order of first use."""
    return [p for p in _parts(expr) if isinstance(p, Constant)]
