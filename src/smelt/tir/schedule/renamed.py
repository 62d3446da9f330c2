"""Copies of statements with names of their own."""

from __future__ import annotations

from smelt.ir.expr import Expr, Var
from smelt.tir.nodes import Buffer, Stmt
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

    def new_block(self, name: str) -> str:
        return self.state.fresh_block(name)


def renamed_copy(state: State, s: Stmt) -> Stmt:
    """A copy of a statement in which loops, blocks, variables and buffers have new names."""
    return _Fresh(state).stmt(s)
