"""Kernels of models, before they are tuned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from smelt.artifact.kernel import KernelSpec, plain_program
from smelt.ir.module import IRModule
from smelt.search.space import RuleSpace
from smelt.search.tune import Task
from smelt.target import Target

from .tune_context import TuneContext
from .utils import fork_seed


@dataclass
class ExtractedTask:
    """A kernel of a model.

    mod         its program; dispatched: the same, as smelt has one program for a kernel
    weight      how often a run calls it
    """

    task_name: str
    mod: IRModule
    target: Target
    dispatched: Sequence[IRModule]
    weight: int
    spec: KernelSpec | None = field(default=None, repr=False)


def extracted(task: Task) -> ExtractedTask:
    """A task of the engine, whose space is RuleSpace(spec, name), as one of this face."""
    make: Any = task.make
    assert make.func is RuleSpace
    spec: KernelSpec = make.args[0]
    mod = IRModule({"main": plain_program(spec, "main")})
    return ExtractedTask(task.name, mod, spec.target, [mod], int(task.weight), spec)


def extracted_tasks_to_tune_contexts(
    extracted_tasks: Sequence[ExtractedTask],
    work_dir: Any = None,
    space: Any = "post-order-apply",
    strategy: Any = "evolutionary",
    num_tuning_cores: str | int = "physical",
    seed: int | None = None,
    num_threads: str | int = "physical",
) -> tuple[list[TuneContext], list[float]]:
    """Kernels as tasks to tune, and their weights. The number of cores is accepted."""
    seeds = fork_seed(0 if seed is None else seed, len(extracted_tasks))
    made = [
        TuneContext(t.mod, target=t.target, space_generator=space, search_strategy=strategy,
                    task_name=t.task_name, rand_state=s, spec=t.spec)
        for t, s in zip(extracted_tasks, seeds, strict=True)
    ]  # fmt: skip
    return made, [float(t.weight) for t in extracted_tasks]
