"""A fused group of operators as one tensor program on buffers that may be strided views."""

from __future__ import annotations

from collections.abc import Sequence

from smelt import te
from smelt.arith import Analyzer
from smelt.ir.expr import Expr, Var, const
from smelt.lowering.ranges import analyzer_of, sizes_of
from smelt.relax.nodes import Function, tensor_type_of
from smelt.relax.shapes import sizes_among
from smelt.relax.transform.to_programs import computed
from smelt.relax.views import View, dense_in_order, is_dense
from smelt.tir.nodes import BlockRealize, Buffer, PrimFunc
from smelt.tir.rewrite import replace_buffers


def group_to_prim_func(
    group: Function, inputs: Sequence[View], outputs: Sequence[View], name: str
) -> PrimFunc:
    """The program of a fused group.

    inputs, outputs  where the elements of parameters and results stand; offsets are the caller's
    """
    types = [tensor_type_of(p) for p in group.params]
    params = [
        te.placeholder(t.shape, t.dtype, p.name) for p, t in zip(group.params, types, strict=True)
    ]
    results = computed(group, params)
    func = te.create_prim_func([*params, *results], name)
    return _strided(func, [*inputs, *outputs], len(params))


def _strided(func: PrimFunc, views: Sequence[View], inputs: int) -> PrimFunc:
    """Give the parameters their strides, and the intermediates the order of the first result."""
    sizes: dict[Expr, int] = {p: 0 for p in func.params if isinstance(p, Var)} | sizes_of(func)
    analyzer = analyzer_of(sizes)
    changes: dict[Buffer, Buffer] = {}
    for b, v in zip(func.buffers, views, strict=True):
        if not is_dense(v, analyzer):
            changes[b] = b.replace(strides=v.strides)
    result = views[inputs]
    if not is_dense(result, analyzer):
        assert isinstance(func.body, BlockRealize)
        root = func.body.block
        order = _order(result, analyzer)
        for b in root.alloc_buffers:
            if len(b.shape) == len(order):
                changes[b] = b.replace(strides=dense_in_order(b.shape, order).strides)
    if not changes:
        return func
    params = tuple([changes.get(p, p) if isinstance(p, Buffer) else p for p in func.params])
    new = func.replace(params=params, body=replace_buffers(func.body, changes))
    told = sizes_among([s for b in new.buffers for s in b.strides])
    extra = [v for v in told if v not in new.params]  # sizes that only strides mention
    return new.replace(params=(*new.params, *extra)) if extra else new


def _order(view: View, analyzer: Analyzer) -> list[int]:
    """The dimensions of a dense view, outermost in memory first."""
    rest = list(range(len(view.shape)))
    order: list[int] = []
    at: Expr = const(1)
    while rest:
        fits = [d for d in reversed(rest) if analyzer.simplify(view.strides[d] - at) is const(0)]
        d = fits[0] if fits else rest[-1]
        rest.remove(d)
        order.insert(0, d)
        at = analyzer.simplify(view.strides[d] * view.shape[d])
    return order
