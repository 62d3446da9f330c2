"""Buffers of one dimension: a[i, j] becomes a[i * 64 + j]. The last pass that sees shapes."""

from __future__ import annotations

from smelt.ir.expr import INDEX, Expr, Var, const
from smelt.tir.nodes import Allocate, Buffer, BufferLoad, BufferStore, PrimFunc, Stmt

from .simplify import Simplify

__all__ = ["flatten_buffers"]


class _Flatten(Simplify):
    def __init__(self, sizes: list[Var]) -> None:
        super().__init__(sizes)
        self.flat: dict[Buffer, Buffer] = {}

    def expr(self, e: Expr) -> Expr:
        found = self.memo.get(e)
        if found is None:
            found = self.memo[e] = self.analyzer.simplify(self.visit_expr(e))
        return found

    def visit_expr(self, e: Expr) -> Expr:
        if isinstance(e, BufferLoad):
            return BufferLoad(self.buffer(e.buffer), (self.offset(e.buffer, self.exprs(e.indices)),))
        return super().visit_expr(e)

    def visit_BufferStore(self, s: BufferStore) -> Stmt:
        offset = self.offset(s.buffer, self.exprs(s.indices))
        return BufferStore(self.buffer(s.buffer), self.expr(s.value), (offset,))

    def visit_Allocate(self, s: Allocate) -> Stmt:
        return Allocate(self.buffer(s.buffer), self.stmt(s.body), s.annotations)

    def buffer(self, b: Buffer) -> Buffer:
        found = self.flat.get(b)
        if found is None:
            size: Expr = const(1, INDEX)
            for e in b.shape:
                size = size * self.analyzer.simplify(e)
            found = self.flat[b] = Buffer(b.name, (size,), b.type, b.scope)
        return found

    def offset(self, b: Buffer, indices: tuple[Expr, ...]) -> Expr:
        """The element's place in row-major order (or by the buffer's strides)."""
        total: Expr = const(0, INDEX)
        step: Expr = const(1, INDEX)
        strides = b.strides
        for d in range(len(indices) - 1, -1, -1):
            total = total + indices[d] * (strides[d] if strides else step)
            step = step * b.shape[d]
        return self.analyzer.simplify(total)


def flatten_buffers(func: PrimFunc) -> PrimFunc:
    """A program whose buffers have one dimension each, parameters included."""
    flatten = _Flatten([p for p in func.params if isinstance(p, Var)])
    params = tuple([flatten.buffer(p) if isinstance(p, Buffer) else p for p in func.params])
    return func.replace(params=params, body=flatten.stmt(func.body))
