"""Primitives that say how loops run."""

from __future__ import annotations

from smelt.ir.build import equal
from smelt.ir.expr import IntImm
from smelt.tir.nodes import For, walk
from smelt.tir.script_ops import extern_call

from .check import check_concurrent
from .loops import THREAD_AXES, require_serial
from .primitive import Base, primitive
from .state import State


class LoopKindPrimitives(Base):
    """parallel, vectorize, unroll, bind."""

    @primitive
    def parallel(self, loop: str) -> None:
        """Run the iterations of a loop on several threads.

        Before
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
        Step    parallel("i")
        After
            for i in T.parallel(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
        Needs   iterations that write separate elements and use nothing of each other's.
        """
        self._set_kind(loop, "parallel")

    @primitive
    def vectorize(self, loop: str) -> None:
        """Run the iterations of a loop as the lanes of vectors; serial loops may stand inside it.

        Before
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v] + 1.0
        Step    vectorize("i")
        After
            for i in T.vectorized(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v] + 1.0
        Needs   what `parallel` needs, and a constant extent.
        """
        s = self.state
        target = s.loop(loop)
        if not isinstance(target.extent, IntImm):
            s.fail(
                f"the extent of {target.var.name} is not a constant: a vector has a "
                f"fixed number of lanes",
                mark={target: "symbolic extent"},
                legal="split it by the vector's length first",
            )
        if calls := [x for x in walk(target.body) if extern_call(x) is not None]:
            s.fail(
                "external functions have no vector form",
                mark={target: "vectorized", calls[0]: "here"},
                legal="a loop without T.call_extern",
            )
        self._set_kind(loop, "vectorized")

    @primitive
    def unroll(self, loop: str) -> None:
        """Write out the iterations of a loop one after another.

        Before
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
        Step    unroll("i")
        After
            for i in T.unroll(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
        Needs   a serial loop.
        """
        s = self.state
        target = s.loop(loop)
        require_serial(s, target)
        s.replace({target: target.replace(kind="unrolled")})

    @primitive
    def bind(self, loop: str, thread_axis: str) -> None:
        """Bind a loop to an axis of a device's threads.

        Before
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
        Step    bind("i", "threadIdx.x")
        After
            for i in T.thread_binding(4, thread="threadIdx.x"):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
        Needs   what `parallel` needs; threadIdx axes may bind reduce variables, whose threads then
                reduce together.
        """
        s = self.state
        if thread_axis not in THREAD_AXES:
            s.fail(
                f"there is no thread axis {thread_axis!r}",
                mark={s.loop(loop): "loop"},
                legal=", ".join(THREAD_AXES),
            )
        if not thread_axis.startswith("vthread"):
            _check_threads(s, s.loop(loop), thread_axis)
        self._set_kind(loop, "thread_binding", thread_axis)

    def _set_kind(self, loop: str, kind: str, thread: str | None = None) -> None:
        s = self.state
        target = s.loop(loop)
        require_serial(s, target)
        check_concurrent(s, target, f"bound to {thread}" if thread else kind, thread)
        s.replace({target: target.replace(kind=kind, thread=thread)})


def _check_threads(s: State, target: For, axis: str) -> None:
    """An axis is bound once on the way to a block, and everywhere in a kernel to one extent."""
    around = [up for up in s.above(target) if isinstance(up, For) and up.thread]
    for x in walk([target, *around][-1]):
        if not isinstance(x, For) or x.thread != axis:
            continue
        outside = x in around
        if outside or s.is_under(x, target):
            where, place = ("around", "inside") if outside else ("inside", "around")
            s.fail(
                f"{axis} is already bound by {x.var.name} {where} {target.var.name}",
                mark={x: axis, target: f"{place} it"},
                legal="an axis that no loop around or inside is bound to",
            )
        s.demand(
            equal(x.extent, target.extent),
            f"{axis} has another extent in {x.var.name}, which runs in the same kernel",
            f"{axis} has the same extent in {x.var.name}, which runs in the same kernel",
            mark={x: axis, target: "loop"},
            legal="one extent of an axis in a kernel",
        )
