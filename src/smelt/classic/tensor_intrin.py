"""Instructions told as tensor expressions: `decl_tensor_intrin`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smelt.ir.errors import TypeMismatch
from smelt.te.prim_func import create_prim_func
from smelt.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from smelt.tir.intrin import TensorIntrin
from smelt.tir.nodes import Block, Buffer, PrimFunc, Stmt
from smelt.tir.rewrite import map_stmts

Made = Stmt | PrimFunc | None


def decl_tensor_intrin(
    op: Operation | Tensor,
    fcompute: Callable[[list[Buffer], list[Buffer]], Any],
    name: str = "tensor_intrin",
    binds: Mapping[Tensor, Buffer] | None = None,
) -> TensorIntrin:
    """What a small computation is done by, for `stage.tensorize` and `Schedule.tensorize`.

    op        a computation of placeholders: what the instruction does
    fcompute  (inputs, outputs) -> the statement, or the program with these parameters, that does
              it. For a reduction a triple of them: (all of it, the start, the update); schedules
              start a reduction by themselves, so that only the update is used
    binds     buffers that stand for some of the tensors, as given to fcompute
    """
    made = op.op if isinstance(op, Tensor) else op
    if not isinstance(made, ComputeOp):
        raise TypeMismatch(f"{name}: an instruction is described by a te.compute")
    inner = [t.name for t in made.inputs if not isinstance(t.op, PlaceholderOp)]
    if inner:
        raise TypeMismatch(
            f"{name}: the operand {inner[0]} is computed; legal: placeholders as operands"
        )
    given = dict(binds or {})
    ins, outs = (
        [given.get(t) or Buffer(t.name, t.shape, t.type) for t in side]
        for side in (made.inputs, made.outputs)
    )
    body = _update(name, fcompute(ins, outs), bool(made.reduce_axis))
    if isinstance(body, Stmt):
        body = PrimFunc((*ins, *outs), body, {"name": name})
    desc = create_prim_func([*made.inputs, *made.outputs], name)
    update = map_stmts(desc.body, Block, lambda b: b.replace(init=None))
    return TensorIntrin(name, desc.replace(body=update), body)


def _update(name: str, made: Any, reduces: bool) -> Stmt | PrimFunc:
    """The part of what fcompute gave that a scheduled loop nest leaves to the instruction."""
    parts: Sequence[Made] = made if isinstance(made, tuple | list) else (made,)
    if any(p is not None and not isinstance(p, Stmt | PrimFunc) for p in parts):
        kinds = ", ".join([type(p).__name__ for p in parts])
        raise TypeMismatch(f"{name}: fcompute gave {kinds}; legal: statements or programs")
    if len(parts) not in ((3,) if reduces else (1,)):
        legal = "(all of it, the start, the update) for a reduction" if reduces else "one statement"
        raise TypeMismatch(f"{name}: fcompute gave {len(parts)} parts; legal: {legal}")
    found = parts[-1]
    if found is None:
        raise TypeMismatch(f"{name}: fcompute gave no update; a sum is updated tile by tile")
    return found
