"""`autotvm.task`: tasks, templates, configs, and what gives them out."""

from . import dispatcher, space
from .contexts import DispatchContext, FallbackContext, clear_fallback_cache
from .dispatcher import ApplyConfig, ApplyFixedConfig, ApplyGraphBest, ApplyHistoryBest
from .kernels import extract_from_multiple_program, extract_from_program
from .space import ConfigEntity, ConfigSpace, FallbackConfigEntity
from .templates import (
    FlopCalculationError,
    MissingTask,
    Task,
    TaskTemplate,
    args_to_workload,
    attach_code_hash,
    compute_flop,
    create,
    deserialize_args,
    get_config,
    serialize_args,
    template,
)

__all__ = ["ApplyConfig", "ApplyFixedConfig", "ApplyGraphBest", "ApplyHistoryBest", "ConfigEntity",
           "ConfigSpace", "DispatchContext", "FallbackConfigEntity", "FallbackContext",
           "FlopCalculationError", "MissingTask", "Task", "TaskTemplate", "args_to_workload",
           "attach_code_hash", "clear_fallback_cache", "compute_flop", "create", "deserialize_args",
           "dispatcher", "extract_from_multiple_program", "extract_from_program", "get_config",
           "serialize_args", "space", "template"]  # fmt: skip
