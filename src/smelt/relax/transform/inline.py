"""Functions of the module that ask for it become part of their callers."""

from __future__ import annotations

from collections.abc import Collection

from smelt.ir.module import IRModule
from smelt.relax.nodes import Function

from .rewriting import inlined, map_functions, names_in


def inline_marked(mod: IRModule) -> IRModule:
    """Calls of functions with the attribute "Inline" become their bodies; these functions go."""
    marked = [
        n for n, f in mod.functions.items() if isinstance(f, Function) and f.attrs.get("Inline")
    ]
    return inline_called(mod, marked)


def inline_called(mod: IRModule, names: Collection[str]) -> IRModule:
    """Calls of some functions become their bodies; the functions leave, "main" stays.

    A function that calls itself, directly or through others, stays and is called.
    """
    if not names:
        return mod
    made = map_functions(mod, lambda f: inlined(f, names, mod))
    if made is mod:
        return mod
    called = {c for f in made.functions.values() if isinstance(f, Function) for c in names_in(f)}
    kept = {n: f for n, f in made.functions.items() if n not in names or n in called or n == "main"}
    return IRModule(kept, made.attrs)
