"""Tensor programs: tuned, and compiled with what was found."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from smelt.ir.module import IRModule
from smelt.tir.nodes import PrimFunc
from smelt.tir.schedule import Schedule

from .builder import builder_on
from .cost_model import CostModel
from .database import Database
from .task_scheduler import TaskScheduler
from .tune import tune_tasks
from .tune_config import TuneConfig, settled
from .tune_context import TuneContext
from .utils import functions_of, resolved


def tune_tir(
    mod: IRModule | PrimFunc,
    target: Any = None,
    work_dir: str | os.PathLike[str] | None = None,
    max_trials_global: int | None = None,
    *,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int = 64,
    builder: Any = "local",
    runner: Any = "local",
    database: Any = "json",
    cost_model: CostModel | str = "xgb",
    measure_callbacks: Any = "default",
    task_scheduler: TaskScheduler | str = "gradient",
    space: Any = "post-order-apply",
    strategy: Any = "evolutionary",
    num_tuning_cores: str | int = "physical",
    seed: int | None = None,
    module_equality: str = "structural",
    special_space: Mapping[str, Any] | None = None,
    config: TuneConfig | None = None,
) -> Database:
    """Tune the tensor programs of a module: see `tune_tasks`.

    space          "post-order-apply": what smelt's rules may choose; a function (sch) -> None or
                   schedules; a SpaceGenerator
    strategy       "evolutionary", "replay-trace", "replay-func"
    special_space  spaces of some programs, by name
    config         in place of the numbers: the older form
    """
    names = functions_of("tune_tir", mod)
    how = settled("tune_tir", config, len(names), max_trials_global, max_trials_per_task,
                  num_trials_per_iter, task_scheduler, strategy)  # fmt: skip
    own = special_space or {}
    made = [
        TuneContext(f, target=target, space_generator=own.get(n) or space, task_name=n,
                    search_strategy=how.strategy, rand_state=-1 if seed is None else seed)
        for n, f in names.items()
    ]  # fmt: skip
    unique = {c.key: c for c in made}
    return tune_tasks(
        tasks=list(unique.values()), task_weights=[1.0 for _ in unique], work_dir=work_dir,
        max_trials_global=how.max_trials_global or 0,
        max_trials_per_task=how.max_trials_per_task, num_trials_per_iter=how.num_trials_per_iter,
        builder=builder_on(num_tuning_cores, builder), runner=runner, database=database,
        cost_model=cost_model,
        measure_callbacks=measure_callbacks, task_scheduler=how.task_scheduler,
    )  # fmt: skip


def compile_tir(
    database: Database, mod: IRModule | PrimFunc, target: Any = None
) -> Schedule | None:
    """The schedule that a database has for a module's programs: `smelt.build` takes it. None where
    it has none for any of them."""
    names, made = functions_of("compile_tir", mod), resolved(target)
    found = {n: database.query_tuning_record(f, made, n) for n, f in names.items()}
    if not any(found.values()):
        return None
    sch = Schedule(mod)
    for name, record in found.items():
        if record is not None:
            if len(names) > 1:
                sch.work_on(name)
            record.trace.apply_to_schedule(sch)
    return sch
