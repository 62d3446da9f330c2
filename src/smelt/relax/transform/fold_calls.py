"""Calls of constants are computed, in the words of any dialect; `fold_constants` is the core's own.

Names bound to constants are replaced by them, and a branch on a constant by the side it takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import SmeltError
from smelt.ir.limits import worth_computing
from smelt.ir.module import IRModule
from smelt.ir.node import Node, postorder
from smelt.ir.types import TensorType, TupleType, Type
from smelt.relax.graph import rebuilding
from smelt.relax.interpret import interpret
from smelt.topi.registry import Op

from .. import nodes
from .rewriting import map_functions

Wanted = Callable[[nodes.Call], bool]


def fold_calls(mod: IRModule, wanted: Wanted = lambda call: True) -> IRModule:
    """Compute every call whose operands are constants, or tuples of them.

    wanted  which calls of operators may be computed

    Results much larger than their operands stay calls, and so does what cannot be computed yet.
    """
    return map_functions(mod, lambda f: fold_expression(f, wanted))


def fold_expression(e: Any, wanted: Wanted = lambda call: True) -> Any:
    """`fold_calls` on one expression."""
    named: dict[Node, list[nodes.Var]] = {}
    for node in postorder(e):
        if isinstance(node, nodes.Let):
            named.setdefault(node.value, []).append(node.var)
    done: dict[Node, Any] = {}
    for node, new in rebuilding(e, done):
        if isinstance(node, nodes.Let) and isinstance(new.value, nodes.Constant):
            done[node] = new.body
            continue
        made = done[node] = _folded(new, wanted)
        if isinstance(made, nodes.Constant):  # a value is met before what stands below its name
            done.update(dict.fromkeys(named.get(node, ()), made))
    return done[e]


def _folded(new: Any, wanted: Wanted) -> Any:
    match new:
        case nodes.TupleGetItem(nodes.Tuple(items), index):
            return items[index]
        case nodes.Call(Op()) if wanted(new):
            return _computed(new) or new
        case nodes.If(nodes.Constant(data), yes, no):
            return yes.body if bool(data) else no.body
    return new


def _computed(n: nodes.Call) -> nodes.RelaxExpr | None:
    if not n.args or not all(a is None or _constant(a) for a in n.args):
        return None
    given = sum(_bytes(a.type) or 0 for a in n.args if a is not None)
    size = _bytes(n.type)
    if size is None or not worth_computing(size, given):
        return None
    try:
        results = interpret(nodes.Function((), n))
    except SmeltError:
        return None
    made = [nodes.constant(np.asarray(r, order="C")) for r in results]
    return nodes.Tuple(tuple(made)) if isinstance(n.type, TupleType) else made[0]


def _constant(e: nodes.RelaxExpr) -> bool:
    return isinstance(e, nodes.Constant) or (
        isinstance(e, nodes.Tuple) and all(isinstance(i, nodes.Constant) for i in e.items)
    )


def _bytes(t: Type) -> int | None:
    """Bytes of a value; None where a size is symbolic."""
    if isinstance(t, TupleType):
        parts = [_bytes(i) for i in t.items]
        return None if None in parts else sum(p for p in parts if p is not None)
    shape = t.fixed_shape() if isinstance(t, TensorType) else None
    return None if shape is None else math.prod(shape) * dt.bytes_of(t.dtype)  # type: ignore[attr-defined]
