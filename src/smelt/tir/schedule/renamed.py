"""Copies of statements with names of their own."""

from __future__ import annotations

from smelt.ir.expr import Expr, Var
from smelt.tir.nodes import (
    Allocate,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IterVar,
    LetStmt,
    Stmt,
)
from smelt.tir.rewrite import Rewriter

from .state import State

__all__ = ["renamed_copy"]


class _Fresh(Rewriter):
    def __init__(self, state: State) -> None:
        super().__init__()
        self.state = state
        self.buffers: dict[Buffer, Buffer] = {}

    def buffer(self, b: Buffer) -> Buffer:
        return self.buffers.get(b, b)

    def _var(self, v: Var) -> Var:
        new = Var(self.state.fresh(v.name), v.type)
        self.memo[v] = new
        return new

    def visit_For(self, s: For) -> Stmt:
        low, extent = self.expr(s.min), self.expr(s.extent)
        v = self._var(s.var)
        self.state.facts.bind(v, low, extent)
        return s.replace(var=v, min=low, extent=extent, body=self.stmt(s.body))

    def visit_LetStmt(self, s: LetStmt) -> Stmt:
        value = self.expr(s.value)
        return LetStmt(self._var(s.var), value, self.stmt(s.body))

    def visit_Allocate(self, s: Allocate) -> Stmt:
        self.buffers[s.buffer] = s.buffer.replace(name=self.state.fresh(s.buffer.name))
        return super().visit_Allocate(s)

    def visit_BufferStore(self, s: BufferStore) -> Stmt:
        return BufferStore(self.buffer(s.buffer), self.expr(s.value), self.exprs(s.indices))

    def visit_BlockRealize(self, s: BlockRealize) -> Stmt:
        values, predicate = self.exprs(s.values), self.expr(s.predicate)
        b = s.block
        iters = []
        for i in b.iter_vars:
            v = self._var(i.var)
            self.state.facts.bind(v, i.dom.min, i.dom.extent)
            iters.append(IterVar(v, i.dom, i.kind))
        for x in b.alloc_buffers:
            self.buffers[x] = x.replace(name=self.state.fresh(x.name))
        block = b.replace(name=self.state.fresh_block(b.name), iter_vars=tuple(iters))
        new = self.stmt(block)
        assert isinstance(new, Block)
        return BlockRealize(values, predicate, new)

    def visit_expr(self, e: Expr) -> Expr:
        if isinstance(e, BufferLoad):
            return BufferLoad(self.buffer(e.buffer), self.exprs(e.indices))
        return super().visit_expr(e)


def renamed_copy(state: State, s: Stmt) -> Stmt:
    """A copy of a statement in which loops, blocks, variables and buffers have new names."""
    return _Fresh(state).stmt(s)
