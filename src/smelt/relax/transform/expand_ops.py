"""Operators of a dialect become the core's: each call is replaced by its operator's body."""

from __future__ import annotations

from collections.abc import Collection

from smelt.ir.module import IRModule
from smelt.relax.folding import folded
from smelt.relax.graph import transform
from smelt.relax.graph_op import GraphOp
from smelt.relax.nodes import Call, Constant, RelaxExpr

from .rewriting import transform_functions


def expand_ops(mod: IRModule, names: Collection[str] | None = None) -> IRModule:
    """Expand the calls of dialect operators in all graph functions but those of other compilers.

    names  only operators of these names; None: all
    """
    return transform_functions(mod, lambda old, new: expanded(new, names))


def expanded(node: RelaxExpr, names: Collection[str] | None = None) -> RelaxExpr | None:
    """What stands for a value whose operands are expanded; None: it stays."""
    if not isinstance(node, Call) or not isinstance(node.op, GraphOp):
        return None
    op = node.op
    if names is not None and op.name not in names:
        return None
    if op.needs:
        args = [folded(a) if a and i in op.needs else a for i, a in enumerate(node.args)]
        node = node.replace(args=tuple(args))
    made = op.expand(node)
    if isinstance(made, Call) and isinstance(made.op, GraphOp):
        made = made.op.expand(made)  # of an operator whose sizes are operands: the static one
    if node.name and isinstance(made, Call) and not made.name:
        return made.replace(name=node.name)
    return made


def to_static(node: Call) -> RelaxExpr | None:
    """A call whose sizes are operands as the call with known sizes; None: they are not known."""
    op = node.op
    if not isinstance(op, GraphOp) or not op.needs:
        return None
    args = list(node.args)
    for i, operand in enumerate(args):
        if i in op.needs and operand is not None:
            args[i] = folded(transform(operand, lambda old, new: expanded(new)))
            if not isinstance(args[i], Constant):
                return None
    return op.expand(node.replace(args=tuple(args)))
