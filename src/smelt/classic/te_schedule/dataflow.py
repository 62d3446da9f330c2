"""Rewriting of operations: cache_read, cache_write, rfactor.

Tensors keep their identity: a stage gets another operation that makes the same tensors, so that
what reads them need not be touched, and `s[C]` stays valid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from smelt.ir.build import all_of, if_then_else
from smelt.ir.expr import Expr, Var, const
from smelt.te.tensor import ComputeOp, ExternOp, Operation, Tensor
from smelt.tir.nodes import Buffer, BufferLoad, IterVar, Reduce
from smelt.tir.rewrite import loads, replace_buffers

from .axes import Relation, Reorder, bounds, derived_from, new_axis, pass_down, pass_up
from .call import MethodCall, listed
from .rewrite import made, rewritten
from .stage import Stage, check_scope

if TYPE_CHECKING:
    from .schedule import Schedule


def _axes(names: Sequence[str], shape: Sequence[Expr]) -> tuple[IterVar, ...]:
    return tuple(map(new_axis, names, shape))


# ---------------------------------------------------------------------------------- cache_read


def cache_read(s: Schedule, tensor: Tensor, scope: str, readers: Sequence[Any]) -> Tensor:
    """See Schedule.cache_read."""
    call = MethodCall("s", "cache_read", tensor, scope, list(readers))
    check_scope(call, scope)
    source = s[tensor]
    users = [x.name for x in s.consumers(source) if tensor in x.op.inputs]
    if not readers:
        call.fail("no reader is given", listed(users))
    chosen = [s[r] for r in readers]
    for x in chosen:
        if tensor not in x.op.inputs:
            call.fail(f"{x.name} does not read {tensor.name}", f"one of {', '.join(users)}")
    axes = _axes([f"ax{k}" for k in range(tensor.ndim)], tensor.shape)
    op = ComputeOp(_named(tensor.name, scope), axes, (tensor[tuple([a.var for a in axes])],), {})
    copy = Tensor(op.name, tensor.shape, tensor.type, scope, op=op)
    stage = s.add(Stage(s, made(op, [copy]), op.name), after=source)
    stage.scope, stage.group = scope, source.group
    for x in chosen:
        x.become(_reading(x.op, {tensor: copy}))
        s.register(x)
    return copy


def _reading(op: Operation, tensors: Mapping[Tensor, Tensor]) -> Operation:
    """The operation with other tensors to read."""
    if isinstance(op, ExternOp):
        new = ExternOp(op.name, tuple([tensors.get(t, t) for t in op.inputs]), op.attrs)
        buffers: dict[Buffer, Buffer] = dict(tensors.items())
        new.body = replace_buffers(op.body, buffers)
        return made(new, op.outputs)
    assert isinstance(op, ComputeOp)
    body = rewritten(op.body, {}, tensors)
    return made(ComputeOp(op.name, op.axis, body, op.attrs), op.outputs)


# --------------------------------------------------------------------------------- cache_write


def cache_write(s: Schedule, tensors: Sequence[Tensor], scope: str) -> list[Tensor]:
    """See Schedule.cache_write."""
    call = MethodCall("s", "cache_write", tensors[0] if len(tensors) == 1 else list(tensors), scope)
    check_scope(call, scope)
    stage = s[tensors[0]]
    op = _computed(call, stage)
    if list(op.outputs) != list(tensors):
        call.fail(
            f"{stage.name} makes {listed(op.outputs)}, all of which are computed together",
            f"s.cache_write([{', '.join([t.name for t in op.outputs])}], {scope!r})",
        )
    reduction = derived_from(op.reduce_axis, stage.relations)
    for c, r in stage.steps:
        if len({a in reduction for a in r.used}) > 1:
            call.fail(f"{c} has joined a reduction axis with another one", "cache_write first")
    # the spatial leaves become the dimensions of the cache
    leaves = [a for a in stage.leaf_iter_vars if a not in reduction]
    steps = [r for r in stage.relations if not reduction.issuperset(r.used) or not r.used]
    axes = _axes([a.var.name for a in leaves], [a.dom.extent for a in leaves])
    up = pass_up(steps, {a: new.var for a, new in zip(leaves, axes, strict=True)})
    down = pass_down(steps, {a: a.var for a in op.axis})
    body = rewritten(op.body, {a.var: v for a, v in up.items()})
    body = tuple([_where(bounds(steps, up), e) for e in body])
    cache = ComputeOp(_named(op.name, scope), axes, body, op.attrs)
    copies = _outputs(cache, scope, op.outputs, scope)
    new = s.add(Stage(s, cache, cache.name), before=stage)
    new.scope, new.group = scope, stage.group
    _keep(new, stage, reduction, before=axes)
    loads = tuple([BufferLoad(t, tuple([down[a] for a in leaves])) for t in copies])
    stage.become(made(ComputeOp(op.name, op.axis, loads, {}), op.outputs))
    unsplit = not steps and leaves == list(op.axis)
    treatments = {a: t for a, t in stage.treatments.items() if a in op.axis} if unsplit else {}
    stage.reset()
    stage.treatments = treatments
    s.register(stage)
    return copies


def _where(conditions: list[Expr], e: Expr) -> Expr:
    """A value where all conditions hold; elsewhere nothing takes part, or zero."""
    if not conditions:
        return e
    inside = all_of(*conditions)
    if isinstance(e, Reduce):
        return e.replace(condition=_both(inside, e.condition))
    return if_then_else(inside, e, const(0, e.dtype))


def _both(inside: Expr, condition: Expr) -> Expr:
    """Two conditions, the second of which may read elements that are there only inside."""
    if loads(condition):
        return if_then_else(inside, condition, const(False))
    return all_of(inside, condition)


# ------------------------------------------------------------------------------------- rfactor


def rfactor(s: Schedule, tensor: Tensor, axis: IterVar, factor_axis: int) -> list[Tensor]:
    """See Schedule.rfactor."""
    call = MethodCall("s", "rfactor", tensor, axis, factor_axis)
    stage = s[tensor]
    op = _computed(call, stage)
    first = op.body[0]
    if not isinstance(first, Reduce):
        call.fail(f"{stage.name} is no reduction", "a tensor made by te.sum, te.max, ...")
    stage.leaf(call, axis)
    place = factor_axis if factor_axis >= 0 else factor_axis + len(op.axis) + 1
    if not 0 <= place <= len(op.axis):
        call.fail(
            f"{factor_axis} is no place among {len(op.axis) + 1} dimensions",
            f"{-len(op.axis) - 1} to {len(op.axis)}",
        )
    touched = _joined_with(call, stage, op, axis)
    steps = [r for r in stage.relations if touched.issuperset(r.made)]
    # the axis becomes a dimension; the others that were made along with it stay reduction axes
    dims = list(_axes([a.var.name for a in op.axis], [a.dom.extent for a in op.axis]))
    values: dict[Var, Expr] = {a.var: d.var for a, d in zip(op.axis, dims, strict=True)}
    (factor,) = _axes([axis.var.name], [axis.dom.extent])
    dims.insert(place, factor)
    inner = [a for a in stage.leaf_iter_vars if a in touched and a is not axis]
    up = pass_up(steps, {axis: axis.dom.min + factor.var, **{a: a.var for a in inner}})
    values |= {a.var: v for a, v in up.items()}
    free = [a for a in op.reduce_axis if a not in touched]
    condition = _both(all_of(*bounds(steps, up)), rewritten([first.condition], values)[0])
    terms = _reduced(first, rewritten(first.sources, values), condition, (*free, *inner))
    partial = ComputeOp(f"{op.name}_rf", tuple(dims), terms, op.attrs)
    tensors = _outputs(partial, "rf", op.outputs, "global")
    new = s.add(Stage(s, partial, partial.name), before=stage)
    new.group = stage.group
    _keep(new, stage, derived_from(free, stage.relations), before=dims, after=inner)
    # the stage reduces the partial results
    over = IterVar(Var(factor.var.name), factor.dom, "reduce")
    at: list[Expr] = [a.var for a in op.axis]
    at.insert(place, over.var)
    joined = tuple([t[tuple(at)] for t in tensors])
    spatial = set(stage.all_iter_vars) - derived_from(op.reduce_axis, stage.relations)
    body = _reduced(first, joined, const(True), (over,), first.init)
    stage.become(made(ComputeOp(op.name, op.axis, body, op.attrs), op.outputs))
    stage.reduce = (over,)
    _keep(stage, stage, spatial, after=[over])
    s.register(stage)
    return tensors


def _reduced(
    like: Reduce,
    sources: tuple[Expr, ...],
    condition: Expr,
    axes: tuple[IterVar, ...],
    init: tuple[Expr, ...] = (),
) -> tuple[Expr, ...]:
    """The body of an operation that joins values, where a condition holds, as a reduction does."""
    if not axes:
        pairs = zip(sources, like.combiner.identity, strict=True)
        return tuple([if_then_else(condition, e, identity) for e, identity in pairs])
    places = range(len(sources))
    return tuple([Reduce(like.combiner, sources, axes, condition, k, init) for k in places])


def _joined_with(call: MethodCall, stage: Stage, op: ComputeOp, axis: IterVar) -> set[IterVar]:
    """All axes that splits and fusions tie to a reduction axis."""
    if axis.kind != "reduce":
        names = ", ".join([a.var.name for a in stage.leaf_iter_vars if a.kind == "reduce"])
        call.fail(f"{axis.var.name} is no reduction axis", f"one of {names}")
    found = {axis}
    size = 0
    while len(found) > size:
        size = len(found)
        for r in stage.relations:
            tied = (*r.used, *r.made)
            if found.intersection(tied):
                found.update(tied)
    for a in op.axis:
        if a in found:
            call.fail(f"{axis.var.name} was made of {a.var.name} too, which is a dimension")
    return found


# -------------------------------------------------------------------------------------- common


def _computed(call: MethodCall, stage: Stage) -> ComputeOp:
    """The operation of a stage, where it is one that can be rewritten."""
    if not isinstance(stage.op, ComputeOp):
        call.fail(f"{stage.name} is not given by an expression", "a tensor made by te.compute")
    if stage.layouts:
        call.fail(f"{stage.layouts[-1].call} has changed the layout", f"{call.name} before it")
    return stage.op


def _named(name: str, suffix: str) -> str:
    return f"{name}_{suffix.replace('.', '_')}"


def _outputs(op: ComputeOp, suffix: str, like: Sequence[Tensor], scope: str) -> list[Tensor]:
    """The results of a new operation, named after those of the old one."""
    shape = tuple([a.dom.extent for a in op.axis])
    out = [Tensor(_named(t.name, suffix), shape, t.type, scope, op=op) for t in like]
    made(op, out)
    return out


def _keep(
    stage: Stage,
    of: Stage,
    axes: set[IterVar],
    before: Sequence[IterVar] = (),
    after: Sequence[IterVar] = (),
) -> None:
    """Give a stage what has been said about some axes of a stage; new axes stand around them."""

    def order(leaves: Sequence[IterVar]) -> tuple[IterVar, ...]:
        return (*before, *[a for a in leaves if a in axes], *after)

    steps: list[tuple[MethodCall, Relation]] = []
    for call, r in of.steps:
        if isinstance(r, Reorder):
            steps.append((call, Reorder(order=order(r.order))))
        elif axes.issuperset(r.made):
            steps.append((call, r))
    stage.steps, stage.leaf_iter_vars = steps, list(order(of.leaf_iter_vars))
    leaves = set(stage.leaf_iter_vars)
    stage.treatments = {a: t for a, t in of.treatments.items() if a in leaves}
