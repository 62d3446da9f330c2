"""What is known at compile time is computed at compile time.

`fold_constants` are rules on the core's operators, which go with other rules; `fold_calls` takes
those of any dialect, puts constants in the place of names bound to them, and of a branch on a
constant the side that it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smelt.ir.limits import GROWN, MOST
from smelt.ir.module import IRModule
from smelt.ir.node import Node, postorder
from smelt.relax.folding import computed, growth
from smelt.relax.graph import rebuilding
from smelt.topi.registry import Op

from .. import nodes
from .engine import GraphRewriter, Rule, RuleSet, apply_rules
from .rewriting import map_functions

Wanted = Callable[[nodes.Call], bool]


def fold_rule(limit: int) -> Rule:
    """The rule that computes calls of constants with results of at most `limit` bytes."""

    def fold_call(g: GraphRewriter, n: nodes.Call) -> nodes.RelaxExpr | None:
        """op(constants)  =  constant"""
        more = growth(n, limit)
        if more is None or n.op.user_defined:  # type: ignore[union-attr]
            return None
        g.grown += more
        made = computed(n) if g.grown <= GROWN else None
        return g.one_constant(made) if isinstance(made, nodes.Constant) else made

    return fold_call


FOLD_RULES = RuleSet({"*": (fold_rule(MOST),)})


def fold_constants(mod: IRModule, *, limit: int = MOST) -> IRModule:
    """Compute at compile time every call whose operands are all constants.

    limit  bytes of the largest result; results much larger than their operands (a constant
           repeated by broadcast_to) stay calls
    """
    return apply_rules(mod, RuleSet({"*": (fold_rule(limit),)}))


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
        case nodes.Call(Op()) if wanted(new) and growth(new) is not None:
            return computed(new) or new
        case nodes.If(nodes.Constant(data), yes, no):
            return yes.body if bool(data) else no.body
    return new
