"""Functions that nothing calls leave the module, and names that nothing uses their function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smelt.ir.module import IRModule
from smelt.ir.node import postorder
from smelt.relax.graph import transform, uses_of
from smelt.relax.nodes import Function, Let, RelaxExpr

from .normal_form import without_lets
from .rewriting import map_functions, reached


def eliminate_dead_code(mod: IRModule, *, entries: Sequence[str] = ("main",)) -> IRModule:
    """Keep the entry functions and what they call, directly or not.

    Inside a function without names there is no dead code: a value that nothing needs is not part
    of the graph. A module without any of the entries stays as it is.
    """
    live = reached(mod, entries)
    if not live or live == set(mod):
        return mod
    return IRModule({n: f for n, f in mod.functions.items() if n in live}, mod.attrs)


def eliminate_dead_lets(mod: IRModule, *, inline_once: bool = False) -> IRModule:
    """Let-bound values that nothing uses go; inline_once: those used once take their one place."""
    return map_functions(mod, lambda f: without_dead_lets(f, inline_once))


def without_dead_lets(f: Function, inline_once: bool = False) -> Function:
    """`eliminate_dead_lets` on one function."""
    while True:  # a value that goes may have been the only use of another one
        uses = uses_of(f)
        gone = {n for n in postorder(f) if isinstance(n, Let) and _times(n, uses) <= inline_once}
        new = without_lets(f, gone.__contains__)
        if gone and new is f:  # functions that call themselves, and nothing else does
            new = _without_unused(f, uses)
        if new is f:
            return f
        f = new


def _without_unused(f: Function, uses: Any) -> Function:
    def drop(old: Any, new: Any) -> RelaxExpr | None:
        return new.body if isinstance(old, Let) and _times(old, uses) == 0 else None

    return transform(f, drop)  # type: ignore[no-any-return]


def _times(let: Let, uses: Any) -> int:
    """How often a variable is used outside of the Let's own field and of its own value."""
    inside = sum(1 for n in postorder(let.value) for c in n.children() if c is let.var)
    return int(uses[let.var]) - 1 - inside
