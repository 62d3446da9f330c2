"""Postprocessors: what is done to a schedule whose decisions are made, or refuses it."""

from __future__ import annotations

from typing import Any, Never

from smelt.ir.errors import CompileError, ScheduleError
from smelt.tir.nodes import For, walk
from smelt.tir.schedule import LoopRV, Schedule

from . import blocks
from .rules import PARALLEL, TENSORIZE, UNROLL, VECTORIZE, Configured


class Postproc(Configured):
    """Changes a schedule in place; False: the schedule is no candidate."""

    def apply(self, sch: Schedule) -> bool:
        """Do it."""
        raise NotImplementedError(f"{type(self).__name__} has no method apply")

    @staticmethod
    def create(kind: str) -> list[Postproc]:
        """The postprocessors of a kind of target: only "llvm" has some."""
        if kind != "llvm":
            raise CompileError(f"Postproc.create: no kind {kind!r}; legal: 'llvm'")
        return [DisallowDynamicLoop(), RewriteParallelVectorizeUnroll(), RewriteReductionBlock(),
                RewriteTensorize()]  # fmt: skip


class PyPostproc(Postproc):
    """The base of postprocessors of one's own: override `apply`."""


class DisallowDynamicLoop(Postproc):
    """Refuses loops of symbolic extent."""

    def apply(self, sch: Schedule) -> bool:
        """Whether every extent is a constant."""
        loops = [s for s in walk(sch.func.body) if isinstance(s, For)]
        return all(blocks.extent(x.extent) is not None for x in loops)


class RewriteParallelVectorizeUnroll(Postproc):
    """Does what ParallelizeVectorizeUnroll has noted on the root block."""

    def apply(self, sch: Schedule) -> bool:
        """True; loops that may not be changed so stay."""
        notes = dict(sch.state.realize("root").block.annotations)
        given = {k: int(notes[k]) for k in (PARALLEL, VECTORIZE, UNROLL) if k in notes}
        for key in given:
            sch.unannotate("root", key)
        for name in blocks.leaves(sch) if given else ():
            if limit := given.get(VECTORIZE, 0):
                _try(sch, lambda s, n=name, k=limit: _vectorize(s, n, k))
            if limit := given.get(UNROLL, 0):
                _try(sch, lambda s, n=name, k=limit: _unroll(s, n, k))
            if limit := given.get(PARALLEL, 0):
                _try(sch, lambda s, n=name, k=limit: _parallel(s, n, k))
        return True


def _try(sch: Schedule, change: Any) -> None:
    """Change a schedule; leave it as it is where the change is refused."""
    changed = blocks.attempt(sch, change)
    if changed is not None:
        sch.adopt(changed)


def _own(sch: Schedule, block: str) -> list[For]:
    """The loops that are around one block only, outermost first."""
    found: list[For] = []
    for x in reversed(blocks.loops(sch, block)):
        if len(sch.state.blocks_in(x)) != 1:
            break
        found.insert(0, x)
    return found


def _vectorize(sch: Schedule, block: str, limit: int) -> None:
    nest, b = _own(sch, block), sch.state.realize(block)
    if not nest or nest[-1].kind != "serial" or blocks.kind(b, nest[-1]) != blocks.SPATIAL:
        return
    inner, size = blocks.loop_name(nest[-1]), blocks.extent(nest[-1].extent)
    if size is None or size < 2:
        return
    if size > limit:
        width = max([d for d in range(1, limit + 1) if size % d == 0])
        if width < 2:
            return
        inner = sch.split(inner, [None, width])[1]
    sch.vectorize(inner)


def _unroll(sch: Schedule, block: str, limit: int) -> None:
    steps = 1
    for x in reversed(_own(sch, block)[1:]):
        size = blocks.extent(x.extent)
        if x.kind == "serial":
            if size is None or steps * size > limit:
                return
            steps *= size
            sch.unroll(blocks.loop_name(x))


def _parallel(sch: Schedule, block: str, limit: int) -> None:
    b, jobs = sch.state.realize(block), 1
    taken: list[LoopRV] = []
    for x in blocks.loops(sch, block):
        size = blocks.extent(x.extent)
        free = x.kind == "serial" and blocks.kind(b, x) == blocks.SPATIAL and size is not None
        if not free or (taken and jobs * (size or 1) > limit):
            break
        taken.append(blocks.loop_name(x))
        jobs *= size or 1
        inside = sch.state.loop(taken[-1]).body
        if not isinstance(inside, For):
            break
    if taken:
        sch.parallel(sch.fuse(*taken) if len(taken) > 1 else taken[0])


class RewriteReductionBlock(Postproc):
    """Takes the start of each reduction out of its loops, where it runs once a result."""

    def apply(self, sch: Schedule) -> bool:
        """True; reductions that may not be taken apart stay."""
        for name in blocks.leaves(sch):
            b = sch.state.realize(name)
            nest = blocks.loops(sch, name)
            if b.block.init is None or any(x.kind not in ("serial", "parallel") for x in nest):
                continue  # the start of a vector or unrolled loop is cheap where it is
            first = next((x for x in nest if blocks.kind(b, x) == blocks.REDUCE), None)
            if first is not None:
                at = blocks.loop_name(first)
                _try(sch, lambda s, n=name, x=at: s.decompose_reduction(n, x))
        return True


class RewriteTensorize(Postproc):
    """Puts intrinsics where blocks ask for them: the annotation meta_schedule.auto_tensorize."""

    def __init__(self, vectorize_init_loop: bool = False) -> None:
        """vectorize_init_loop: make the starts of reductions vector loops."""
        self.vectorize_init_loop = vectorize_init_loop

    def apply(self, sch: Schedule) -> bool:
        """False where an intrinsic does not fit."""
        for name in blocks.post_order(sch):
            b = blocks.realize(sch, name)
            wanted = None if b is None else b.block.annotations.get(TENSORIZE)
            if not wanted:
                continue
            sch.unannotate(name, TENSORIZE)
            try:
                sch.tensorize(name, str(wanted))
            except ScheduleError:
                return False
        return True


class _Refused(Postproc):
    """A postprocessor of another kind of machine."""

    why = "it is for GPUs; the target is a CPU"

    def __init__(self, *args: Any, **keywords: Any) -> None:
        """Keep what it was given."""
        self.given = (args, keywords)

    def apply(self, sch: Schedule) -> Never:
        """Refused."""
        raise CompileError(f"the postprocessor {type(self).__name__} cannot be applied: {self.why}")


class RewriteLayout(_Refused):
    """Lays constants out anew."""

    why = "smelt's own rules lay weights out anew (transform_layout); leave it out"


class RewriteCooperativeFetch(_Refused):
    """Loads with all threads of a block."""


class RewriteUnboundBlock(_Refused):
    """Binds what is not bound to threads."""


class VerifyGPUCode(_Refused):
    """Checks the limits of a GPU."""


class DisallowAsyncStridedMemCopy(_Refused):
    """Checks copies of a DSP."""

    why = "it is for Hexagon; the target is a CPU"


class VerifyVTCMLimit(_Refused):
    """Checks the memory of a DSP."""

    why = "it is for Hexagon; the target is a CPU"
