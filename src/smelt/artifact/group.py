"""A fused group of operators as one tensor program on buffers that may be strided views."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir.expr import Expr, Var
from smelt.lowering.remove import remove_no_op
from smelt.relax.nodes import Function
from smelt.relax.shapes import sizes_among
from smelt.relax.transform.choose_layouts import memory_order
from smelt.relax.transform.to_programs import OWN, Bodies, dense_program
from smelt.relax.views import View, dense_in_order, is_dense
from smelt.tir.facts import analyzer_of, sizes_of
from smelt.tir.nodes import BlockRealize, Buffer, PrimFunc
from smelt.tir.rewrite import replace_buffers


def group_to_prim_func(
    group: Function,
    inputs: Sequence[View],
    outputs: Sequence[View],
    name: str,
    bodies: Bodies = OWN,
) -> PrimFunc:
    """The program of a fused group.

    bodies           algorithms that take the place of operators' own
    inputs, outputs  where the elements of parameters and results stand; offsets are the caller's
    """
    func = dense_program(group, name, bodies)
    sizes: dict[Expr, int] = {p: 0 for p in func.params if isinstance(p, Var)} | sizes_of(func)
    analyzer = analyzer_of(sizes)
    changes: dict[Buffer, Buffer] = {}
    for b, v in zip(func.buffers, [*inputs, *outputs], strict=True):
        if not is_dense(v, analyzer):
            changes[b] = b.replace(strides=v.strides)
    result = outputs[0]
    if not is_dense(result, analyzer):
        # its order is that of the intermediates, too; another algorithm has an order of its own
        assert isinstance(func.body, BlockRealize)
        root = func.body.block
        order = memory_order(result, analyzer) or range(len(result.shape))
        for b in root.alloc_buffers:
            if len(b.shape) == len(order) and (not bodies or b.shape == result.shape):
                changes[b] = b.replace(strides=dense_in_order(b.shape, order).strides)
    if not changes:
        return func
    params = tuple([changes.get(p, p) if isinstance(p, Buffer) else p for p in func.params])
    new = func.replace(params=params, body=replace_buffers(func.body, changes))
    told = sizes_among([s for b in new.buffers for s in b.strides])
    extra = [v for v in told if v not in new.params]  # sizes that only strides mention
    return new.replace(params=(*new.params, *extra)) if extra else new


def in_place(func: PrimFunc, operand: int) -> PrimFunc:
    """A scheduled program of one result that is written into the memory of an operand.

    Its elements are read at their own places only, or copied before all else: such a copy goes.
    """
    x, result = func.buffers[operand], func.buffers[-1]
    params = tuple([p for p in func.params if p is not result])
    body = replace_buffers(func.body, {result: x})
    return remove_no_op(func.replace(params=params, body=body))
