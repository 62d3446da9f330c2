"""Kernels of Relay programs as tasks, and logs as schedules of models that are built."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smelt.ir.errors import CompileError
from smelt.ir.module import IRModule
from smelt.ir.options import Options
from smelt.relax.nodes import Function
from smelt.relay import build_module
from smelt.search.space import RuleSpace
from smelt.target import Target
from smelt.transform import PassContext
from smelt.tuning import extract_tasks as engine_tasks

from .dispatcher import FLAG
from .log import PathLike
from .task import HardwareParams, SearchTask


def extract_tasks(
    mod: IRModule | Function,
    params: Mapping[str, Any] | None,
    target: str | Target | None,
    target_host: str | Target | None = None,
    hardware_params: HardwareParams | None = None,
    include_simple_tasks: bool = False,
    dump_workload_to_dag_log: PathLike | None = None,
    opt_level: int = 3,
    other_targets: object = None,
) -> tuple[list[SearchTask], list[float]]:
    """The kernels of a model as tasks, and how often a run calls each.

    mod, params, target       as for `relay.build`
    hardware_params           num_cores: threads of the model; None: those of the PassContext
    include_simple_tasks      elementwise kernels, too, whose schedules hardly differ
    dump_workload_to_dag_log  a file for the tasks' programs by key, as JSON
    """
    if other_targets:
        raise CompileError("extract_tasks: other_targets is refused: a model is compiled for one "
                           "target; leave it out")  # fmt: skip
    made = build_module.as_module("auto_scheduler.extract_tasks", mod)
    bound = build_module.bind_params(IRModule(made.functions, made.attrs), params or {})
    cores = None if hardware_params is None else hardware_params.num_cores
    given = PassContext.current().options
    options = Options(opt_level, cores or given.threads, given.cache_dir, given.workers)
    found = engine_tasks(bound, build_module.target_of(target, target_host), options=options)
    tasks, weights = [], []
    for t in found:
        task = _search_task(t.make)
        if include_simple_tasks or not task.compute_dag.is_simple:
            tasks.append(task)
            weights.append(t.weight)
    if dump_workload_to_dag_log is not None:
        text = json.dumps({t.workload_key: t.compute_dag.text for t in tasks}, indent=1)
        Path(dump_workload_to_dag_log).write_text(text + "\n", encoding="utf-8")
    return tasks, weights


def _search_task(make: Any) -> SearchTask:
    """A task of the engine, whose space is RuleSpace(spec, name), as one of this face."""
    assert make.func is RuleSpace
    return SearchTask.of_kernel(*make.args)


def is_auto_scheduler_enabled() -> bool:
    """Whether the PassContext around asks for the schedules of `ApplyHistoryBest`."""
    return bool(PassContext.current().setting(FLAG))
