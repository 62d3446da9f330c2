"""Functions that nothing calls leave the module."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir.module import IRModule
from smelt.relax.nodes import Call, Function, GlobalVar

from .engine import order

__all__ = ["eliminate_dead_code"]


def eliminate_dead_code(mod: IRModule, *, entries: Sequence[str] = ("main",)) -> IRModule:
    """Keep the entry functions and what they call, directly or not.

    Inside a function there is no dead code: a value that nothing needs is not part of the graph.
    A module without any of the entries stays as it is.
    """
    todo = [name for name in entries if name in mod]
    if not todo:
        return mod
    live: set[str] = set()
    while todo:
        name = todo.pop()
        if name in live or name not in mod:
            continue
        live.add(name)
        f = mod[name]
        if isinstance(f, Function):
            called = [n.op for n in order(f.body) if isinstance(n, Call)]
            todo += [op.name for op in called if isinstance(op, GlobalVar)]
    if live == set(mod):
        return mod
    return IRModule({n: f for n, f in mod.functions.items() if n in live}, mod.attrs)
