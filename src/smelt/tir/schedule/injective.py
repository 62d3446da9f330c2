"""What the bindings of a block's variables say: which iterations are different instances."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir.build import is_const
from smelt.ir.expr import Add, Expr, FloorDiv, FloorMod, IntImm, Mul, Sub, Var, convert
from smelt.ir.node import Node
from smelt.ir.walk import free_vars
from smelt.tir.nodes import BlockRealize, For, no_op

from .region import merge_digits
from .state import State


def is_injective(state: State, b: BlockRealize, loops: Sequence[For]) -> bool:
    """Whether different iterations certainly give the block's variables different values."""
    return injective(state, b.values, loops, b.predicate)


def injective(
    state: State, values: Sequence[Expr], loops: Sequence[For], guard: Expr | None = None
) -> bool:
    """Whether different values of `loops` certainly give different `values`, where a guard holds.

    Mixed-radix reasoning: in each binding, written as a sum of terms, every coefficient must be
    at least as large as the span of the smaller terms; a loop must be seen whole in one binding.
    """
    wanted = {x.var for x in loops if getattr(x.extent, "value", None) != 1}
    queue: list[Expr] = list(values)
    known: list[Expr] = []
    while queue:
        for e in queue:
            known += _determined(state, e, loops, guard)
        merged = merge_digits(known, state.facts)
        queue = [e for e in merged if not isinstance(e, Var) and e not in known]
        known = [e for e in merged if e not in queue]
    return wanted <= set(known)


def _determined(state: State, value: Expr, loops: Sequence[For], guard: Expr | None) -> list[Expr]:
    """Variables, quotients and remainders whose value follows from the value of one expression."""
    if not free_vars(value) & {x.var for x in loops}:
        return [value]
    terms: dict[Expr, int] = {}
    if not _terms(value, 1, {x.var for x in loops}, terms):
        return []
    smaller: Expr = convert(0)
    span: Expr = convert(1)
    for atom, coefficient in sorted(terms.items(), key=lambda t: abs(t[1])):
        ends = _ends(state, atom, loops)
        if ends is None or not _fits(state, span, smaller, abs(coefficient), guard):
            return []
        if guard is not None:
            smaller = smaller + coefficient * (atom - ends[coefficient < 0])
        span = span + abs(coefficient) * state.facts.simplify(ends[1] - ends[0])
    return list(terms)


def _ends(state: State, atom: Expr, loops: Sequence[For]) -> tuple[Expr, Expr] | None:
    """The smallest and largest value of a loop variable, or of a quotient or remainder."""
    if isinstance(atom, Var):
        loop = next((x for x in loops if x.var is atom), None)
        if loop is not None and not free_vars(loop.min) and not free_vars(loop.extent):
            return loop.min, state.facts.simplify(loop.min + loop.extent - 1)
    return state.facts.relax(atom, loops)


def _fits(state: State, span: Expr, smaller: Expr, coefficient: int, guard: Expr | None) -> bool:
    """Whether the sum of the smaller terms, from 0 on, stays below a coefficient."""
    if state.facts.prove(convert(coefficient) >= span):
        return True
    if guard is None or is_const(guard):
        return False
    with state.facts.analyzer.assume(guard):
        return state.facts.prove(smaller < coefficient)


def _terms(e: Expr, factor: int, loops: set[Var], out: dict[Expr, int]) -> bool:
    """Collect `e` as a sum of factor * atom; False where it is none."""
    if not free_vars(e) & loops:
        return True
    if isinstance(e, Add):
        return _terms(e.a, factor, loops, out) and _terms(e.b, factor, loops, out)
    if isinstance(e, Sub):
        return _terms(e.a, factor, loops, out) and _terms(e.b, -factor, loops, out)
    if isinstance(e, Mul) and isinstance(e.b, IntImm):
        return _terms(e.a, factor * e.b.value, loops, out)
    if isinstance(e, Var | FloorDiv | FloorMod) and e not in out:
        out[e] = factor
        return True
    return False


def rewriting_loops(state: State, w: BlockRealize) -> list[For]:
    """The loops whose iterations may put other values into the elements that a block writes."""
    bound: set[Var] = set()
    spatial = [i for i in w.block.iter_vars if i.kind == "spatial"]
    domains = [For(i.var, i.dom.min, i.dom.extent, no_op()) for i in spatial]
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
