"""The pipeline from a scheduled program to flat loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smelt.ir.errors import InternalError, SmeltError
from smelt.target import Target
from smelt.target.processor import lacks
from smelt.tir.nodes import PrimFunc

from .blocks import lower_blocks
from .collapse import collapse_parallel
from .exchange import exchange_gathers
from .finish import finish
from .flatten import flatten_buffers
from .guards import drop_safe_guards, guard_reductions, hoist_guards, tighten_loops
from .legalize import legalize_narrow
from .partition import partition_loops
from .promote import promote_accumulators
from .simplify import simplify
from .unroll import unroll_loops
from .vectorize import vectorize_loops
from .workspace import lift_workspaces

__all__ = ["LOWER", "LowerPass", "for_target", "lower"]

LowerPass = Callable[[PrimFunc], PrimFunc]

LOWER: tuple[LowerPass, ...] = (
    lower_blocks,  # block variables become loop expressions; buffers shrink to what a tile touches
    simplify,  # decided branches and loops of one turn go
    drop_safe_guards,  # what only protects unused register elements goes
    guard_reductions,  # a guarded operand of a sum becomes a guard of the update
    simplify,
    hoist_guards,  # conditions leave the loops that they do not mention
    tighten_loops,  # a condition on a loop's own variable becomes its bounds
    partition_loops,  # the middle of a tiled loop runs without the conditions of its edges
    flatten_buffers,  # a[i, j] -> a[i * 64 + j]
    lift_workspaces,  # large intermediate buffers are handed in by the caller
    vectorize_loops,  # before unrolling, so that it is done once
    unroll_loops,  # constant indices into local buffers are registers from here on
    promote_accumulators,  # what a loop updates again and again stays in a register meanwhile
    collapse_parallel,  # nested parallel loops are shared out together
    exchange_gathers,  # strided copies of neighbouring columns: loads of rows, shuffles
    legalize_narrow,  # floats and integers of a few bits become bytes and arithmetic on them
    finish,  # fused multiply-adds, cheap divisions
)


def for_target(func: PrimFunc, target: Target) -> PrimFunc:
    """A program that notes what its target lacks: passes write that as something else."""
    lacking = lacks(target)
    return func.with_attrs(lacks=lacking) if lacking else func


def lower(
    func: PrimFunc,
    observe: Callable[[str, PrimFunc], None] | None = None,
    steps: Sequence[LowerPass] = LOWER,
) -> PrimFunc:
    """A scheduled program as flat loops.

    observe  called with each pass's name and result, e.g. to dump them
    steps    the passes, in order
    """
    for step in steps:
        try:
            result = step(func)
        except SmeltError:
            raise
        except Exception as e:
            raise InternalError(
                f"{func.name}: the pass {step.__name__} failed: {type(e).__name__}: {e}"
            ) from e
        if observe is not None and result is not func:
            observe(step.__name__, result)
        func = result
    return func
