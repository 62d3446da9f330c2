"""Copies of statements with names of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from smelt.ir.expr import Expr, Var
from smelt.ir.walk import free_vars, substitute
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


def init_nest(
    s: State,
    b: BlockRealize,
    inner: Sequence[For],
    pairs: Sequence[tuple[IterVar, Expr]],
    conditions: Callable[[Mapping[Var, Expr]], Sequence[Expr]],
) -> tuple[str, Stmt]:
    """What sets a reduction's initial values, as a block of its own, and its name.

    inner       the loops of which those that its spatial variables need are copied
    pairs       the block's variables and their values
    conditions  under which it runs, given where the other loops, the reduce variables', begin
    """
    assert b.block.init is not None
    spatial = [(i, v) for i, v in pairs if i.kind == "spatial"]
    used = {v for _, value in spatial for v in free_vars(value)}
    first = {x.var: x.min for x in inner if x.var not in used}
    name = s.fresh_block(f"{b.block.name}_init")
    loops = [x for x in inner if x.var in used]
    kept = [substitute(c, first) for c in conditions(first)]
    return name, beside(s, name, "init", spatial, loops, b.block.init, kept)


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
