"""What the bindings of a block's variables say: which iterations are different instances."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.arith.affine.sums import determined, near
from smelt.arith.depend import Dependence
from smelt.arith.poly import Poly
from smelt.ir.build import is_const
from smelt.ir.expr import INDEX, Expr, Var
from smelt.ir.node import Node
from smelt.ir.walk import free_vars
from smelt.tir.nodes import BlockRealize, For

from .region import domain_loops
from .state import State


def is_injective(state: State, b: BlockRealize, loops: Sequence[For]) -> bool:
    """Whether different iterations certainly give the block's variables different values."""
    return injective(state, b.values, loops, b.predicate)


def injective(
    state: State, values: Sequence[Expr], loops: Sequence[For], guard: Expr | None = None
) -> bool:
    """Whether different values of `loops` certainly give other `values`, where a guard holds."""
    facts, moving = state.facts, {x.var for x in loops}

    def narrow(p: Poly, distance: int) -> bool:
        if near([an.context], p, distance):
            return True
        ends = facts.relax(an.context.build(p, INDEX), loops)
        return ends is not None and facts.prove(ends[1] - ends[0] < distance)

    with facts.analyzer.assume(True if guard is None else guard) as an:
        found = determined(an.context, values, Dependence(moving), narrow)
        return all(v in found for v in moving if an.context.poly(v).terms)


def rewriting_loops(state: State, w: BlockRealize) -> list[For]:
    """The loops whose iterations may put other values into the elements that a block writes."""
    bound: set[Var] = set()
    spatial = [i for i in w.block.iter_vars if i.kind == "spatial"]
    domains = domain_loops(spatial)
    for region in w.block.writes:
        at = [d.min for d in region.region]
        plain = {i.var for i in spatial} <= set(at)
        if not plain and not injective(state, at, domains):
            bound.update(i.var for i in spatial)
    values = w.bindings
    moving = [v for i, v in values if i.kind == "opaque" or i.var in bound]
    used = set().union(*[free_vars(v) for v in moving])
    return [x for x in state.loops_above(w) if x.var in used and not is_const(x.extent, 1)]


def require_once(state: State, b: BlockRealize, loops: Sequence[For], why: str) -> None:
    """Refuse a block that may run twice for the same values of its variables while loops run.

    why  what would go wrong
    """
    if not is_injective(state, b, loops):
        unused = [
            x
            for x in loops
            if not is_const(x.extent, 1) and not any(x.var in free_vars(v) for v in b.values)
        ]
        mark: dict[Node, str] = {b: "a reduction"}
        legal = "loops of which each is seen in a variable of the block"
        if unused:
            names = ", ".join(x.var.name for x in unused)
            state.fail(
                f"{b.block.name} runs again in each iteration of {names}: {why}",
                mark={**mark, unused[0]: "no variable of the block"},
                legal=legal,
            )
        names = ", ".join(x.var.name for x in loops)
        state.cannot_prove(
            f"{b.block.name} runs once for each of its values in the loops {names}: "
            f"otherwise {why}",
            mark=mark,
            legal=legal,
        )
