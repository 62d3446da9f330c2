"""Relax models: their kernels as tasks, tuned, and compiled with what was found."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from smelt.ir.module import IRModule
from smelt.ir.options import Options
from smelt.pipeline import as_target
from smelt.relax_build import build
from smelt.relay.build_module import as_module, bind_params
from smelt.target import Target
from smelt.transform import PassContext
from smelt.tuning import extract_tasks as engine_tasks

from .cost_model import CostModel
from .database import Database
from .extracted_task import ExtractedTask, extracted, extracted_tasks_to_tune_contexts
from .task_scheduler import TaskScheduler
from .tune import tune_tasks

__all__ = ["compile_relax", "extract_tasks", "extracted_tasks_to_tune_contexts", "tune_relax"]


def extract_tasks(
    mod: Any,
    target: Any = None,
    params: Mapping[str, Any] | None = None,
    *,
    module_equality: str = "structural",
) -> list[ExtractedTask]:
    """The kernels of a module's function main, equal ones as one."""
    bound = _bound("meta_schedule.extract_tasks", mod, params)
    given: Options = PassContext.current().options
    wanted = as_target(Target.current() if target is None else target)
    return [extracted(t) for t in engine_tasks(bound, wanted, options=given)]


def _bound(who: str, mod: Any, params: Mapping[str, Any] | None) -> IRModule:
    made = as_module(who, mod)
    return bind_params(IRModule(made.functions, made.attrs), params or {})


def tune_relax(
    mod: Any,
    params: Mapping[str, Any] | None = None,
    target: Any = None,
    work_dir: str | os.PathLike[str] | None = None,
    max_trials_global: int = 0,
    *,
    max_trials_per_task: int | None = None,
    op_names: Sequence[str] | None = None,
    num_trials_per_iter: int = 64,
    builder: Any = "local",
    runner: Any = "local",
    database: Any = "json",
    cost_model: CostModel | str = "xgb",
    measure_callbacks: Any = "default",
    task_scheduler: TaskScheduler | str = "gradient",
    space: Any = "post-order-apply",
    strategy: Any = "evolutionary",
    seed: int | None = None,
    module_equality: str = "structural",
) -> Database:
    """Tune the kernels of a module's function main: see `tune_tasks`.

    op_names  only kernels in whose names one of these stands
    """
    found = extract_tasks(mod, target, params)
    if op_names:
        found = [t for t in found if any(n in t.task_name for n in op_names)]
    tasks, weights = extracted_tasks_to_tune_contexts(found, work_dir, space, strategy, seed=seed)
    return tune_tasks(
        tasks=tasks, task_weights=weights, work_dir=work_dir, max_trials_global=max_trials_global,
        max_trials_per_task=max_trials_per_task, num_trials_per_iter=num_trials_per_iter,
        builder=builder, runner=runner, database=database, cost_model=cost_model,
        measure_callbacks=measure_callbacks, task_scheduler=task_scheduler,
    )  # fmt: skip


def compile_relax(
    database: Database,
    mod: Any,
    target: Any = None,
    params: Mapping[str, Any] | None = None,
    enable_warning: bool = False,
) -> Any:
    """A module whose kernels have the schedules of a database: for `relax.VirtualMachine`."""
    bound = _bound("meta_schedule.compile_relax", mod, params)
    with database:
        return build(bound, target)
