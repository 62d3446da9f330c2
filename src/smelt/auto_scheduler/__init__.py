"""AutoScheduler, the classic face of the search engine: tasks, policies, logs.

    task = auto_scheduler.SearchTask(func=matmul, args=(512, 512, 512), target="llvm -mcpu=native")
    task.tune(auto_scheduler.TuningOptions(num_measure_trials=50,
                                           measure_callbacks=[RecordToFile("matmul.json")]))
    sch, args = task.apply_best("matmul.json")

It translates: `smelt.search` searches, and the candidates are the rules' own sketches.
"""

from __future__ import annotations

from .cost_model import CostModel, PythonBasedModel, RandomModel, XGBModel
from .dag import ComputeDAG, State
from .dispatcher import ApplyHistoryBest, ApplyHistoryBestOrSample, DispatchContext, FallbackContext
from .measure import (
    LocalBuilder,
    LocalRPCMeasureContext,
    LocalRunner,
    MeasureCallback,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    ProgramBuilder,
    ProgramMeasurer,
    ProgramRunner,
    PythonBasedMeasureCallback,
    RPCRunner,
)
from .policy import (
    EmptyPolicy,
    PreloadCustomSketchRule,
    PreloadMeasuredStates,
    SearchCallback,
    SearchPolicy,
    SketchPolicy,
)
from .records import (
    RecordReader,
    RecordToDatabase,
    RecordToFile,
    distill_record_file,
    dump_record_to_string,
    load_best_record,
    load_into,
    load_record_from_string,
    load_records,
    recover_measure_input,
    save_records,
)
from .relay_integration import extract_tasks, is_auto_scheduler_enabled
from .task import HardwareParams, SearchTask, TuningOptions, auto_schedule, create_task
from .task_scheduler import (
    LogEstimatedLatency,
    PrintTableInfo,
    TaskScheduler,
    TaskSchedulerCallback,
    make_search_policies,
)
from .workload import (
    decode_workload_key,
    make_workload_key,
    register_workload,
    register_workload_tensors,
    workload_key_to_tensors,
)

__all__ = ["ApplyHistoryBest", "ApplyHistoryBestOrSample", "ComputeDAG", "CostModel",
           "DispatchContext", "EmptyPolicy", "FallbackContext", "HardwareParams", "LocalBuilder",
           "LocalRPCMeasureContext", "LocalRunner", "LogEstimatedLatency", "MeasureCallback",
           "MeasureErrorNo", "MeasureInput", "MeasureResult", "PreloadCustomSketchRule",
           "PreloadMeasuredStates", "PrintTableInfo", "ProgramBuilder", "ProgramMeasurer",
           "ProgramRunner", "PythonBasedMeasureCallback", "PythonBasedModel", "RPCRunner",
           "RandomModel", "RecordReader", "RecordToDatabase", "RecordToFile",
           "SearchCallback", "SearchPolicy", "SearchTask", "SketchPolicy", "State", "TaskScheduler",
           "TaskSchedulerCallback", "TuningOptions", "XGBModel", "auto_schedule", "create_task",
           "decode_workload_key",
           "distill_record_file", "dump_record_to_string", "extract_tasks",
           "is_auto_scheduler_enabled", "load_best_record", "load_into", "load_record_from_string",
           "load_records", "make_search_policies", "make_workload_key", "recover_measure_input",
           "register_workload", "register_workload_tensors", "save_records",
           "workload_key_to_tensors"]  # fmt: skip
