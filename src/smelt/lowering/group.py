"""A fused group of operators as one tensor program on buffers that may be strided views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smelt import te
from smelt.arith import Analyzer
from smelt.ir.errors import InternalError
from smelt.ir.expr import Expr, Var, const
from smelt.ir.types import TensorType, TupleType
from smelt.ir.walk import free_vars
from smelt.relax.nodes import Call, Constant, Function, TupleGetItem, tensor_type_of, values
from smelt.relax.nodes import Var as GraphVar
from smelt.relax.views import View, is_dense
from smelt.te import Tensor
from smelt.tir.nodes import BlockRealize, Buffer, PrimFunc
from smelt.tir.rewrite import replace_buffers
from smelt.topi.registry import Op

__all__ = ["group_to_prim_func"]


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
    results = _results(group, params)
    func = te.create_prim_func([*params, *results], name)
    return _strided(func, [*inputs, *outputs], len(params))


def _results(group: Function, params: list[Tensor]) -> list[Tensor]:
    made: dict[int, Any] = {id(p): t for p, t in zip(group.params, params, strict=True)}
    for v in values(group.body):
        if isinstance(v, Call):
            made[id(v)] = _apply(v, made)
        elif isinstance(v, TupleGetItem):
            made[id(v)] = made[id(v.value)][v.index]
        elif isinstance(v, Constant):
            made[id(v)] = _scalar(v)
        elif not isinstance(v, GraphVar):
            raise InternalError(f"a {type(v).__name__} in a fused group")
    body = made[id(group.body)]
    tensors = list(body) if isinstance(body, list | tuple) else [body]
    # a result that is a parameter, or given twice, becomes a copy
    seen: set[int] = set()
    out = []
    for t in tensors:
        if id(t) in {id(p) for p in params} or id(t) in seen:
            t = te.compute(t.shape, lambda *i, t=t: t[i], name=t.name + "_copy")
        seen.add(id(t))
        out.append(t)
    return out


def _apply(call: Call, made: Mapping[int, Any]) -> Any:
    assert isinstance(call.op, Op)
    args = [None if a is None else made[id(a)] for a in call.args]
    missing = [] if call.op.variadic else call.op.operands[len(args) :]
    result = call.op(*args, *([None] * len(missing)), **call.attrs)
    if isinstance(call.type, TupleType):
        return result
    # the sizes were inferred once; the same expressions are used again
    assert isinstance(call.type, TensorType)
    return result


def _scalar(c: Constant) -> Tensor:
    """A one-element constant as a tensor expression that loads nothing."""
    value = const(c.data.reshape(-1)[0].item(), c.type.dtype)
    tensor: Tensor = te.compute(c.type.shape, lambda *i: value, name="c")
    return tensor


def _strided(func: PrimFunc, views: Sequence[View], inputs: int) -> PrimFunc:
    """Give the parameters their strides, and the intermediates the order of the first result."""
    analyzer = Analyzer()
    for p in func.params:
        if isinstance(p, Var):
            analyzer.assume_positive(p)
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
                changes[b] = b.replace(strides=_in_order(b.shape, order))
    if not changes:
        return func
    params = tuple([changes.get(p, p) if isinstance(p, Buffer) else p for p in func.params])
    new = func.replace(params=params, body=replace_buffers(func.body, changes))
    extra = _stride_sizes(new)
    return new.replace(params=(*new.params, *extra)) if extra else new


def _stride_sizes(func: PrimFunc) -> list[Var]:
    """Sizes that only strides mention."""
    known = set(func.params)
    found: dict[Var, None] = {}
    for b in func.buffers:
        for s in b.strides:
            found.update(
                dict.fromkeys(
                    sorted((v for v in free_vars(s) if v not in known), key=lambda v: v.name)
                )
            )
    return list(found)


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


def _in_order(shape: Sequence[Expr], order: Sequence[int]) -> tuple[Expr, ...]:
    strides: list[Expr] = [const(1)] * len(shape)
    step: Expr = const(1)
    for d in reversed(order):
        strides[d] = step
        step = step * shape[d]
    return tuple(strides)
