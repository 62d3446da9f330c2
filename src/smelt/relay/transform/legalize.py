"""Legalize: calls are replaced by what a user's function says, operator by operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smelt.ir.errors import TypeMismatch
from smelt.ir.module import IRModule
from smelt.relax.nodes import Call, RelaxExpr
from smelt.relax.transform.engine import GraphRewriter, Rule, RuleSet, apply_rules
from smelt.topi.registry import Op
from smelt.transform import Pass

from ..dialect import RELAY, registering
from .passes import graph_pass

Legalization = Callable[[Any, list[Any], list[Any]], Any]

LEGALIZE: dict[tuple[str, str], Legalization] = {}
"""(name of the table, operator): the function for its calls."""

FTVM = "FTVMLegalize"


def register_legalize(
    op_name: str, legal_op: Legalization | None = None, level: int = 10, table: str = FTVM
) -> Any:
    """Say what calls of an operator become in `Legalize()`. A decorator where legal_op is None.

    legal_op  (attrs, inputs, types) -> an expression of the call's type, or None: the call stays.
              types: those of the inputs, then that of the result
    level     there for the classic signature: what is registered last counts
    table     the name of the table, which Legalize takes
    """

    def enter(fn: Legalization) -> None:
        LEGALIZE[table, op_name] = fn

    return registering("register_legalize", op_name, enter, legal_op)


def Legalize(legalize_map_attr_name: str = FTVM) -> Pass:
    """Replace calls as registered with `relay.op.register_legalize`.

    legalize_map_attr_name  the table to look in
    """

    wanted = legalize_map_attr_name

    def run(mod: IRModule) -> IRModule:
        chosen = {op: (_rule(fn),) for (table, op), fn in LEGALIZE.items() if table == wanted}
        return apply_rules(mod, RuleSet(chosen, RELAY), whole=True)

    return graph_pass("Legalize", run)


def _rule(fn: Legalization) -> Rule:
    def legal(g: GraphRewriter, n: Call) -> RelaxExpr | None:
        """What the registered function says"""
        types = [None if a is None else a.type for a in n.args]
        made = fn(n.attrs, list(n.args), [*types, n.type])
        if made is None:
            return None
        if hasattr(made, "astuple"):
            made = made.astuple()
        name = n.op.name if isinstance(n.op, Op) else "a call"
        if not isinstance(made, RelaxExpr):
            raise TypeMismatch(
                f"Legalize: the function for {name} gave {type(made).__name__}; legal: an "
                "expression, or None to keep the call"
            )
        if made.type is not n.type:
            raise TypeMismatch(
                f"Legalize: the function for {name} changed the type: {n.type} became {made.type}"
            )
        if isinstance(made, Call) and made.op is n.op and made.args == n.args:
            return None if dict(made.attrs) == dict(n.attrs) else made
        return made

    return legal
