"""Indices in 64 bits: what primitives add to a program has that type."""

from __future__ import annotations

from smelt.ir import dtype as dt
from smelt.ir.expr import INDEX, Binary, Compare, Expr, IntImm, Ramp, Var, cast, const
from smelt.ir.node import map_all
from smelt.ir.walk import free_vars, rebuild_binary
from smelt.tir import nodes
from smelt.tir.rewrite import Rewriter, updated
from smelt.tir.script_ops import shape_vars


class _Wide(Rewriter):
    """Loops, axes, sizes and indices in 64 bits; values keep their types."""

    def __init__(self) -> None:
        super().__init__()
        self.vars: dict[Expr, Var] = {}

    def bind(self, v: Var) -> Var:
        """The variable that stands for one from here on."""
        if v.type == INDEX:
            return v
        new = self.vars[v] = Var(v.name, INDEX)
        self.memo[v] = cast(v.type, new)
        return new

    def wide(self, e: Expr) -> Expr:
        """An index in 64 bits."""
        match e:
            case _ if dt.scalar(e.dtype) == INDEX:
                return self.expr(e)
            case IntImm(_, value):
                return const(value, INDEX)
            case Var() if e in self.vars:
                return self.vars[e]
            case Binary(a, b):
                return rebuild_binary(type(e), self.wide(a), self.wide(b))
            case Ramp(base, stride, lanes):
                return Ramp(self.wide(base), self.wide(stride), lanes)
        return cast(dt.vector(INDEX, dt.lanes(e.dtype)), self.expr(e))

    def visit_expr(self, e: Expr) -> Expr:
        if isinstance(e, nodes.BufferLoad):
            return nodes.BufferLoad(self.buffer(e.buffer), map_all(e.indices, self.wide))
        if isinstance(e, Compare) and dt.is_int(e.a.dtype) and self.vars.keys() & free_vars(e):
            return rebuild_binary(type(e), self.wide(e.a), self.wide(e.b))
        return super().visit_expr(e)

    def buffer(self, b: nodes.Buffer) -> nodes.Buffer:
        found = self.buffers.get(b)
        if found is None:
            shape, strides = map_all(b.shape, self.wide), map_all(b.strides, self.wide)
            found = self.buffers[b] = updated(b, shape=shape, strides=strides)
        return found

    allocated = buffer

    def visit_For(self, s: nodes.For) -> nodes.Stmt:
        low, extent, notes = self.wide(s.min), self.wide(s.extent), self.notes(s.annotations)
        own = updated(s, var=self.bind(s.var), min=low, extent=extent, annotations=notes)
        return updated(own, body=self.stmt(s.body))

    def visit_BufferStore(self, s: nodes.BufferStore) -> nodes.Stmt:
        indices = map_all(s.indices, self.wide)
        return nodes.BufferStore(self.buffer(s.buffer), self.expr(s.value), indices)

    def visit_BlockRealize(self, s: nodes.BlockRealize) -> nodes.Stmt:
        values, predicate = map_all(s.values, self.wide), self.expr(s.predicate)
        return updated(s, values=values, predicate=predicate, block=self.stmt(s.block))

    def iter_var(self, i: nodes.IterVar) -> nodes.IterVar:
        return updated(i, dom=self.interval(i.dom), var=self.bind(i.var))

    def region(self, r: nodes.BufferRegion) -> nodes.BufferRegion:
        return nodes.BufferRegion(self.buffer(r.buffer), map_all(r.region, self.interval))

    def interval(self, r: nodes.Range) -> nodes.Range:
        """What an axis runs over, or one dimension of a region."""
        return updated(r, min=self.wide(r.min), extent=self.wide(r.extent))


def with_wide_indices(func: nodes.PrimFunc) -> nodes.PrimFunc:
    """An equal function whose loops, axes, sizes and indices have 64 bits."""
    extents = {e for b in func.buffers for e in b.shape}
    sizes = shape_vars(func.params)
    sizes += [p for p in func.params if isinstance(p, Var) and p in extents]
    bound = list(sizes)
    for s in nodes.walk(func.body):
        if isinstance(s, nodes.For):
            bound.append(s.var)
        elif isinstance(s, nodes.Block):
            bound += [i.var for i in s.iter_vars]
    if all(v.type == INDEX for v in bound):
        return func
    wide = _Wide()
    own = {v: wide.bind(v) for v in sizes}
    params = [wide.buffer(p) if isinstance(p, nodes.Buffer) else own.get(p, p) for p in func.params]
    return func.replace(params=tuple(params), body=wide.stmt(func.body))
