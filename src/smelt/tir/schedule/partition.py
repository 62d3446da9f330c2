"""Primitives that cut a loop into pieces one after another, or join such pieces."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir.build import equal, is_const
from smelt.ir.expr import INDEX, Expr, ExprLike, const
from smelt.tir.nodes import For, Seq, Stmt, seq

from .check import check_merged
from .handles import LoopRV
from .loops import extents_given, rebind, require_plain
from .primitive import Base, primitive
from .renamed import renamed_copy
from .show import show_expr
from .state import State


class PartitionPrimitives(Base):
    """loop_partition and merge."""

    @primitive
    def loop_partition(
        self, loop: str, factors: Sequence[ExprLike | None], preserve_unit_iters: bool = True
    ) -> list[LoopRV]:
        """Cut a loop into loops one after another, of the given extents; None is the rest.

        Without a None the rest is one more loop behind the others. The first loop keeps the names
        of what is inside; the others get new ones.

        preserve_unit_iters  False: blocks do not mention the loops of extent 1

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
        Needs   extents that fit into the loop's, at most one of them None; a serial loop without
                annotations.
        """
        s = self.state
        target = s.loop(loop)
        require_plain(s, target)
        extents = _pieces(s, target, factors)
        parts: list[Stmt] = []
        names = []
        start: Expr = target.min
        for k, e in enumerate(extents):
            v = s.new_var(f"{target.var.name}_{k}", 0, e)
            body = target.body if k == 0 else renamed_copy(s, target.body)
            names.append(LoopRV(v.name))
            unit = is_const(e, 1) and not preserve_unit_iters
            shifted = s.facts.simplify(start if unit else start + v)
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
        for x in nests:
            require_plain(s, x)
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
            for a, b in ((x.min, nests[0].min), (x.extent, nests[0].extent)):
                s.demand(
                    equal(a, b),
                    f"{x.var.name} and {nests[0].var.name} do not run alike",
                    f"{x.var.name} and {nests[0].var.name} run alike",
                    mark={nests[0]: "loop", x: "loop"},
                    legal="loops of equal bounds",
                )
        first = nests[0]
        v = s.new_var(f"{first.var.name}_m", first.min, first.extent)
        bodies = [rebind(s, x.body, {x.var: v}) for x in nests]
        s.replace({first: first.replace(var=v, body=seq(*bodies)), **dict.fromkeys(nests[1:])})
        check_merged(s, s.loop(v.name))
        return LoopRV(v.name)


def _pieces(s: State, target: For, factors: Sequence[ExprLike | None]) -> list[Expr]:
    """The extents of the pieces, the rest among them."""
    given = extents_given(s, factors, "piece", "[32, None]")
    total = sum([g for g in given if g is not None], const(0, INDEX))
    rest = s.facts.simplify(target.extent - total)
    if None not in given and not is_const(rest, 0):
        given.append(None)
    pieces = [rest if g is None else g for g in given]
    if len(pieces) < 2:
        s.fail(
            f"{target.var.name} would stay one piece",
            mark={target: "its extent"},
            legal="e.g. [32, None]",
        )
    for e in pieces:
        s.demand(
            e >= 1,
            f"a piece of {target.var.name} would have {show_expr(e)} iterations",
            f"every piece of {target.var.name} has at least one iteration",
            mark={target: "its extent"},
            legal="pieces that fit into the loop",
        )
    return pieces
