"""Sizes get names of their own: the host program, its callers and messages know them by name."""

from __future__ import annotations

import keyword

from smelt.ir.expr import Expr
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.text import fresh_name
from smelt.relax.match_cast import specialized
from smelt.relax.nodes import Function
from smelt.relax.shapes import sizes_of_parameters

_TAKEN = frozenset({"float", "range", *keyword.kwlist})
"""Words of the form in which metadata keep extents."""


def name_sizes(mod: IRModule) -> IRModule:
    """Of sizes of "main" that share a name, all but the first get new ones: any, any_1, ...;
    a size that is called as a word of Python gets one too."""
    main = mod.functions.get("main")
    if not isinstance(main, Function):
        return mod
    taken = set(_TAKEN)
    renamed: dict[SizeVar, Expr] = {}
    for size in sizes_of_parameters(main):
        name = fresh_name(size.name, taken)
        if name != size.name:
            renamed[size] = SizeVar(name, size.type)
    return mod.with_functions({"main": specialized(main, renamed)}) if renamed else mod
