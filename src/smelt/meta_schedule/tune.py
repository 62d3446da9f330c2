"""Tuning tasks: what all the other ways end in."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from .cost_model import CostModel
from .database import Database, JSONDatabase, MemoryDatabase
from .task_scheduler import TaskScheduler
from .tune_context import TuneContext
from .utils import of_kinds, work_folder


def open_for(work_dir: str | os.PathLike[str] | None, database: Any) -> Database:
    """The database of a session: "json" in a folder, "memory", or one that is there.

    Raises CompileError.
    """
    if database == "json":
        return JSONDatabase(work_dir=work_folder("tuning", work_dir))
    if database == "memory":
        return MemoryDatabase()
    return of_kinds("database", database, Database, "'json', 'memory', or a Database")


def tune_tasks(
    *,
    tasks: Sequence[TuneContext],
    task_weights: Sequence[float],
    work_dir: str | os.PathLike[str] | None = None,
    max_trials_global: int,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int = 64,
    builder: Any = "local",
    runner: Any = "local",
    database: Any = "json",
    cost_model: CostModel | str = "xgb",
    measure_callbacks: Any = "default",
    task_scheduler: TaskScheduler | str = "gradient",
    module_equality: str = "structural",
) -> Database:
    """Look for faster schedules of tasks by measuring; the database that holds what was found.

    task_weights       how often a run of the model calls each
    max_trials_global  measurements in all; that of each task's default schedule comes on top
    num_trials_per_iter  candidates that are built together, at most
    builder, runner    "local", or of one's own: PyBuilder, PyRunner
    database           "json": two files in work_dir; "memory"; a Database
    cost_model         "xgb": the engine's own; "random"; a PyCostModel

    Raises CompileError where no task can be tuned.
    """
    opened = open_for(work_dir, database)
    made = TaskScheduler.create(task_scheduler) if isinstance(task_scheduler, str) else (
        of_kinds("task_scheduler", task_scheduler, TaskScheduler, "'gradient', 'round-robin'")
    )  # fmt: skip
    made.tune(tasks, task_weights, max_trials_global, max_trials_per_task, num_trials_per_iter,
              builder, runner, measure_callbacks, opened, cost_model)  # fmt: skip
    return opened
