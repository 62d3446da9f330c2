"""Functions of the module that ask for it become part of their callers."""

from __future__ import annotations

from collections.abc import Collection

from smelt.ir.module import IRModule

from .rewriting import functions_of, inlined, map_functions, names_in


def inline_marked(mod: IRModule) -> IRModule:
    """Calls of functions with the attribute "Inline" become their bodies; these functions go."""
    return inline_called(mod, [n for n, f in functions_of(mod).items() if f.attrs.get("Inline")])


def inline_called(mod: IRModule, names: Collection[str]) -> IRModule:
    """Calls of some functions become their bodies; the functions leave, "main" stays.

    A function that calls itself, directly or through others, stays and is called.
    """
    if not names:
        return mod
    made = map_functions(mod, lambda f: inlined(f, names, mod))
    if made is mod:
        return mod
    called = {c for f in functions_of(made).values() for c in names_in(f)}
    kept = {n: f for n, f in made.functions.items() if n not in names or n in called or n == "main"}
    return IRModule(kept, made.attrs)
