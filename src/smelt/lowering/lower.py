"""From a scheduled program to flat loops: a list of passes, and what a PassContext makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from smelt.ir.errors import CompileError
from smelt.ir.module import IRModule
from smelt.ir.steps import Step, run_steps
from smelt.ir.transform import Pass, PassContext
from smelt.target import Target
from smelt.target.processor import lacks
from smelt.tir.nodes import PrimFunc

from .check_bounds import check_bounds
from .common import eliminate_common_subexpressions
from .kinds import mark_unrolled, serialize
from .remove import skip_asserts
from .unroll import unroll_loops

PLAIN = PassContext(opt_level=3)
"""What asks for nothing."""


def for_target(func: PrimFunc, target: Target) -> PrimFunc:
    """A program that notes what its target lacks: passes write that as something else."""
    lacking = lacks(target)
    return func.with_attrs(lacks=lacking) if lacking else func


def lower(
    func: PrimFunc,
    steps: Sequence[Step],
    observe: Callable[[str, PrimFunc], None] | None = None,
    context: PassContext = PLAIN,
) -> PrimFunc:
    """A scheduled program as flat loops.

    steps    the passes, in order: pipeline.LOWER, or what `lowering_steps` made of it
    observe  called with each pass's name and result, e.g. to dump them
    """
    found: PrimFunc = run_steps(
        steps, func, context, observe, who=func.name, shown=lambda f: IRModule({func.name: f})
    )
    return found


def lowering_steps(context: PassContext, steps: Sequence[Step]) -> tuple[Step, ...]:
    """What is run under a context, in order; `steps` themselves where it asks for nothing.

    Passes named in disabled_pass are left out (vectorized loops are serial then); those of the
    config "tir.add_lower_pass" come in.

    steps  a shorter list has no places for the phases behind its end
    """
    checked = context.setting("tir.instrument_bound_checkers")
    added: dict[int, list[Step]] = {0: [], 1: [], 2: [], 3: []}
    for phase, given in context.setting("tir.add_lower_pass"):
        added[phase].append(_added(given, context))
    out = list(added[0])
    for step in steps:
        name = step.name
        if name == "FlattenBuffer" and checked:
            out.append(Step(check_bounds, "InstrumentBoundCheckers", "every index is checked"))
        out += _as_asked(step, context, checked)
        if name == "LowerOpaqueBlock" and context.setting("tir.disable_assert"):
            out.append(Step(skip_asserts, "SkipAssert", "checks go"))
        out += added[1] if name == "FlattenBuffer" else added[2] if name == "UnrollLoop" else []
    if not context.setting("tir.disable_cse_tir"):
        why = "what is computed twice gets a name"
        out.append(Step(eliminate_common_subexpressions, "CommonSubexprElimTIR", why))
    return (*out, *added[3])


def unroll_as_asked(func: PrimFunc, context: PassContext) -> PrimFunc:
    """unroll_loops with the config "tir.UnrollLoop" of a context."""
    config = context.setting("tir.UnrollLoop")
    limits = [config[f"auto_max_{name}"] for name in ("step", "depth", "extent")]
    func = mark_unrolled(func, *limits)
    return unroll_loops(func) if config["explicit_unroll"] else func


def _as_asked(step: Step, context: PassContext, checked: bool) -> list[Step]:
    """A step with the config that belongs to it; none where it is left out."""
    off = step.name in context.disabled_pass
    if step.name == "VectorizeLoop" and (
        off or checked or context.setting("tir.disable_vectorize")
    ):
        return [replace(step, fn=lambda func: serialize(func, "vectorized"), always=True)]
    if step.name == "UnrollLoop" and "tir.UnrollLoop" in context.config:
        step = replace(step, fn=lambda func: unroll_as_asked(func, context))
    return [] if off else [step]


def _added(given: Any, context: PassContext) -> Step:
    """A pass of "tir.add_lower_pass": one of functions or modules, or a plain function."""
    name = given.info.name if isinstance(given, Pass) else getattr(given, "__name__", "pass")

    def run(func: PrimFunc) -> PrimFunc:
        made = given.apply(IRModule({func.name: func}), context) if isinstance(given, Pass) else (
            given(func)
        )  # fmt: skip
        if isinstance(made, IRModule):
            made = made.functions.get(func.name)
        if not isinstance(made, PrimFunc):
            raise CompileError(
                f"smelt.lower: the pass {name} gave a {type(made).__name__} for {func.name}; "
                "legal: a PrimFunc"
            )
        return made

    return Step(run, name, "the config tir.add_lower_pass")
