"""Primitives that cut a loop into pieces one after another, or join such pieces."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir.build import is_const
from smelt.ir.expr import INDEX, Expr, ExprLike, const, convert
from smelt.tir.nodes import For, Seq, Stmt, seq

from .check import check_merged
from .fresh import freshened
from .handles import LoopRV
from .loops import rebind
from .primitive import Base, primitive
from .state import State

__all__ = ["PartitionPrimitives"]


class PartitionPrimitives(Base):
    """loop_partition and merge."""

    @primitive
    def loop_partition(self, loop: str, factors: Sequence[ExprLike | None]) -> list[LoopRV]:
        """Cut a loop into loops one after another, of the given extents; None is the rest.

        The first loop keeps the names of what is inside; the others get new ones.

        Before
            for i in range(37):
                with T.block("B"):
                    v = T.axis.spatial(37, i)
                    B[v] = A[v] + 1.0
        Step    loop_partition("i", [32, None])
        After
            for i_0 in range(32):
                with T.block("B"):
                    v = T.axis.spatial(37, i_0)
                    B[v] = A[v] + 1.0
            for i_1 in range(5):
                with T.block("B_1"):
                    v_1 = T.axis.spatial(37, i_1 + 32)
                    B[v_1] = A[v_1] + 1.0
        Needs   extents that add up to the loop's, at most one of them None; a serial loop.
        """
        s = self.state
        target = s.loop(loop)
        if target.kind != "serial":
            s.fail(
                f"{target.var.name} is {target.kind} already",
                mark={target: target.kind},
                legal="a serial loop",
            )
        extents = _pieces(s, target, factors)
        parts: list[Stmt] = []
        names = []
        start: Expr = target.min
        for k, e in enumerate(extents):
            v = s.new_var(f"{target.var.name}_{k}", 0, e)
            body = target.body if k == 0 else freshened(s, target.body)
            names.append(LoopRV(v.name))
            shifted = s.facts.simplify(start + v)
            parts.append(For(v, const(0, INDEX), e, rebind(s, body, {target.var: shifted})))
            start = start + e
        s.replace({target: seq(*parts)})
        return names

    @primitive
    def merge(self, *loops: str) -> LoopRV:
        """Run several nests that follow one another as one.

        Before
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
            for i_1 in range(4):
                with T.block("C"):
                    v_1 = T.axis.spatial(4, i_1)
                    C[v_1] = B[v_1] * 2.0
        Step    merge("i", "i_1")
        After
            for i_m in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i_m)
                    B[v] = A[v] + 1.0
                with T.block("C"):
                    v_1 = T.axis.spatial(4, i_m)
                    C[v_1] = B[v_1] * 2.0
        Needs   neighbouring serial loops of equal bounds, of which each iteration uses only what
                the same iteration of the others made.
        """
        s = self.state
        nests = [s.loop(n) for n in loops]
        if len(nests) < 2:
            s.fail("fewer than two loops are given", legal="neighbouring loops")
        parent = s.parent(nests[0])
        siblings = list(parent.stmts) if isinstance(parent, Seq) else []
        places = [siblings.index(x) if x in siblings else -1 for x in nests]
        if places[0] < 0 or places != list(range(places[0], places[0] + len(nests))):
            s.fail(
                "the loops do not follow one another directly",
                mark=dict.fromkeys(nests, "loop"),
                legal="neighbours, in their order",
            )
        for x in nests:
            if x.kind != "serial" or not (
                s.facts.equal(x.min, nests[0].min) and s.facts.equal(x.extent, nests[0].extent)
            ):
                s.fail(
                    f"{x.var.name} and {nests[0].var.name} do not run alike",
                    mark={nests[0]: "loop", x: "loop"},
                    legal="serial loops of equal bounds",
                )
        first = nests[0]
        v = s.new_var(f"{first.var.name}_m", first.min, first.extent)
        bodies = [rebind(s, x.body, {x.var: v}) for x in nests]
        s.replace({first: first.replace(var=v, body=seq(*bodies)), **dict.fromkeys(nests[1:])})
        check_merged(s, s.loop(v.name))
        return LoopRV(v.name)


def _pieces(s: State, target: For, factors: Sequence[ExprLike | None]) -> list[Expr]:
    given = [None if f is None else convert(f, INDEX) for f in factors]
    if len(given) < 2 or given.count(None) > 1:
        s.fail("at least two pieces are needed, at most one of them None", legal="e.g. [32, None]")
    total: Expr = const(0, INDEX)
    for g in given:
        if g is not None:
            total = total + g
    rest = s.facts.simplify(target.extent - total)
    for g in [x for x in given if x is not None] + ([rest] if None in given else []):
        if is_const(g, 0) or not s.facts.prove(g >= 0):
            s.cannot_prove(
                f"every piece of {target.var.name} has at least one iteration",
                mark={target: "its extent"},
                legal="pieces that fit into the loop",
            )
    if None not in given and not s.facts.equal(total, target.extent):
        s.fail(
            f"the pieces do not add up to the extent of {target.var.name}",
            mark={target: "its extent"},
            legal="pieces that add up, or one of them None",
        )
    return [rest if g is None else g for g in given]
