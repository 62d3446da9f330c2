"""Operators of a dialect become the core's: each call is replaced by its operator's body."""

from __future__ import annotations

from collections.abc import Collection

from smelt.ir.errors import TypeMismatch
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


def expand_dialects(mod: IRModule) -> IRModule:
    """Expand the operators of dialects; the core's own that are written in others of its
    operators, such as quantize and dequantize, stay."""
    return transform_functions(mod, lambda old, new: expanded(new, composites=False))


def expanded(
    node: RelaxExpr, names: Collection[str] | None = None, composites: bool = True
) -> RelaxExpr | None:
    """What stands for a value whose operands are expanded; None: it stays.

    composites  whether those of the core's operators are expanded that have a body of others
    """
    if not isinstance(node, Call) or not isinstance(node.op, GraphOp):
        return None
    op = node.op
    if (names is not None and op.name not in names) or not (composites or op.dialect):
        return None
    if op.needs:
        args = [folded(a) if a and i in op.needs else a for i, a in enumerate(node.args)]
        node = node.replace(args=tuple(args))
    try:
        made = op.expand(node)
    except TypeMismatch as error:  # of values that are known now: a type has them not
        raise TypeMismatch(f"node {node.name!r}: {error}" if node.name else str(error)) from error
    inner = made.op if isinstance(made, Call) else None
    if isinstance(made, Call) and isinstance(inner, GraphOp) and (composites or inner.dialect):
        made = inner.expand(made)  # of an operator whose sizes are operands: the static one
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
