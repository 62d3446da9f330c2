"""From tensor expressions to a tensor program in its naive form: one block a computation."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir.build import is_const
from smelt.ir.expr import INDEX, Expr, Var, const
from smelt.ir.walk import free_vars, substitute
from smelt.tir import nodes as tir
from smelt.tir.names import unique_name
from smelt.tir.regions import element, full
from smelt.tir.rewrite import Rewriter, UniqueNames, loads
from smelt.tir.script_ops import expr_nodes

from .broadcast import EQUATIONS, parts, repeated
from .tensor import ComputeOp, ExternOp, Operation, PlaceholderOp, Tensor, topological


class _OwnNames(UniqueNames):
    """Replaces tensors by plain buffers; what is bound gets a name that the program has not yet."""

    def __init__(self, buffers: dict[Tensor, tir.Buffer], names: set[str]) -> None:
        super().__init__(names)
        self.buffers |= buffers

    def new_block(self, name: str) -> str:
        return _block_name(name, self.names)


def create_prim_func(ops: Sequence[Tensor | Var], name: str = "main") -> tir.PrimFunc:
    """The program that computes the last of `ops` from the first ones.

    ops  placeholders and results in the order of the parameters; symbolic sizes that are not
         listed become parameters at the end, in order of first use
    """
    params = [a for a in ops if isinstance(a, Tensor)]
    results = [a for a in params if not isinstance(a.op, PlaceholderOp)]
    return program_of(ops, topological(results), name)


def program_of(args: Sequence[Tensor | Var], ops: Sequence[Operation], name: str) -> tir.PrimFunc:
    """The program that carries out some operations, producers first: a block each, in order."""
    params = [a for a in args if isinstance(a, Tensor)]
    names: set[str] = set()
    buffers: dict[Tensor, tir.Buffer] = {}
    for tensor in [*params, *[t for op in ops for t in op.outputs]]:
        if tensor not in buffers:
            buffers[tensor] = tir.Buffer(
                unique_name(tensor.name, names), tensor.shape, tensor.type, tensor.scope
            )
    sizes = _sizes([*params, *[t for op in ops for t in op.outputs]], ops)
    scalars = [a for a in args if isinstance(a, Var)]
    for v in (*scalars, *sizes):
        names.add(v.name)
    allocated = [buffers[t] for op in ops for t in op.outputs if t not in params]
    stages = {ComputeOp: _compute, ExternOp: _extern}
    body = tir.seq(*[stages[type(op)](op, buffers, names) for op in ops if type(op) in stages])
    root = tir.Block("root", (), (), (), body, None, tuple(allocated))
    everything = [buffers[a] if isinstance(a, Tensor) else a for a in args]
    everything += [v for v in sizes if v not in scalars]
    attrs = {EQUATIONS: equations} if sizes and (equations := _equations(ops)) else {}
    return tir.PrimFunc(
        tuple(everything), tir.BlockRealize((), const(True), root), {"name": name, **attrs}
    )


def _equations(ops: Sequence[Operation]) -> tuple[tuple[str, str, str, bool], ...]:
    """The extents that operands have to share with results unless they are 1, as `EQUATIONS`."""
    found: dict[tuple[str, str, str, bool], None] = {}
    for op in [op for op in ops if isinstance(op, ComputeOp)]:
        extents = {a.var: a.dom.extent for a in op.axis}
        for load in [x for e in op.body for x in loads(e)]:
            for index, e in zip(load.indices, load.buffer.shape, strict=True):
                i = repeated(index, e)
                if i is not None and i in extents:
                    for other in [p for p in parts(extents[i]) if p not in parts(e)]:
                        a, b = sorted(map(str, (e, other)))
                        found[a, b, op.name, True] = None
    return tuple(found)


def _sizes(tensors: Sequence[Tensor], ops: Sequence[Operation]) -> list[Var]:
    found: dict[Var, None] = {}

    def note(variables: set[Var]) -> None:
        found.update(dict.fromkeys(sorted(variables, key=lambda v: v.name)))

    for e in [e for t in tensors for e in t.shape]:
        note(free_vars(e))
    for op in [op for op in ops if isinstance(op, ComputeOp)]:
        bound = {a.var for a in (*op.axis, *op.reduce_axis)}
        for axis in op.reduce_axis:
            note(free_vars(axis.dom.extent))
        for body in op.body:
            note({n for n in expr_nodes(body) if isinstance(n, Var)} - bound)
    return list(found)


def _compute(op: Operation, buffers: dict[Tensor, tir.Buffer], names: set[str]) -> tir.Stmt:
    assert isinstance(op, ComputeOp)
    rewrite = Rewriter(buffers=buffers)
    iters, loops = [], []
    for axis in (*op.axis, *op.reduce_axis):
        own = tir.IterVar(Var(unique_name("v_" + axis.var.name, names)), axis.dom, axis.kind)
        rewrite.memo[axis.var] = own.var
        iters.append(own)
        loops.append((Var(unique_name(axis.var.name, names)), axis.dom))
    point = tuple([i.var for i in iters[: len(op.axis)]])
    outs = [buffers[t] for t in op.outputs]
    init: tir.Stmt | None = None
    if op.reduce_axis:
        init, body = _reduction(op.body[0], outs, point, rewrite)
    else:
        body = tir.stores(outs, map(rewrite.expr, op.body), point)
    name, reads = _block_name(op.name, names), _reads(op, rewrite)
    writes = tuple([element(b, point) for b in outs])
    attrs = {k: _named(v, buffers) for k, v in op.attrs.items()}
    block = tir.Block(name, tuple(iters), reads, writes, body, init, (), attrs)
    stmt: tir.Stmt = tir.BlockRealize(tuple([v for v, _ in loops]), const(True), block)
    for v, dom in reversed(loops):
        stmt = tir.For(v, dom.min, dom.extent, stmt)
    return stmt


def _extern(op: Operation, buffers: dict[Tensor, tir.Buffer], names: set[str]) -> tir.Stmt:
    """A block that reads and writes whole tensors."""
    assert isinstance(op, ExternOp)
    name, attrs = _block_name(op.name, names), dict(op.attrs)
    body = _OwnNames(buffers, names).stmt(op.body)
    alloc: tuple[tir.Buffer, ...] = ()
    if isinstance(body, tir.BlockRealize) and not body.block.iter_vars:
        alloc, body = body.block.alloc_buffers, body.block.body
    ins, outs = (tuple([full(buffers[t]) for t in x]) for x in (op.inputs, op.outputs))
    return tir.BlockRealize(
        (), const(True), tir.Block(name, (), ins, outs, body, None, alloc, attrs)
    )


def _block_name(base: str, names: set[str]) -> str:
    """Blocks have a name space of their own, told apart by a prefix in the table."""
    return unique_name("block:" + base, names).removeprefix("block:")


def _reads(op: ComputeOp, rewrite: Rewriter) -> tuple[tir.BufferRegion, ...]:
    """The elements read, one region a load (whole dimensions where an index is data-dependent)."""
    found = [rewrite.expr(x) for e in reversed(op.body) for x in loads(e)]
    own = {(x.buffer, x.indices): _region(x) for x in found if isinstance(x, tir.BufferLoad)}
    return tuple(own.values())


def _region(load: tir.BufferLoad) -> tir.BufferRegion:
    one, zero = const(1, INDEX), const(0, INDEX)
    pairs = zip(load.indices, load.buffer.shape, strict=True)
    dims = [tir.Range(zero, e) if loads(i) else tir.Range(i, one) for i, e in pairs]
    return tir.BufferRegion(load.buffer, tuple(dims))


def _named(value: object, buffers: dict[Tensor, tir.Buffer]) -> object:
    """An attribute with tensors' names in place of these (layout_free_placeholders): programs are
    text, and equal ones have equal texts."""
    if isinstance(value, list | tuple):
        return type(value)([_named(v, buffers) for v in value])
    if isinstance(value, Tensor):
        return buffers[value].name if value in buffers else value.name
    return value


def _reduction(
    e: Expr, outs: list[tir.Buffer], point: tuple[Expr, ...], rewrite: Rewriter
) -> tuple[tir.Stmt, tir.Stmt]:
    """The init and the update of a reduction, also of several components at once."""
    assert isinstance(e, tir.Reduce)
    combiner = e.combiner
    start = [rewrite.expr(v) for v in e.init] if e.init else combiner.identity
    init = tir.stores(outs, start, point)
    values: dict[Var, Expr] = {}
    for v, b in zip(combiner.lhs, outs, strict=True):
        values[v] = tir.BufferLoad(b, point)
    for v, s in zip(combiner.rhs, e.sources, strict=True):
        values[v] = rewrite.expr(s)
    results = [substitute(r, values) for r in combiner.result]
    update = tir.stored_together(outs, results, point)
    condition = rewrite.expr(e.condition)
    return init, update if is_const(condition) else tir.IfThenElse(condition, update)
