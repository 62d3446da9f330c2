"""Copies of statements with names of their own."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir.expr import Expr, Var
from smelt.ir.walk import substitute
from smelt.tir.nodes import Block, BlockRealize, Buffer, For, IterVar, Stmt
from smelt.tir.rewrite import RenameBound, substitute_stmt

from .region import refreshed
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


def beside(
    s: State,
    name: str,
    suffix: str,
    pairs: Sequence[tuple[IterVar, Expr]],
    loops: Sequence[For],
    body: Stmt,
    conditions: Sequence[Expr],
) -> Stmt:
    """A statement over some variables of a block as a block of its own, in copies of loops.

    pairs       the variables and their values
    conditions  under which it runs, on the loops that are copied and those outside of them
    """
    to, own = s.copies(loops, suffix), s.copies([i for i, _ in pairs], suffix)
    iters = tuple([i.replace(var=own[i.var]) for i, _ in pairs])
    block = refreshed(s, Block(name, iters, (), (), substitute_stmt(body, own)))
    guard = s.facts.conjunction(*[substitute(c, to) for c in conditions])
    stmt: Stmt = BlockRealize(tuple([substitute(v, to) for _, v in pairs]), guard, block)
    for x in reversed(loops):
        stmt = x.replace(var=to[x.var], extent=substitute(x.extent, to), body=stmt)
    return stmt
