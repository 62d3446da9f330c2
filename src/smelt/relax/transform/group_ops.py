"""Operators that become one kernel, as functions called in place: fusion that can be looked at.

The groups are those of `fuse_ops`; a function of a group has the attribute "Primitive".
"""

from __future__ import annotations

from smelt.ir.module import IRModule
from smelt.ir.node import Node
from smelt.relax.graph import is_unit
from smelt.relax.nodes import Call, Constant, Function, RelaxExpr, Tuple, Var, call_function, values

from .fuse_ops import Groups, held_values
from .normal_form import dissolved
from .rewriting import map_functions

PRIMITIVE = {"Primitive": 1}


def group_ops(mod: IRModule, join: bool = True) -> IRModule:
    """Put operators into functions called where they stand; join: of several, where that is good.

    Functions for other compilers, and groups that are there already, stay as they are.
    """
    return map_functions(mod, lambda f: _grouped(f, join))


def ungroup_ops(mod: IRModule) -> IRModule:
    """The inverse: bodies of "Primitive" functions take the places of their calls."""
    return map_functions(mod, lambda f: dissolved(f, lambda g: bool(g.attrs.get("Primitive"))))


def _grouped(f: Function, join: bool) -> Function:
    if is_unit(f):
        return f
    groups = Groups(f, join, views=False)
    members: dict[int, list[Call]] = {}
    for c in groups.order:
        if groups.kind[id(c)] != "none":
            members.setdefault(groups.find(id(c)), []).append(c)
    inside = held_values(f)
    variable = next((type(v) for v in values(f) if isinstance(v, Var)), Var)
    done: dict[Node, RelaxExpr] = {}
    for v in values(f):
        if v in inside or not isinstance(v, Call) or groups.kind.get(id(v), "none") == "none":
            done[v] = v if v in inside else v.with_children(lambda c: done.get(c, c))
            continue
        group = members[groups.find(id(v))]
        if group[-1] is v:
            done[v] = _group(group, v, done, variable)
    return done[f]  # type: ignore[return-value]


def _group(
    group: list[Call], result: Call, done: dict[Node, RelaxExpr], variable: type[Var]
) -> Call:
    """A call of the function that a group becomes."""
    inner: dict[Node, RelaxExpr] = {}
    params: dict[Node, Var] = {}
    outer: list[RelaxExpr] = []

    def operand(a: Node) -> Node:
        if a in inner:
            return inner[a]
        if not isinstance(a, RelaxExpr) or (isinstance(a, Constant) and a.data.ndim == 0):
            return a
        if isinstance(a, Tuple):
            return a.with_children(operand)
        if a not in params:
            params[a] = variable(f"p{len(params)}", a.type)
            outer.append(done.get(a, a))
        return params[a]

    for c in group:
        inner[c] = c.with_children(operand)
    function = Function(tuple(params.values()), inner[result], PRIMITIVE)
    return call_function(function, outer).replace(name=result.name)
