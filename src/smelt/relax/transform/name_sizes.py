"""Sizes get names of their own: the host program, its callers and messages know them by name."""

from __future__ import annotations

import keyword
from typing import Any

from smelt.ir.expr import Expr
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.text import fresh_name
from smelt.ir.walk import free_vars, substitute
from smelt.relax.graph import transform
from smelt.relax.nodes import Call, CallAttrs, Function, If, RelaxExpr, Var
from smelt.relax.shapes import with_sizes

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
    for size in _sizes(main):
        name = fresh_name(size.name, taken)
        if name != size.name:
            renamed[size] = SizeVar(name, size.type)
    return mod.with_functions({"main": _renamed(main, renamed)}) if renamed else mod


def _sizes(f: Function) -> list[SizeVar]:
    """The sizes in the types of parameters, in order of first use."""
    found: dict[SizeVar, None] = {}
    for p in f.params:
        sizes = [v for v in free_vars(p.type) if isinstance(v, SizeVar)]
        shown = [e for e in getattr(p.type, "shape", ()) if e in sizes]
        found.update(dict.fromkeys([*shown, *sorted(sizes, key=lambda v: v.name)]))
    return list(found)


def _renamed(f: Function, names: dict[SizeVar, Expr]) -> Function:
    def put(old: Any, new: Any) -> RelaxExpr | None:
        match new:
            case Var() | If():
                return _typed(new, names)
            case Call():
                attrs = {k: _value(v, names) for k, v in new.attrs.items()}
                if any(attrs[k] is not v for k, v in new.attrs.items()):
                    new = new.replace(attrs=CallAttrs(new.callee, attrs))
                return _typed(new, names)
        return None

    made: Function = transform(f, put)
    return made


def _typed(node: Any, names: dict[SizeVar, Expr]) -> RelaxExpr:
    t = with_sizes(node.type, names)
    return node if t is node.type else node.replace(type=t)  # type: ignore[no-any-return]


def _value(value: Any, names: dict[SizeVar, Expr]) -> Any:
    if isinstance(value, Expr):
        return substitute(value, names)
    if isinstance(value, tuple):
        new = tuple([_value(v, names) for v in value])
        return new if any(a is not b for a, b in zip(new, value, strict=True)) else value
    return value
