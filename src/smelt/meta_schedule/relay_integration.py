"""Relay models: their kernels as tasks, tuned, and compiled with what was found.

database = tune_relay(mod, params, target, "tuned", max_trials_global=500)
lib = compile_relay(database, mod, target, params)
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from smelt.ir.errors import CompileError
from smelt.ir.module import IRModule
from smelt.ir.options import Options
from smelt.relay import build_module, vm
from smelt.relay.backend import Executor
from smelt.target import Target
from smelt.transform import PassContext
from smelt.tuning import extract_tasks as engine_tasks

from .builder import builder_on
from .cost_model import CostModel
from .database import Database
from .extracted_task import ExtractedTask, extracted, extracted_tasks_to_tune_contexts
from .task_scheduler import TaskScheduler
from .tune import tune_tasks
from .tune_config import TuneConfig, settled

__all__ = ["compile_relay", "extract_tasks", "extracted_tasks_to_tune_contexts",
           "is_meta_schedule_enabled", "tune_relay", "tune_tvm"]  # fmt: skip


def extract_tasks(
    mod: Any,
    target: Any = None,
    params: Mapping[str, Any] | None = None,
    *,
    opt_level: int = 3,
    pass_config: Mapping[str, Any] | None = None,
    executor: Any = None,
    runtime: Any = None,
    module_equality: str = "structural",
    disabled_pass: Sequence[str] | None = None,
    instruments: object = None,
) -> list[ExtractedTask]:
    """The kernels of a model, equal ones as one; mod, target, params: as for `relay.build`.

    opt_level, disabled_pass  of the PassContext that the model will be compiled in
    """
    made = build_module.as_module("meta_schedule.extract_tasks", mod)
    bound = build_module.bind_params(IRModule(made.functions, made.attrs), params or {})
    given = PassContext.current().options
    options = Options(opt_level, given.threads, given.cache_dir, given.workers)
    with _context(opt_level, pass_config, disabled_pass):
        found = engine_tasks(bound, build_module.target_of(target, None), options=options)
    return [extracted(t) for t in found]


def _context(
    opt_level: int, config: Mapping[str, Any] | None, disabled: Sequence[str] | None
) -> PassContext:
    return PassContext(opt_level=opt_level, config=dict(config or {}),
                       disabled_pass=list(disabled or ()))  # fmt: skip


def tune_relay(
    mod: Any,
    params: Any = None,
    target: Any = None,
    work_dir: Any = None,
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
    seed: int | None = None,
    module_equality: str = "structural",
    num_tuning_cores: str | int = "physical",
    opt_level: int = 3,
    disabled_pass: Sequence[str] | None = None,
    instruments: object = None,
    config: TuneConfig | None = None,
    backend: str = "graph",
) -> Any:
    """Tune the kernels of a model: see `tune_tasks`. Gives the database; with config=, the older
    form, the compiled model.

    Raises CompileError where nothing can be tuned.
    """
    if isinstance(params, str | Target):
        raise CompileError(
            "tune_relay: params is a target, as in the older order; legal: by name, "
            "tune_relay(mod, params=params, target=target, config=config, work_dir=folder)"
        )
    found = extract_tasks(mod, target, params, opt_level=opt_level, disabled_pass=disabled_pass)
    how = settled("tune_relay", config, len(found), max_trials_global, max_trials_per_task,
                  num_trials_per_iter, task_scheduler, strategy)  # fmt: skip
    tasks, weights = extracted_tasks_to_tune_contexts(found, work_dir, space, how.strategy,
                                                      seed=seed)  # fmt: skip
    made = tune_tasks(
        tasks=tasks, task_weights=weights, work_dir=work_dir,
        max_trials_global=how.max_trials_global or 0,
        max_trials_per_task=how.max_trials_per_task, num_trials_per_iter=how.num_trials_per_iter,
        builder=builder_on(num_tuning_cores, builder), runner=runner, database=database,
        cost_model=cost_model,
        measure_callbacks=measure_callbacks, task_scheduler=how.task_scheduler,
    )  # fmt: skip
    if config is None:
        return made
    return compile_relay(made, mod, target, params, backend=backend, opt_level=opt_level)


def tune_tvm(
    mod: Any,
    target: Any = None,
    config: TuneConfig | None = None,
    work_dir: str | os.PathLike[str] | None = None,
    *,
    params: Mapping[str, Any] | None = None,
    **others: Any,
) -> Database:
    """`tune_relay` by the name that articles call it by: it gives the database.

    Without max_trials_global it measures max_trials_per_task for each task.
    """
    how = config or TuneConfig(max_trials_per_task=64)
    made: Database = tune_relay(
        mod, params, target, work_dir, how.max_trials_global,
        max_trials_per_task=how.max_trials_per_task, num_trials_per_iter=how.num_trials_per_iter,
        task_scheduler=how.task_scheduler, strategy=how.strategy, **others,
    )  # fmt: skip
    return made


def compile_relay(
    database: Database,
    mod: Any,
    target: Any = None,
    params: Mapping[str, Any] | None = None,
    *,
    backend: str = "graph",
    opt_level: int = 3,
    pass_config: Mapping[str, Any] | None = None,
    executor: Executor | None = None,
    disabled_pass: Sequence[str] | None = None,
    runtime: Any = None,
    instruments: object = None,
) -> Any:
    """A model whose kernels have the schedules of a database, the others the default ones.

    backend  "graph": as `relay.build` gives it; "vm": as `relay.vm.compile` does
    """
    if backend not in ("graph", "vm"):
        raise CompileError(f"compile_relay: backend is {backend!r}; legal: 'graph', 'vm'")
    with database, _context(opt_level, pass_config, disabled_pass):
        if backend == "vm":
            return vm.compile(mod, target=target, params=params)
        return build_module.build(mod, target=target, params=params, executor=executor,
                                  runtime=runtime)  # fmt: skip


def is_meta_schedule_enabled() -> bool:
    """Whether a database is entered, so that models take their schedules from it."""
    return Database.current() is not None
