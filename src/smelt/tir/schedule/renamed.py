"""Copies of statements with names of their own."""

from __future__ import annotations

from smelt.ir.expr import Expr, Var
from smelt.tir.nodes import Block, BlockRealize, Buffer, Stmt
from smelt.tir.rewrite import RenameBound

from .state import State


class _Fresh(RenameBound):
    def __init__(self, state: State) -> None:
        super().__init__()
        self.state = state

    def new_var(self, v: Var, low: Expr | None = None, extent: Expr | None = None) -> Var:
        new = Var(self.state.fresh(v.name), v.type)
        if low is not None and extent is not None:
            self.state.facts.bind(new, low, extent)
        return new

    def new_buffer(self, b: Buffer) -> Buffer:
        return b.replace(name=self.state.fresh(b.name))

    def visit_BlockRealize(self, s: BlockRealize) -> Stmt:
        values, predicate = self.exprs(s.values), self.expr(s.predicate)
        b = s.block
        iters = [i.replace(var=self.bind(i.var, i.dom.min, i.dom.extent)) for i in b.iter_vars]
        for x in b.alloc_buffers:
            self.buffers[x] = self.new_buffer(x)
        block = b.replace(name=self.state.fresh_block(b.name), iter_vars=tuple(iters))
        new = self.stmt(block)
        assert isinstance(new, Block)
        return BlockRealize(values, predicate, new)


def renamed_copy(state: State, s: Stmt) -> Stmt:
    """A copy of a statement in which loops, blocks, variables and buffers have new names."""
    return _Fresh(state).stmt(s)
