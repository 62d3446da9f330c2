"""MetaSchedule, the classic face of the search engine: spaces of one's own, records, models.

    database = meta_schedule.tune_tir(mod, target, "tuned", max_trials_global=64)
    sch = meta_schedule.compile_tir(database, mod, target)

    database = meta_schedule.relay_integration.tune_relay(mod, params, target, "tuned", 500)
    lib = meta_schedule.relay_integration.compile_relay(database, mod, target, params)

It translates: `smelt.search` searches, and the records are the engine's.
"""

from __future__ import annotations

from typing import Never

from smelt.ir.errors import Absent

from . import (
    arg_info,
    builder,
    cost_model,
    database,
    feature_extractor,
    measure_callback,
    mutator,
    postproc,
    relax_integration,
    relay_integration,
    runner,
    schedule_rule,
    search_strategy,
    space_generator,
    task_scheduler,
    tir_integration,
    tune_context,
    utils,
)
from .builder import Builder
from .cost_model import CostModel
from .database import Database, TuningRecord, Workload
from .extracted_task import ExtractedTask
from .feature_extractor import FeatureExtractor
from .measure_callback import MeasureCallback
from .mutator import Mutator
from .postproc import Postproc
from .profiler import Profiler
from .relax_integration import compile_relax, tune_relax
from .relay_integration import compile_relay, is_meta_schedule_enabled, tune_relay, tune_tvm
from .runner import Runner
from .schedule_rule import ScheduleRule
from .search_strategy import MeasureCandidate, SearchStrategy
from .space_generator import SpaceGenerator
from .task_scheduler import TaskScheduler
from .tir_integration import compile_tir, tune_tir
from .tune import tune_tasks
from .tune_config import TuneConfig
from .tune_context import TuneContext
from .utils import derived_object

__all__ = ["Builder", "CostModel", "Database", "ExtractedTask", "FeatureExtractor",
           "MeasureCallback", "MeasureCandidate", "Mutator", "Postproc", "Profiler", "Runner",
           "ScheduleRule", "SearchStrategy", "SpaceGenerator", "TaskScheduler", "TuneConfig",
           "TuneContext", "TuningRecord", "Workload", "arg_info", "builder", "compile_relax",
           "compile_relay", "compile_tir", "cost_model", "database", "derived_object",
           "feature_extractor", "is_meta_schedule_enabled", "measure_callback", "mutator",
           "postproc", "relax_integration", "relay_integration", "runner", "schedule_rule",
           "search_strategy", "space_generator", "task_scheduler", "tir_integration",
           "tune_context", "tune_relax", "tune_relay", "tune_tasks", "tune_tir", "tune_tvm",
           "utils"]  # fmt: skip

_ABSENT = {
    "testing": "smelt has no workloads of its own to tune; tune_tir takes any program",
    "schedule": "schedules for CUDA are not there; smelt.rules has those for CPUs",
    "trace_apply": "a trace fits the program that it was recorded on; compile_tir replays it",
    "post_optimization": "the engine's own search ends where nothing is gained",
    "ApplyHistoryBest": "enter the database: with database: relay.build(...)",
}


def __getattr__(name: str) -> Never:
    if name in _ABSENT:
        raise Absent(f"meta_schedule.{name}: {_ABSENT[name]}")
    raise AttributeError(f"module 'smelt.meta_schedule' has no attribute {name!r}")
