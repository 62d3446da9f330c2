"""The kernels of a Relay program as tasks: their configs are what smelt's rules may choose.

A config says its decisions for people, and the schedule as a trace, which is replayed where the
program is built: `with autotvm.apply_history_best(log): relay.build(...)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any

from smelt.artifact.kernel import KernelSpec
from smelt.ir.errors import CompileError, SmeltError
from smelt.relax.nodes import Call, values
from smelt.relay.build_module import as_module, bind_params, target_of
from smelt.search.build import applied
from smelt.search.space import Candidate, RuleSpace
from smelt.search.tune import Task as EngineTask
from smelt.target import Target
from smelt.tir.nodes import PrimFunc
from smelt.tir.schedule import Schedule
from smelt.tuning import extract_tasks

from .space import ConfigEntity, ConfigSpace, OtherOptionEntity, digits, number
from .templates import Task

DECISION, BODY, TRACE = "decision", "body", "trace"
"""The entities of a kernel's config."""


class KernelSpace(RuleSpace):
    """What the rules may choose for a kernel, numbered."""

    def index(self, candidate: Candidate) -> int:
        """The number of a candidate: algorithms one after another, first parts change fastest."""
        point, rows = candidate.choice
        start = 0
        for a in self.algorithms:
            dims = [len(p) for p in a.parts]
            if a.plan.body == point.body:
                return start + number(rows, dims)
            start += prod(dims)
        raise CompileError(f"{self.workload.name}: no algorithm {point.body!r}")

    def at(self, index: int) -> Candidate:
        """The candidate of a number."""
        for a in self.algorithms:
            dims = [len(p) for p in a.parts]
            if index < prod(dims):
                return a.candidate(digits(index, dims))
            index -= prod(dims)
        raise CompileError(f"{self.workload.name}: it has {self.size:.0f} configs")

    def config(self, candidate: Candidate) -> ConfigEntity:
        """A candidate as a config, with its schedule."""
        point = candidate.choice[0]
        try:
            trace = str(applied(self.spec, point).trace)
        except SmeltError:
            trace = ""  # what builds it will say why
        said = {DECISION: candidate.text, BODY: point.body, TRACE: trace}
        entities = {n: OtherOptionEntity(v) for n, v in said.items()}
        return ConfigEntity(self.index(candidate), None, entities)

    def candidate(self, config: Any) -> Candidate | None:
        """A config as a candidate; None where it is none of the space."""
        return self.find(config[DECISION].val) if DECISION in config else None


class KernelConfigs(ConfigSpace):
    """The configs of a kernel by their numbers."""

    def __init__(self, space: KernelSpace) -> None:
        """space  of the kernel."""
        super().__init__()
        self.space = space

    @property
    def dims(self) -> list[int]:
        """One: numbers are all that there is."""
        return [self.range_length]

    @property
    def range_length(self) -> int:
        """How many configs there are."""
        return int(self.space.size)

    def get(self, index: int) -> ConfigEntity:
        """The config of a number."""
        if not 0 <= index < self.range_length:
            raise CompileError(f"config {index}; legal: 0 to {self.range_length - 1}")
        return self.space.config(self.space.at(index))


class KernelTask(Task):
    """A kernel of a program.

    weight  how often a run calls it
    """

    def __init__(self, given: EngineTask, space: KernelSpace, target: Target) -> None:
        """given  the kernel as a task of the engine; space: of its decisions."""
        func = _program(space)
        tensors = [("TENSOR", tuple(b.shape), b.type) for b in func.buffers]
        super().__init__(given.name, (space.workload.key, *tensors))
        self.space, self.target, self.weight, self.flop = space, target, given.weight, given.work
        self.config_space = KernelConfigs(space)

    @cached_property
    def ops(self) -> tuple[str, ...]:
        """The names of its operators, in order."""
        spec = self.space.spec
        assert isinstance(spec, KernelSpec)
        return tuple([v.op.name for v in values(spec.group.body)
                      if isinstance(v, Call) and hasattr(v.op, "name")])  # fmt: skip

    def scheduled(self, config: Any) -> Schedule:
        """The kernel's program with a config."""
        found = self.space.candidate(config)
        if found is None:
            raise CompileError(f"the task {self.name!r} has no config {config!r:.80}")
        return applied(self.space.spec, found.choice[0])

    def instantiate(self, config: Any) -> tuple[Schedule, list[Any]]:
        """The schedule with a config, and its parameters: smelt.build takes the schedule."""
        made = self.scheduled(config)
        return made, list(made.func.buffers)

    def plain(self) -> PrimFunc:
        """The program without a schedule."""
        return _program(self.space)

    def open(self, walk: str = "") -> KernelSpace:
        """Its space for the engine, which orders decisions by price: there is no other walk."""
        return self.space


def _program(space: RuleSpace) -> PrimFunc:
    return space.algorithms[0].plan.schedule.func


def extract_from_program(
    mod: Any,
    params: Mapping[str, Any] | None,
    target: Any,
    target_host: Any = None,
    ops: Sequence[Any] | None = None,
) -> list[Task]:
    """The kernels of a Relay program as tasks, the longest first; equal ones are one.

    ops  leave out kernels without one of these operators: relay.op.get("nn.conv2d"), or names

    Kernels in which nothing can be chosen are left out, too.
    """
    return extract_from_multiple_program([mod], [params], target, target_host, ops)


def extract_from_multiple_program(
    mods: Sequence[Any],
    params: Sequence[Mapping[str, Any] | None],
    target: Any,
    target_host: Any = None,
    ops: Sequence[Any] | None = None,
) -> list[Task]:
    """The kernels of some programs as tasks, see `extract_from_program`."""
    made = target_of(target, target_host)
    found: dict[Any, KernelTask] = {}
    for mod, given in zip(mods, params, strict=True):
        bound = bind_params(as_module("autotvm.task.extract_from_program", mod), given or {})
        for task in extract_tasks(bound, made):
            if (kernel := _kernel(task, made)) is not None:
                known = found.setdefault(kernel.workload, kernel)
                known.weight += 0 if known is kernel else kernel.weight
    wanted = None if ops is None else {_core_name(op) for op in ops}
    kept: list[KernelTask] = [t for t in found.values() if wanted is None or wanted & {*t.ops}]
    if wanted is not None and not kept:
        known_ops = sorted({name for t in found.values() for name in t.ops})
        raise CompileError(
            f"extract_from_program: no kernel has {', '.join(sorted(wanted))}; operators: "
            f"{', '.join(known_ops)}"
        )
    kept.sort(key=lambda t: -t.weight * t.flop)
    return [*kept]


def _kernel(given: EngineTask, target: Target) -> KernelTask | None:
    try:
        space = given.space
    except CompileError:
        return None  # there is nothing to choose
    assert isinstance(space, RuleSpace)
    return KernelTask(given, KernelSpace(space.spec, given.name), target)


def _core_name(op: Any) -> str:
    """An operator's name without Relay's room."""
    name = op if isinstance(op, str) else getattr(op, "name", "")
    return str(name).rpartition(".")[2]
