"""Initial values of reductions whose loops may have no iterations, before these loops.

for i in range(4):                          for i in range(4):
    for k in range(n):                          B[i] = 0.0
        if k == 0: B[i] = 0.0       ->          for k in range(n):
        B[i] = B[i] + A[i, k]                       B[i] = B[i] + A[i, k]
"""

from __future__ import annotations

from smelt.ir.errors import ScheduleError
from smelt.ir.walk import free_vars
from smelt.tir.facts import Facts
from smelt.tir.nodes import Block, BlockRealize, For, PrimFunc, Stmt, sub_statements, walk
from smelt.tir.schedule import Schedule


def start_reductions(func: PrimFunc, every: bool = False) -> PrimFunc:
    """The initial value stands in a reduction's first iteration; where there is none, before it.

    every  whether it stands before those, too, that have a first iteration

    A nest that does not allow this (see decompose_reduction) keeps it in the first iteration.
    """
    if not any(isinstance(s, Block) and s.init is not None for s in walk(func.body)):
        return func
    found: list[tuple[str, str]] = []
    _collect(func.body, (), Facts(func), found, every)
    sch = Schedule(func)
    for block, loop in found:
        try:
            sch.decompose_reduction(block, loop)
        except ScheduleError:
            continue
    return sch.func if found else func


def _collect(
    s: Stmt, around: tuple[For, ...], facts: Facts, found: list[tuple[str, str]], every: bool
) -> None:
    """Blocks whose reduction may be empty, or all, and the outermost loop of each reduction."""
    if isinstance(s, For):
        around = (*around, s)
    elif isinstance(s, BlockRealize):
        if s.block.init is not None:
            pairs = s.bindings
            used = {v for i, value in pairs if i.kind == "reduce" for v in free_vars(value)}
            loops = [x for x in around if x.var in used]
            if (every and loops) or any(not facts.prove(x.extent >= 1) for x in loops):
                found.append((s.block.name, loops[0].var.name))
        around = ()
    for x in sub_statements(s):
        _collect(x, around, facts, found, every)
