"""Why kernels are scheduled as they are: what was chosen, what else fits, what was refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from smelt.artifact.kernel import KernelSpec, plans
from smelt.artifact.measure import timer
from smelt.codegen.llvm import is_native, resolve
from smelt.ir.errors import CompileError
from smelt.ir.options import Options
from smelt.ir.sizes import Extent
from smelt.pipeline import as_target, lower_program
from smelt.rules.cpu import Part, Plan
from smelt.rules.sketch import Choice
from smelt.stages import kernels_of
from smelt.target import Target
from smelt.tir.nodes import PrimFunc

_SECONDS = 0.05
"""How long a candidate is timed."""


@dataclass(frozen=True)
class Candidate:
    """A way to schedule a part of a kernel.

    decision  its tiles, order, packing and the like
    seconds   predicted for the part
    measured  seconds of the whole kernel with it, where that was asked for
    """

    sketch: str
    decision: str
    seconds: float
    measured: float | None = None


@dataclass(frozen=True)
class PartChoice:
    """A part of a kernel: the blocks that are scheduled together.

    candidates  the chosen one first, then the best of other sketches and the runners-up of its own
    refused     why other sketches do not fit, by name
    """

    blocks: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    refused: Mapping[str, str]


@dataclass(frozen=True)
class KernelChoice:
    """What was chosen for a kernel; seconds: predicted for all of it."""

    name: str
    seconds: float
    parts: tuple[PartChoice, ...]

    def text(self) -> str:
        """A paragraph for people."""
        lines = [f"{self.name}: predicted {_time(self.seconds)}"]
        for part in self.parts:
            lines.append(f"  {', '.join(part.blocks)}")
            for mark, c in zip("*" + " " * len(part.candidates), part.candidates, strict=False):
                told = "" if c.measured is None else f"  measured {_time(c.measured)}"
                lines.append(
                    f"  {mark} {_time(c.seconds)}{told}  {c.sketch}: {c.decision}".rstrip()
                )
            lines += [f"      {name}: {reason}" for name, reason in part.refused.items()]
        return "\n".join(lines)

    def json(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:10.1f} us"


def why(
    model: Any,
    kernel: str | None = None,
    target: str | Target | None = None,
    shapes: Mapping[str, Sequence[Extent]] | None = None,
    options: Options | None = None,
    *,
    runners_up: int = 3,
    measure: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[KernelChoice]:
    """What was chosen for a model's kernels, and what the alternatives were predicted to take.

    kernel      the name of one kernel; None: all. Kernels that follow a rule of their operators'
                own have no alternatives and are left out
    runners_up  the next best decisions of the chosen sketch, so many
    measure     whether every candidate is built and timed on this machine, its operands near
    target, shapes, options, progress  as for `compile`

    Raises CompileError for a kernel that there is not, or to measure for another machine.
    """
    resolved = resolve(as_target(target))
    if measure and not is_native(resolved):
        raise CompileError(
            f"nothing can be measured here for {resolved}; legal: this machine's CPU"
        )
    specs = kernels_of(model, kernel, resolved, shapes, options, "smelt.why")
    found = []
    for n, (name, spec) in enumerate(specs.items()):
        if progress is not None:
            progress("kernels", n, len(specs))
        found_plans = plans(spec)
        if found_plans:
            plan = found_plans[0]
            parts = [_part(plan, k, runners_up, spec if measure else None)
                     for k in range(len(plan.parts))]  # fmt: skip
            found.append(KernelChoice(name, plan.seconds, tuple(parts)))
    if progress is not None:
        progress("kernels", len(specs), len(specs))
    return found


def _part(plan: Plan, at: int, runners_up: int, spec: KernelSpec | None) -> PartChoice:
    part = plan.parts[at]
    first, *others = part.choices
    listed = [first, *_runners_up(part, runners_up), *others]
    candidates = tuple([
        Candidate(c.sketch.name, str(c.decision), c.seconds,
                  None if spec is None else _measured(plan, at, c, spec))
        for c in listed
    ])  # fmt: skip
    return PartChoice(part.site.blocks, candidates, dict(part.refused))


def _runners_up(part: Part, count: int) -> list[Choice]:
    """The next best decisions of the sketch that was chosen."""
    first = part.choices[0]
    scored = next(s for sketch, s in part.scored if sketch is first.sketch)
    return [scored.choice(first.sketch, n) for n in range(1, min(count + 1, len(scored.order)))]


def candidate(plan: Plan, at: int, choice: Choice) -> PrimFunc:
    """A kernel's lowered program with a choice for one part, the others as they are."""
    sch = plan.schedule.copy()
    for n, part in enumerate(plan.parts):
        c = choice if n == at else part.choices[0]
        c.space.build(sch, c.decision)
    return lower_program(sch.func)


def _measured(plan: Plan, at: int, choice: Choice, spec: KernelSpec) -> float:
    return timer(candidate(plan, at, choice), spec.target, spec.cores)(_SECONDS)
