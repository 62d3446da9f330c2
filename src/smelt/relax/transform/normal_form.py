"""Graph normal form: names and functions called in place are dissolved; values share operands.

What remains are calls of operators and of the module's functions, and branches. Functions that call
themselves, functions as results or operands, stay: only the virtual machine runs such programs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smelt.ir.module import IRModule
from smelt.ir.node import Node, ordered, postorder
from smelt.ir.walk import fixed_point
from smelt.relax.graph import is_unit, transform
from smelt.relax.nodes import Call, Function, Let, RelaxExpr

from .rewriting import instantiated, map_functions


def to_graph_normal_form(mod: IRModule) -> IRModule:
    """Let-bound values take the places of their variables in all graph functions."""
    return map_functions(mod, without_lets)


def inline_functions(mod: IRModule) -> IRModule:
    """Functions called in place become their bodies, in graph normal form."""
    return map_functions(mod, lambda f: dissolved(without_lets(f), lambda g: not is_unit(g)))


def is_recursive(let: Let) -> bool:
    """Whether the value of a Let uses its own variable."""
    return isinstance(let.value, Function) and any(n is let.var for n in postorder(let.value))


def without_lets(f: Function, which: Callable[[Let], bool] = lambda let: True) -> Function:
    """A function with its Lets resolved, of those that `which` says; recursive ones stay."""
    stands_for: dict[Node, Node] = {}
    for n in postorder(f.body):
        if isinstance(n, Let) and which(n) and not is_recursive(n):
            stands_for[n] = n.body
            stands_for[n.var] = n.value
    if not stands_for:
        return f
    done: dict[Node, Any] = {}
    roots: list[Node] = [f.body]
    for node in ordered(roots, lambda n: [stands_for[n]] if n in stands_for else n.children()):
        meant = stands_for.get(node)
        done[node] = node.with_children(done.__getitem__) if meant is None else done[meant]
    return f.replace(body=done[f.body])


def dissolved(f: Function, which: Callable[[Function], bool]) -> Function:
    """A function with the bodies of functions called in place, of those that `which` says."""

    def put(old: Any, new: Any) -> RelaxExpr | None:
        if isinstance(new, Call) and isinstance(new.op, Function) and which(new.op):
            return instantiated(new.op, new.args)
        return None

    # a body may bring further calls: each round goes one level deeper
    return fixed_point(lambda g: transform(g, put), f, 1000)
