"""Who is who in a contraction: its operands, and the axes that move them."""

from __future__ import annotations

from dataclasses import dataclass

from smelt.arith import Analyzer
from smelt.ir.build import value_of
from smelt.ir.expr import Call, Var
from smelt.ir.walk import free_vars
from smelt.tir.nodes import BufferLoad, IterVar
from smelt.tir.schedule import Schedule
from smelt.tir.script_ops import expr_nodes

from .analysis import BlockInfo, analyzer_for, guess, quotient_of, step_of


@dataclass(frozen=True)
class Roles:
    """Who is who in a contraction.

    group  what the vector axis is divided by in A, where it is grouped: 0 elsewhere
    """

    info: BlockInfo
    a: BufferLoad
    b: BufferLoad
    batch: list[IterVar]
    rows: list[IterVar]
    columns: list[IterVar]
    vector: IterVar
    analyzer: Analyzer
    group: int = 0

    @property
    def reduce(self) -> list[IterVar]:
        """The reduced axes."""
        return self.info.reduce

    def step(self, access: BufferLoad, i: IterVar) -> int | None:
        """Elements from one to the next."""
        return step_of(access, i.var, self.analyzer)


def roles_of(sch: Schedule, info: BlockInfo) -> Roles | str:
    """Sort the operands and iteration variables; a reason where the block does not fit."""
    product = info.product()
    if product is None or info.store is None or not info.spatial:
        return "no sum of products of two operands"
    analyzer = analyzer_for(sch.func, info.block)
    left, right = product
    in_left, in_right = vars_of(left), vars_of(right)
    vector = _vector_var(info, analyzer)
    group = 0
    if vector.var in in_left and vector.var in in_right:
        found = [quotient_of(x, vector.var) for x in product]
        if found.count(None) != 1:
            return "both operands move along the result's contiguous axis"
        group = next(c for c in found if c is not None)
        a, b = (left, right) if found[0] is not None else (right, left)
        if group == 1 or guess(vector.dom.extent) % group:
            return "a group has one column"
        if list(info.store.indices) != [i.var for i in info.spatial]:
            return "groups whose results do not stand at the block's variables"
    else:
        a, b = (left, right) if vector.var in in_right else (right, left)
    in_a, in_b = (in_left, in_right) if b is right else (in_right, in_left)
    others = [i for i in info.spatial if i is not vector]
    batch = [i for i in others if (i.var in in_a) == (i.var in in_b)]
    rows = [i for i in others if i.var in in_a and i.var not in in_b]
    columns = [i for i in others if i.var in in_b and i.var not in in_a]
    return Roles(info, a, b, batch, rows, columns, vector, analyzer, group)


def vars_of(load: BufferLoad) -> set[Var]:
    """The variables that move an access."""
    return {v for i in load.indices for v in free_vars(i)}


def _vector_var(info: BlockInfo, analyzer: Analyzer) -> IterVar:
    """The spatial variable along which the result is contiguous."""
    assert info.store is not None
    for i in reversed(info.spatial):
        if step_of(info.store, i.var, analyzer) == 1 and value_of(i.dom.extent) != 1:
            return i
    return info.spatial[-1]


def guarded(info: BlockInfo, variables: set[Var]) -> bool:
    """Whether a condition in the block's body mentions some variables."""
    assert info.store is not None
    return any(
        isinstance(e, Call) and e.op == "if_then_else" and free_vars(e.args[0]) & variables
        for e in expr_nodes(info.store.value)
    )
