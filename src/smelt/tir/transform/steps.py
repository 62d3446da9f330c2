"""The lowering pipeline as a PassContext wants it: without, with other, and with watched steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from smelt.ir.errors import CompileError, Unsupported
from smelt.ir.module import IRModule
from smelt.ir.transform import Pass, PassContext, PassInfo
from smelt.lowering.check_bounds import check_bounds
from smelt.lowering.common import eliminate_common_subexpressions
from smelt.lowering.kinds import serialize
from smelt.lowering.lower import LOWER
from smelt.lowering.remove import skip_asserts
from smelt.runtime.errors import nearest
from smelt.tir.nodes import PrimFunc

from .function_pass import BuiltIn
from .loops import UnrollLoop

__all__ = ["STEP_NAMES", "Step", "lowering_steps"]

Lowering = Callable[[PrimFunc], PrimFunc]

STEP_NAMES = {
    "lower_blocks": "LowerOpaqueBlock",
    "simplify": "Simplify",
    "guard_reductions": "GuardReductions",
    "drop_safe_guards": "ReduceBranchingThroughOvercompute",
    "hoist_guards": "HoistIfThenElse",
    "tighten_loops": "TightenLoops",
    "partition_loops": "LoopPartition",
    "flatten_buffers": "FlattenBuffer",
    "lift_workspaces": "LiftWorkspaces",
    "vectorize_loops": "VectorizeLoop",
    "unroll_loops": "UnrollLoop",
    "promote_accumulators": "PromoteAccumulators",
    "collapse_parallel": "CollapseParallel",
    "exchange_gathers": "ExchangeGathers",
    "finish": "LowerIntrin",
}
"""The names of smelt's own lowering passes in a PassContext: the classic ones where there are."""

_REQUIRED = {
    "LowerOpaqueBlock": "code is made from loops, not from blocks",
    "FlattenBuffer": "code is made from buffers of one dimension",
    "LiftWorkspaces": "large buffers do not fit on a thread's stack",
}
_WITHIN = (
    "LowerInitBlock",
    "PlanAndUpdateBufferAllocationLocation",
    "ConvertBlocksToOpaque",
    "CompactBufferAllocation",
)
"""Classic steps that LowerOpaqueBlock of smelt.lower does as well."""


class Step(NamedTuple):
    """A lowering pass under the name that a PassContext knows it by."""

    name: str
    fn: Lowering


class _Watched:
    """A step under a context's instruments."""

    def __init__(
        self, name: str, run: Callable[[PrimFunc, PassContext], Any], context: PassContext
    ) -> None:
        self.__name__ = name
        self.run, self.context = run, context

    def __call__(self, func: PrimFunc) -> PrimFunc:
        made = self.run(func, self.context)
        if not isinstance(made, PrimFunc):
            raise CompileError(
                f"smelt.lower: the pass {self.__name__} gave a {type(made).__name__} for "
                f"{func.name}; legal: a PrimFunc"
            )
        return made


def lowering_steps(context: PassContext, steps: Sequence[Lowering] = LOWER) -> tuple[Step, ...]:
    """What smelt.lower runs under a context, in order.

    Passes named in disabled_pass are left out (vectorized loops are serial then); those of the
    config "tir.add_lower_pass" come in; the context's instruments see each one.

    steps  what is run where the context asks for nothing; a shorter pipeline has no places for
           the phases behind its end
    """
    _check_names(context, steps)
    checked = context.setting("tir.instrument_bound_checkers")
    added: dict[int, list[Step]] = {0: [], 1: [], 2: [], 3: []}
    for phase, given in context.setting("tir.add_lower_pass"):
        added[phase].append(_added(given, context))
    out = list(added[0])
    for fn in steps:
        name = _name(fn)
        if name == "FlattenBuffer" and checked:
            out.append(_own("InstrumentBoundCheckers", check_bounds, context))
        out += _step(name, fn, context, checked)
        if name == "LowerOpaqueBlock" and context.setting("tir.disable_assert"):
            out.append(_own("SkipAssert", skip_asserts, context))
        out += added[1] if name == "FlattenBuffer" else added[2] if name == "UnrollLoop" else []
    if not context.setting("tir.disable_cse_tir"):
        out.append(_own("CommonSubexprElimTIR", eliminate_common_subexpressions, context))
    return (*out, *added[3])


def _step(name: str, fn: Lowering, context: PassContext, checked: bool) -> list[Step]:
    """One of smelt's own steps; none where it is disabled."""
    disabled = name in context.disabled_pass
    if name == "VectorizeLoop" and (
        disabled or checked or context.setting("tir.disable_vectorize")
    ):
        return [_own(name, lambda func: serialize(func, "vectorized"), context)]
    if name == "UnrollLoop" and not disabled:
        return [Step(name, _Watched(name, UnrollLoop().run, context))]
    return [] if disabled else [_own(name, fn, context)]


class _Needed(BuiltIn):
    """A step that runs whatever the instruments say."""

    def wanted(self, mod: Any, context: PassContext) -> bool:
        super().wanted(mod, context)
        return True


def _own(name: str, fn: Lowering, context: PassContext) -> Step:
    kind = _Needed if name in _REQUIRED else BuiltIn
    made = kind(lambda func, mod, cx: fn(func), PassInfo(name))
    return Step(name, _Watched(name, made.run, context))


def _added(given: Any, context: PassContext) -> Step:
    """A pass of "tir.add_lower_pass": one of functions or modules, or a plain function."""
    if not isinstance(given, Pass):
        name = getattr(given, "__name__", "pass")
        return Step(name, _Watched(name, lambda func, cx: given(func), context))

    def run(func: PrimFunc, cx: PassContext) -> Any:
        made = given.run(IRModule({func.name: func}), cx)
        return made.functions.get(func.name) if isinstance(made, IRModule) else made

    return Step(given.info.name, _Watched(given.info.name, run, context))


def _name(fn: Lowering) -> str:
    """A step's name: in the table, or its own in the classic spelling."""
    own = fn.__name__
    return STEP_NAMES.get(own) or "".join(part.capitalize() for part in own.split("_"))


def _check_names(context: PassContext, steps: Sequence[Lowering]) -> None:
    """Refuse names that smelt.lower does not know, and leaving out what it cannot do without."""
    known = dict.fromkeys([*_WITHIN, *map(_name, (*LOWER, *steps))])
    for name in (*context.required_pass, *context.disabled_pass):
        if name not in known:
            hint = nearest(name, known)
            raise Unsupported(
                f"PassContext: smelt.lower has no pass {name!r}{hint}; passes: {', '.join(known)}"
            )
    for name in context.disabled_pass:
        why = _REQUIRED.get("LowerOpaqueBlock" if name in _WITHIN else name)
        if why is not None:
            raise Unsupported(f"PassContext: smelt.lower cannot leave out {name}: {why}")
