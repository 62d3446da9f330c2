"""Primitives about reductions: decompose_reduction and rfactor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from smelt.ir.build import equal, is_const
from smelt.ir.expr import Expr, Var
from smelt.ir.walk import free_vars, substitute
from smelt.tir.facts import conjuncts
from smelt.tir.nodes import BlockRealize, For, seq

from .handles import BlockRV
from .injective import require_once
from .primitive import Base, primitive
from .renamed import init_nest
from .require import Kind, binds, only_block, require_around, require_kind
from .rfactor import Factoring
from .state import State


class ReductionPrimitives(Base):
    """decompose_reduction and rfactor."""

    @primitive
    def decompose_reduction(self, block: str, loop: str) -> BlockRV:
        """Set the initial values of a reduction in a block of their own, before a loop.

        The block keeps its name for the update; the new block is called <name>_init.

        Before
            for i in range(4):
                for k in range(8):
                    with T.block("B"):
                        v, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            B[v] = 0.0
                        B[v] = B[v] + A[v, vk]
        Step    decompose_reduction("B", "k")
        After
            for i in range(4):
                with T.block("B_init"):
                    v_init = T.axis.spatial(4, i)
                    B[v_init] = 0.0
                for k in range(8):
                    with T.block("B"):
                        v, vk = T.axis.remap("SR", [i, k])
                        B[v] = B[v] + A[v, vk]
        Needs   a reduction block, and a loop around it outside which no loop binds reduce
                variables, and inside which no iteration repeats another.
        """
        (s, b), target = self._at(block), self.state.loop(loop)
        if b.block.init is None:
            s.fail(
                f"{b.block.name} has no initial value to take out",
                mark={b: "no init"},
                legal="a reduction block",
            )
        require_kind(s, b, Kind.REDUCTION)
        require_around(s, target, b)
        _require_reduction_inside(s, b, target)
        inner = [target, *s.loops_between(b, target)]
        for x in inner:
            concurrent = x.kind in ("vectorized", "parallel", "thread_binding")
            if concurrent and not is_const(x.extent, 1) and not binds(b, x.var, "spatial"):
                s.fail(
                    f"{x.var.name} is {x.kind}",
                    mark={x: x.kind},
                    legal="loops that bind spatial variables, or run one after the other",
                )
        require_once(s, b, inner, "its initial value would be set too seldom")
        _require_start_inside(s, b, inner)
        name, nest = init_nest(s, b, inner, b.bindings, partial(_start_conditions, s, b))
        update = b.block.replace(init=None, reads=(*b.block.writes, *b.block.reads))
        s.replace({b.block: update, target: lambda old: seq(nest, old)})
        return BlockRV(name)

    @primitive
    def rfactor(self, loop: str, factor_axis: int) -> BlockRV:
        """Reduce each iteration of a loop apart, into a new dimension, then the partial results.

        factor_axis  the place of the new dimension; negative from the end

        Before
            for i, k_0, k_1 in T.grid(4, 2, 8):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    vk = T.axis.reduce(16, k_0 * 8 + k_1)
                    with T.init():
                        B[v] = 0.0
                    B[v] = B[v] + A[v, vk]
        Step    rfactor("k_0", 0)
        After
            B_rf = T.alloc_buffer((2, 4))
            for i, k_0, k_1 in T.grid(4, 2, 8):
                with T.block("B_rf"):
                    vk_0, v_1, vk_1 = T.axis.remap("SSR", [k_0, i, k_1])
                    with T.init():
                        B_rf[vk_0, v_1] = 0.0
                    B_rf[vk_0, v_1] = B_rf[vk_0, v_1] + A[v_1, vk_0 * 8 + vk_1]
            for ax0, ax1 in T.grid(4, 2):
                with T.block("B"):
                    v, vk_0_1 = T.axis.remap("SR", [ax0, ax1])
                    with T.init():
                        B[v] = 0.0
                    B[v] = B[v] + B_rf[vk_0_1, v]
        Needs   a reduction block alone in its loops that joins two values by +, *, min, max, and,
                or; a loop that binds reduce variables only.
        """
        s = self.state
        target = s.loop(loop)
        b = only_block(s, target, target.var.name)
        return BlockRV(Factoring(s, b, target, factor_axis).carry_out())


def _require_reduction_inside(s: State, b: BlockRealize, target: For) -> None:
    loops = s.loops_above(b)
    outside = loops[: loops.index(target)]
    for x in outside:
        if binds(b, x.var, "reduce"):
            s.fail(
                f"{x.var.name}, outside {target.var.name}, binds a reduce variable of "
                f"{b.block.name}: the initial value would be set again in each of its iterations",
                mark={x: "binds a reduce variable", target: "loop"},
                legal=f"{x.var.name} or a loop outside it",
            )


def _require_start_inside(s: State, b: BlockRealize, inner: Sequence[For]) -> None:
    """The reduction begins where the loops do, not in some instance of a block around it only."""
    first: dict[Var, Expr] = {x.var: x.min for x in inner}
    for i, value in b.bindings:
        if i.kind == "reduce":
            s.demand(
                equal(substitute(value, first), i.dom.min),
                f"{i.var.name} of {b.block.name} does not begin at the start of the loops",
                f"{i.var.name} of {b.block.name} begins at the start of the loops",
                mark={b: f"reduces over {i.var.name}", inner[0]: "loop"},
                legal="a reduction that is not continued from another iteration or block",
            )


def _start_conditions(s: State, b: BlockRealize, first: Mapping[Var, Expr]) -> list[Expr]:
    """The predicate without what is about loops of reduce variables alone.

    That says how long the reduction is, perhaps not at all.
    """
    others = {x.var for x in s.loops_above(b)} - set(first)
    every = [(c, free_vars(c)) for c in conjuncts(b.predicate)]
    return [c for c, used in every if used & others or not used & set(first)]
