"""Looking at graph programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from smelt.ir.errors import TypeMismatch, VerifyError
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.node import Node, ordered
from smelt.ir.types import FuncType, Type

from . import nodes
from .adt import Match
from .graph import binders as binders
from .graph import fixed_values, parts_of, users_of
from .graph import free_vars as free_vars
from .shapes import BaseCheckResult as BaseCheckResult
from .shapes import extents_of, sizes_in
from .shapes import struct_info_base_check as struct_info_base_check
from .transform.eliminate_dead_code import without_dead_lets
from .verify import verify


def post_order_visit(expr: Any, fvisit: Callable[[Any], object]) -> None:
    """Call fvisit with everything an expression is made of, once each, parts before wholes.

    expr    a function (`mod["main"]`) or another expression
    fvisit  gets expressions (Call, Var, ...) and operators
    """
    for part in parts(expr):
        fvisit(part)


def parts(expr: Any) -> Iterator[Any]:
    """Everything an expression is made of, operators included, parts before wholes."""
    if isinstance(expr, IRModule):
        raise TypeMismatch('post_order_visit takes a function, e.g. mod["main"], not a module')
    return ordered([expr], direct_parts)


def direct_parts(node: Any) -> list[Any]:
    """What a value is made of directly, its operator included."""
    match node:
        case nodes.Call(op, args):
            return [op, *[a for a in args if a is not None]]
        case nodes.If() | Match() | nodes.MatchCast():
            return parts_of(node)
        case Node():
            return [c for c in node.children() if not isinstance(c, Type)]
    return []


# ------------------------------------------------------------------------------- variables


def all_vars(expr: Any) -> list[nodes.Var]:
    """All variables of an expression, parameters included, in order of first use."""
    return [p for p in parts(expr) if isinstance(p, nodes.Var)]


def bound_vars(expr: Any) -> list[nodes.Var]:
    """Variables that a function, a Let or a clause in the expression binds, in order."""
    return list(dict.fromkeys([v for part in parts(expr) for v in binders(part)]))


def all_global_vars(expr: Any) -> list[nodes.GlobalVar]:
    """The names of functions of the module in an expression, each once."""
    found: dict[str, nodes.GlobalVar] = {}
    for part in parts(expr):
        if isinstance(part, nodes.GlobalVar):
            found.setdefault(part.name, part)
    return list(found.values())


def get_var2val(func: nodes.Function) -> dict[nodes.Var, nodes.RelaxExpr]:
    """The values of the variables that a function names itself (Let)."""
    return {p.var: p.value for p in parts(func) if isinstance(p, nodes.Let)}


def name_to_binding(func: nodes.Function) -> dict[str, list[tuple[nodes.Var, nodes.RelaxExpr]]]:
    """Variables that a function names itself, with their values, by name."""
    found: dict[str, list[tuple[nodes.Var, nodes.RelaxExpr]]] = {}
    for var, value in get_var2val(func).items():
        found.setdefault(var.name, []).append((var, value))
    return found


def udchain(func: nodes.Function) -> dict[nodes.RelaxExpr, list[nodes.RelaxExpr]]:
    """The values that use each value of a function, directly."""
    return users_of(
        [p for p in parts(func.body) if isinstance(p, nodes.RelaxExpr)],
        lambda p: dict.fromkeys([c for c in direct_parts(p) if isinstance(c, nodes.RelaxExpr)]),
    )


# ------------------------------------------------------------------------------------ form


def well_formed(program: IRModule | nodes.Function, check_struct_info: bool = True) -> bool:
    """Whether a module, or a function of its own, keeps the rules of graph programs (`verify`)."""
    try:
        verify(program)
    except VerifyError:
        return False
    return True


def contains_impure_call(expr: Any, own_name: Any = None) -> bool:
    """False: operators and functions of a graph have no side effects."""
    post_order_visit(expr, lambda e: None)
    return False


def remove_all_unused(func: nodes.Function) -> nodes.Function:
    """A function without names (Let) that nothing uses. Other unused values are no part of it."""
    return without_dead_lets(func)


def computable_at_compile_time(func: nodes.Function) -> list[nodes.RelaxExpr]:
    """Values that need no input: they follow from constants, and parameters behind `num_input`.

    func  the attribute num_input tells how many parameters are inputs; without it all are
    """
    count = int(func.attrs.get("num_input", len(func.params)))
    found = fixed_values(func.body, func.params[count:])
    return [v for v in found if not isinstance(v, nodes.Constant)]


# -------------------------------------------------------------------------------- struct info


def tir_vars_in_struct_info(sinfo: Type) -> list[SizeVar]:
    """The sizes that a type mentions, in order of first use."""
    return sizes_in(sinfo)


def definable_tir_vars_in_struct_info(sinfo: Type) -> list[SizeVar]:
    """The sizes that a value of a type shows: those that are an extent by themselves."""
    if isinstance(sinfo, FuncType):
        return []
    return list(dict.fromkeys([e for e in extents_of(sinfo) if isinstance(e, SizeVar)]))


def free_symbolic_vars(func: nodes.Function) -> list[SizeVar]:
    """Sizes that a function uses, and no parameter shows."""
    shown = {v for p in func.params for v in definable_tir_vars_in_struct_info(p.type)}
    used = dict.fromkeys(v for p in parts(func) if isinstance(p, nodes.RelaxExpr) and
                         not isinstance(p, nodes.Function) for v in sizes_in(p.type))  # fmt: skip
    return [v for v in used if v not in shown]
