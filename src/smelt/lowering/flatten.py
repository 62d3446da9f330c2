"""Buffers of one dimension: a[i, j] becomes a[i * 64 + j]. The last pass that sees shapes."""

from __future__ import annotations

from smelt.arith import Analyzer
from smelt.ir.expr import INDEX, Expr, const
from smelt.tir.access import flat_offset
from smelt.tir.nodes import Allocate, AllocateConst, Buffer, BufferStore, PrimFunc, Stmt
from smelt.tir.rewrite import Indices, Rewriter

from .lanes import in_steps
from .ranges import analyzer_for
from .simplify import Simplify


class _Offsets(Rewriter):
    """Replaces indices by offsets in row-major order (or by the buffer's strides)."""

    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__()
        self.analyzer = analyzer

    def access(self, b: Buffer, indices: Indices) -> tuple[Buffer, Indices]:
        return self.buffer(b), (self.offset(b, indices),)

    def other_buffer(self, b: Buffer) -> Buffer:
        return Buffer(b.name, (self.size(b),), b.type, b.scope)

    def size(self, b: Buffer) -> Expr:
        """The elements from the first to the last; with strides there may be gaps among them."""
        size: Expr = const(1, INDEX)
        if not b.strides:
            for e in b.shape:
                size = size * self.analyzer.simplify(e)
            return size
        for e, step in zip(b.shape, b.strides, strict=True):
            size = size + (e - 1) * step
        return self.analyzer.simplify(size)

    def offset(self, b: Buffer, indices: Indices) -> Expr:
        return in_steps(flat_offset(b, indices), self.analyzer)


class _Flatten(Simplify):
    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__(analyzer)
        self.offsets = _Offsets(self.analyzer)

    def plain(self, e: Expr) -> Expr:
        return self.offsets.expr(super().plain(e))

    def visit_BufferStore(self, s: BufferStore) -> Stmt:
        offset = self.offsets.offset(s.buffer, tuple(map(self.plain, s.indices)))
        return BufferStore(
            self.offsets.buffer(s.buffer), self.expr(s.value), (self.analyzer.simplify(offset),)
        )

    def visit_Allocate(self, s: Allocate) -> Stmt:
        return Allocate(self.offsets.buffer(s.buffer), self.stmt(s.body), s.annotations)

    def visit_AllocateConst(self, s: AllocateConst) -> Stmt:
        return AllocateConst(self.offsets.buffer(s.buffer), s.data.reshape(-1), self.stmt(s.body))


def flatten_buffers(func: PrimFunc) -> PrimFunc:
    """A program whose buffers have one dimension each, parameters included."""
    flatten = _Flatten(analyzer_for(func))
    params = tuple([flatten.offsets.buffer(p) if isinstance(p, Buffer) else p for p in func.params])
    return func.replace(params=params, body=flatten.stmt(func.body))
