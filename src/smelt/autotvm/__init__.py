"""AutoTVM: templates with knobs, tuned by measuring.

    @autotvm.template("matmul") ...          a schedule with choices left open: get_config()
    task = autotvm.task.create("matmul", args=(512, "float32"), target="llvm")
    autotvm.tuner.XGBTuner(task).tune(n_trial=20, measure_option=..., callbacks=[...])
    with autotvm.apply_history_best("matmul.log"): ...

The classic face of the search engine in `smelt.search`: its records are the engine's, too.
"""

from __future__ import annotations

from typing import Never

from smelt.ir.errors import Absent

from . import callback, dispatcher, measure, record, space, task, tuner
from .contexts import ApplyConfig, ApplyFixedConfig, DispatchContext, FallbackContext
from .dispatcher import ApplyGraphBest, ApplyHistoryBest, apply_graph_best, apply_history_best
from .measure import (
    LocalBuilder,
    LocalRunner,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    RPCRunner,
    measure_option,
)
from .space import ConfigEntity, ConfigSpace, FallbackConfigEntity, InstantiationError
from .templates import Task, args_to_workload, create, get_config, template
from .tuner import create_measure_batch

__all__ = ["ApplyConfig", "ApplyFixedConfig", "ApplyGraphBest", "ApplyHistoryBest", "ConfigEntity",
           "ConfigSpace", "DispatchContext", "FallbackConfigEntity", "FallbackContext",
           "InstantiationError", "LocalBuilder", "LocalRunner", "MeasureErrorNo", "MeasureInput",
           "MeasureResult", "RPCRunner", "Task", "apply_graph_best", "apply_history_best",
           "args_to_workload", "callback", "create", "create_measure_batch", "dispatcher",
           "get_config", "measure", "measure_option", "record", "space", "task", "template",
           "tuner"]  # fmt: skip

_ABSENT = {
    "graph_tuner": "smelt chooses the layouts of a graph by their price: relay.build does it",
    "tophub": "smelt loads no logs from the net; apply_history_best takes your own",
    "feature": "the engine has features of its own: smelt.search.features",
    "database": "smelt.search.database keeps the records of all tuners",
    "register_topi_compute": "smelt's own operators are scheduled by its rules; task.extract_from_"
    "program gives their kernels, and template is for programs of yours",
    "register_topi_schedule": "smelt's own operators are scheduled by its rules; task.extract_from_"
    "program gives their kernels, and template is for programs of yours",
}


def __getattr__(name: str) -> Never:
    if name in _ABSENT:
        raise Absent(f"autotvm.{name}: {_ABSENT[name]}")
    raise AttributeError(f"module 'smelt.autotvm' has no attribute {name!r}")
