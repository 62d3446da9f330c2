"""Why kernels are scheduled as they are: what was chosen, what else fits, what was refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from smelt.artifact.kernel import KernelSpec, plans
from smelt.artifact.measure import timer
from smelt.codegen.llvm import is_native, resolve
from smelt.ir.errors import CompileError
from smelt.ir.options import Options
from smelt.ir.sizes import Extent
from smelt.pipeline import as_target, checked_context, lower_program
from smelt.rules.cpu import Part, Plan
from smelt.rules.cpu import apply as apply_rules
from smelt.rules.cpu import plan as plan_rules
from smelt.rules.sketch import Choice
from smelt.search.lookup import known_schedule
from smelt.search.space import ProgramSpec
from smelt.stages import kernels_of
from smelt.target import Target, machine_of
from smelt.tir.nodes import PrimFunc
from smelt.tir.schedule import Schedule

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
    """What was chosen for a kernel.

    seconds     predicted for all of it
    algorithms  where there are several for one of its operators: the chosen one first, each with
                the best schedule for it; "own" is what defines the operator
    tuned       whether a database has another schedule, which is taken instead
    """

    name: str
    seconds: float
    parts: tuple[PartChoice, ...]
    algorithms: tuple[Candidate, ...] = ()
    tuned: bool = False

    def text(self) -> str:
        """A paragraph for people."""
        lines = [f"{self.name}: predicted {_time(self.seconds)}"]
        if self.tuned:
            lines += ["  tuned: a schedule that was found by measuring stands in place of these"]
        if self.algorithms:
            lines += ["  algorithms", *_listed(self.algorithms)]
        for part in self.parts:
            lines += [f"  {', '.join(part.blocks)}", *_listed(part.candidates)]
            lines += [f"      {name}: {reason}" for name, reason in part.refused.items()]
        return "\n".join(lines)

    def json(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)


def _listed(candidates: Sequence[Candidate]) -> list[str]:
    """A line each, the first one marked."""
    lines = []
    for n, c in enumerate(candidates):
        told = "" if c.measured is None else f"  measured {_time(c.measured)}"
        what = f"{c.sketch}: {c.decision}".removesuffix(": ")
        lines.append(f"  {' ' if n else '*'} {_time(c.seconds)}{told}  {what}")
    return lines


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
        timed = spec if measure else None
        made = plans(spec)
        if made:
            parts = [_part(made[0], k, runners_up, timed) for k in range(len(made[0].parts))]
            algorithms = [_algorithm(p, timed) for p in made if len(made) > 1]
            seconds = made[0].seconds
            tuned = spec.tuned is not None
            found.append(KernelChoice(name, seconds, tuple(parts), tuple(algorithms), tuned))
    if progress is not None:
        progress("kernels", len(specs), len(specs))
    return found


def default_schedule(
    func: PrimFunc,
    target: str | Target | None = None,
    *,
    constants: Collection[str] = (),
    options: Options | None = None,
) -> Schedule:
    """The schedule that a tensor program gets: of the options' database, where that has a winner,
    else that of the rules. Its trace can be printed and edited.

    constants  names of parameters that are known at compile time, so that they may be laid out anew

    Raises CompileError for a schedule of the database that does not fit the program (any more).
    """
    resolved = resolve(as_target(target))
    context = checked_context("smelt.default_schedule", options, resolved)
    cores = context.options.cores
    known = tuple([b.name in constants for b in func.buffers])
    if found := known_schedule(context, ProgramSpec(func, resolved, cores, known)):
        return found
    return apply_rules(plan_rules(func, machine_of(resolved, cores), frozenset(constants))).schedule


def _algorithm(plan: Plan, spec: KernelSpec | None) -> Candidate:
    """A plan as a whole; spec: the kernel, where it is measured."""
    best = plan.parts[0].choices[0]
    measured = None if spec is None else _measured(plan, 0, best, spec)
    return Candidate(plan.body or "own", "", plan.seconds, measured)


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
