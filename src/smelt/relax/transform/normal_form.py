"""Graph normal form: names and functions called in place are dissolved; values share operands.

What remains are calls of operators and of the module's functions, and branches. Functions that call
themselves, functions as results or operands, stay: only the virtual machine runs such programs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smelt.ir.module import IRModule
from smelt.ir.node import Node, postorder
from smelt.relax.nodes import (
    Call,
    Function,
    Let,
    RelaxExpr,
    Tuple,
    TupleGetItem,
    bind,
)

__all__ = ["inline_functions", "is_recursive", "to_graph_normal_form"]

KEPT = ("Compiler", "primitive")
"""Attributes of functions that are units of their own, and are not dissolved."""


def to_graph_normal_form(mod: IRModule) -> IRModule:
    """Let-bound values take the places of their variables in all graph functions."""
    return _mapped(mod, _without_lets)


def inline_functions(mod: IRModule) -> IRModule:
    """Functions called in place become their bodies, in graph normal form."""
    return _mapped(mod, lambda f: _dissolved(_without_lets(f)))


def _mapped(mod: IRModule, fn: Callable[[Function], Function]) -> IRModule:
    made = {
        n: fn(f)
        for n, f in mod.functions.items()
        if isinstance(f, Function) and not f.attrs.get("Compiler")
    }
    changed = {n: f for n, f in made.items() if f is not mod.functions[n]}
    return mod.with_functions(changed) if changed else mod


def is_recursive(let: Let) -> bool:
    """Whether the value of a Let uses its own variable."""
    return isinstance(let.value, Function) and any(n is let.var for n in postorder(let.value))


def _without_lets(f: Function) -> Function:
    """A function with its Lets resolved; recursive ones stay."""
    stands_for: dict[Node, Node] = {}
    for n in postorder(f.body):
        if isinstance(n, Let) and not is_recursive(n):
            stands_for[n] = n.body
            stands_for[n.var] = n.value
    if not stands_for:
        return f
    done: dict[Node, Node] = {}
    stack: list[Node] = [f.body]
    while stack:
        node = stack[-1]
        meant = stands_for.get(node)
        needed = list(node.children()) if meant is None else [meant]
        missing = [c for c in needed if c not in done]
        if node not in done and missing:
            stack += reversed(missing)
            continue
        stack.pop()
        if node not in done:
            done[node] = node.with_children(done.__getitem__) if meant is None else done[meant]
    body = done[f.body]
    assert isinstance(body, RelaxExpr)
    return f.replace(body=body)


def _dissolved(f: Function) -> Function:
    """A function without calls of functions in place."""
    body = f.body
    for _ in range(1000):  # a body may bring further calls: each round goes one level deeper
        if not any(_in_place(n) for n in postorder(body)):
            break
        body = _one_level(body)
    return f if body is f.body else f.replace(body=body)


def _one_level(body: RelaxExpr) -> Any:
    """An expression with the bodies in place of calls of functions."""
    done: dict[Node, Any] = {}
    for node in postorder(body):
        new: Any = node.with_children(lambda c: done.get(c, c))
        if isinstance(new, Call) and isinstance(new.op, Function) and _in_place(new):
            given: dict[Any, Any] = dict(zip(new.op.params, new.args, strict=True))
            new = bind(new.op.body, given)
        elif isinstance(new, TupleGetItem) and isinstance(new.value, Tuple):
            new = new.value.items[new.index]
        done[node] = new
    return done[body]


def _in_place(node: Node) -> bool:
    return (
        isinstance(node, Call)
        and isinstance(node.op, Function)
        and not any(node.op.attrs.get(k) for k in KEPT)
    )
