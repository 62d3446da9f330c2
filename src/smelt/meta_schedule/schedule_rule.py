"""Rules that make designs: each turns a schedule, at one block, into one or more.

The rules for CPUs are built of the primitives of `smelt.tir.Schedule`; those for GPUs can be named,
and refuse to be applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Never

from smelt.ir.errors import CompileError
from smelt.ir.expr import Call
from smelt.runtime.packed import get_global_func
from smelt.tir.nodes import Block, walk
from smelt.tir.schedule import BlockRV, Schedule
from smelt.tir.script_ops import expressions

from . import blocks
from .multi_level_tiling import MultiLevelTiling, ReuseType
from .rules import PARALLEL, RULES_OF, TILED, UNROLL, VECTORIZE, PyScheduleRule, ScheduleRule

__all__ = ["AddRFactor", "ApplyCustomRule", "AutoBind", "AutoInline", "CrossThreadReduction",
           "InlineConstantScalars", "MultiLevelTiling", "MultiLevelTilingTensorCore",
           "MultiLevelTilingWideVector", "MultiLevelTilingWithIntrin",
           "ParallelizeVectorizeUnroll", "PyScheduleRule", "RandomComputeLocation", "ReuseType",
           "ScheduleRule"]  # fmt: skip


class AutoInline(ScheduleRule):
    """Computes an elementwise block where its result is used, instead of storing it."""

    def __init__(
        self,
        into_producer: bool = True,
        into_consumer: bool = True,
        inline_const_tensor: bool = True,
        disallow_if_then_else: bool = False,
        require_injective: bool = False,
        require_ordered: bool = False,
        disallow_op: Sequence[str] | None = None,
    ) -> None:
        """into_producer: an output block goes into what makes its operand; disallow_op: names of
        functions whose callers stay. require_ordered is accepted."""
        self.into_producer, self.into_consumer = into_producer, into_consumer
        self.inline_const_tensor, self.disallow_if_then_else = (
            inline_const_tensor, disallow_if_then_else)  # fmt: skip
        self.require_injective = require_injective
        self.disallow_op = frozenset([n.removeprefix("tir.") for n in disallow_op or ()])

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedule with the block inlined, where that may be."""
        b = blocks.realize(sch, block)
        if b is None or not b.block.iter_vars or not self._fits(b.block):
            return [sch]
        found = None
        if self.into_consumer and not blocks.is_output(sch, block):
            found = blocks.attempt(sch, lambda s: s.compute_inline(block))
        if found is None and self.into_producer:
            found = blocks.attempt(sch, lambda s: s.reverse_compute_inline(block))
        return [found or sch]

    def _fits(self, b: Block) -> bool:
        if any(i.kind != "spatial" for i in b.iter_vars):
            return False
        if not b.reads and not self.inline_const_tensor:
            return False
        names = set(called(b))
        if self.disallow_if_then_else and "if_then_else" in names:
            return False
        return not names & self.disallow_op


def called(b: Block) -> list[str]:
    """The names of the functions that a block calls."""
    return [e.op.removeprefix("tir.") for e in expressions(*walk(b)) if isinstance(e, Call)]


class InlineConstantScalars(ScheduleRule):
    """Inlines a block that stores one number which depends on nothing."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedule with the number where it is used."""
        b = blocks.realize(sch, block)
        single = b is not None and b.block.iter_vars and not b.block.reads and all(
            blocks.extent(i.dom.extent) == 1 for i in b.block.iter_vars)  # fmt: skip
        if not single or blocks.is_output(sch, block):
            return [sch]
        return [blocks.attempt(sch, lambda s: s.compute_inline(block)) or sch]


class RandomComputeLocation(ScheduleRule):
    """Computes a block at a loop, drawn at random, of the first block that uses its result."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedule with the block there; the program as it is where no loop will do."""
        b = blocks.realize(sch, block)
        if b is None or not b.block.iter_vars or blocks.is_output(sch, block):
            return [sch]
        if TILED in b.block.annotations:
            return [sch]  # its place among the tiles is chosen

        def place(s: Schedule) -> None:
            s.compute_at(block, s.sample_compute_location(block))

        return [blocks.attempt(sch, place) or sch]


class AddRFactor(ScheduleRule):
    """Splits a reduction with few results in two, so that its parts can be done in parallel."""

    def __init__(
        self, max_jobs_per_core: int = 16, max_innermost_factor: int | None = None
    ) -> None:
        """max_jobs_per_core: reductions with more results a processor stay; -1: none does."""
        self.max_jobs_per_core = max_jobs_per_core
        self.max_innermost_factor = max_innermost_factor

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedule as it is, with the outer part factored out, and with the inner one."""
        b = blocks.realize(sch, block)
        if b is None or blocks.is_spatial(b) or b.block.init is None:
            return [sch]
        limit = self.max_jobs_per_core * self.cores
        size = blocks.spatial_size(b)
        if self.max_jobs_per_core >= 0 and not 0 < size < limit:
            return [sch]
        made = [blocks.attempt(sch, partial(self._factor, block=block, at=n)) for n in (0, 1)]
        return [sch, *[m for m in made if m is not None]]

    def _factor(self, sch: Schedule, block: BlockRV, at: int) -> None:
        b = sch.state.realize(block)
        names = [blocks.loop_name(x) for x in blocks.loops(sch, block)
                 if blocks.kind(b, x) == blocks.REDUCE]  # fmt: skip
        whole = sch.fuse(*names) if len(names) > 1 else names[0]
        factors = sch.sample_perfect_tile(whole, 2, self.max_innermost_factor or 64)
        sch.rfactor(sch.split(whole, factors)[at], 0)


class ParallelizeVectorizeUnroll(ScheduleRule):
    """Notes on the root block how far to parallelize, vectorize and unroll: the postprocessor
    RewriteParallelVectorizeUnroll does it."""

    def __init__(
        self,
        max_jobs_per_core: int = 16,
        max_vectorize_extent: int = 16,
        unroll_max_steps: Sequence[int] | None = None,
        unroll_explicit: bool = True,
    ) -> None:
        """unroll_max_steps: steps of which one is drawn. -1: no parallel or vector loops."""
        self.max_jobs_per_core, self.max_vectorize_extent = max_jobs_per_core, max_vectorize_extent
        self.unroll_max_steps = list(unroll_max_steps or ())
        self.unroll_explicit = unroll_explicit

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedule with the notes, at the root block; other blocks stay."""
        if block != "root":
            return [sch]
        made = sch.copy()
        if self.max_jobs_per_core != -1:
            made.annotate(block, PARALLEL, self.max_jobs_per_core * self.cores)
        if self.max_vectorize_extent != -1:
            made.annotate(block, VECTORIZE, self.max_vectorize_extent)
        if steps := self.unroll_max_steps:
            step = made.sample_categorical(steps, [1.0 / len(steps)] * len(steps))
            made.annotate(block, UNROLL, step)
        return [made]


class ApplyCustomRule(ScheduleRule):
    """Calls the function that a block's annotation `schedule_rule` names, (sch, block) -> one
    schedule or several."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """What the function makes of it. Raises CompileError for a name that is not registered."""
        b = blocks.realize(sch, block)
        name = None if b is None else b.block.annotations.get("schedule_rule")
        if not name or name == "None":
            return [sch]
        found = None
        for full in (f"meta_schedule.cpu.{name}", f"meta_schedule.generic.{name}", str(name)):
            found = found or get_global_func(full, allow_missing=True)
        if found is None:
            raise CompileError(
                f"the block {block} asks for the rule {name!r}, which is not registered; legal: "
                f'smelt.register_func("meta_schedule.cpu.{name}", (sch, block) -> schedules)'
            )
        made = found(sch, block)
        return list(made) if isinstance(made, list | tuple) else [made]


class _ForGPU(ScheduleRule):
    """A rule of another kind of machine: it can be named, not applied."""

    needs: ClassVar[str] = "a GPU"

    def __init__(self, *args: Any, **keywords: Any) -> None:
        """Keep what it was given."""
        self.given = (args, keywords)

    def apply(self, sch: Schedule, block: BlockRV) -> Never:
        """Refused."""
        raise CompileError(
            f"the rule {type(self).__name__} needs {self.needs}; the target is a CPU: legal here "
            "are MultiLevelTiling, AddRFactor, AutoInline, ParallelizeVectorizeUnroll, "
            "RandomComputeLocation, InlineConstantScalars, ApplyCustomRule, and rules of your own"
        )


class AutoBind(_ForGPU):
    """Binds loops to the threads of a GPU."""


class CrossThreadReduction(_ForGPU):
    """Reduces across the threads of a GPU."""


class MultiLevelTilingTensorCore(_ForGPU):
    """Tiles for the tensor cores of a GPU."""


class MultiLevelTilingWideVector(_ForGPU):
    """Tiles for very wide vectors."""

    needs = "a processor with vectors of 1024 bits"


class MultiLevelTilingWithIntrin(MultiLevelTiling):
    """Refused: `tensorize` needs tiles that have the intrinsic's extents."""

    def __init__(self, intrin_name: str, *args: Any, **keywords: Any) -> None:
        """Raise."""
        raise CompileError(
            f"MultiLevelTilingWithIntrin({intrin_name!r}) is not there; legal: a PyScheduleRule of "
            "your own that splits by the intrinsic's extents, and annotates the tile's block with "
            '"meta_schedule.auto_tensorize": RewriteTensorize puts the intrinsic there'
        )


def default_rules() -> list[ScheduleRule]:
    """The rules for a CPU, in order."""
    return [
        ApplyCustomRule(),
        InlineConstantScalars(),
        AutoInline(into_producer=False, into_consumer=True),
        AddRFactor(max_jobs_per_core=16, max_innermost_factor=64),
        MultiLevelTiling("SSRSRS", max_innermost_factor=64,
                         reuse_write=ReuseType("may", [1, 2], "global")),
        ParallelizeVectorizeUnroll(16, 16, [0, 16, 64], True),
        RandomComputeLocation(),
    ]  # fmt: skip


RULES_OF["llvm"] = default_rules
