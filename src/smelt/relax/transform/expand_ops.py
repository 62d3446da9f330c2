"""Operators of a face become the core's: each call is replaced by what its operator's body says."""

from __future__ import annotations

from collections.abc import Collection

from smelt.ir.module import IRModule
from smelt.relax.graph_op import GraphOp
from smelt.relax.nodes import Call, Function, RelaxExpr, Tuple, TupleGetItem, rewrite

__all__ = ["expand_ops"]


def expand_ops(mod: IRModule, names: Collection[str] | None = None) -> IRModule:
    """Expand the calls of face operators in all graph functions but those of other compilers.

    names  only operators of these names; None: all
    """
    made = {
        name: rewrite(f, lambda node: _expanded(node, names))
        for name, f in mod.functions.items()
        if isinstance(f, Function) and not f.attrs.get("Compiler")
    }
    changed = {name: f for name, f in made.items() if f is not mod.functions[name]}
    return mod.with_functions(changed) if changed else mod


def _expanded(node: RelaxExpr, names: Collection[str] | None) -> RelaxExpr | None:
    if isinstance(node, TupleGetItem) and isinstance(node.value, Tuple):
        return node.value.items[node.index]
    if not isinstance(node, Call) or not isinstance(node.op, GraphOp):
        return None
    if names is not None and node.op.name not in names:
        return None
    made = node.op.expand(node)
    if node.name and isinstance(made, Call) and not made.name:
        return made.replace(name=node.name)
    return made
