"""Operators that become one kernel, as functions called in place: fusion that can be looked at.

The groups are those of `fuse_ops`; a function of a group has the attribute "Primitive".
"""

from __future__ import annotations

from smelt.ir.module import IRModule
from smelt.ir.node import Node
from smelt.relax.graph import is_unit
from smelt.relax.nodes import Function, RelaxExpr, Var, call_function, values

from .fuse_ops import Groups, outlined
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
    variable = next((type(v) for v in values(f) if isinstance(v, Var)), Var)
    done: dict[Node, RelaxExpr] = {}
    for v in values(f):
        group = groups.of(v)
        if not group:
            done[v] = v if v in groups.held else v.with_children(lambda c: done.get(c, c))
        elif group[-1] is v:
            made, given = outlined(group, lambda c: c.data.ndim == 0, variable)
            unit = made.replace(attrs=PRIMITIVE)
            done[v] = call_function(unit, [done.get(a, a) for a in given]).replace(name=v.name)
    return done[f]  # type: ignore[return-value]
