"""Running compiled models: needs numpy and the native library, and nothing else of smelt."""

from __future__ import annotations

from smelt.runtime.device import Device, cpu
from smelt.runtime.errors import ExportError, InputError, LoadError, RuntimeFailure, SmeltError
from smelt.runtime.executable import BoundCall, Executable
from smelt.runtime.executor import AotModule
from smelt.runtime.external import register_runtime, registered_runtimes
from smelt.runtime.module import load_module, read_metadata
from smelt.runtime.native import cpu_features, num_threads, set_num_threads
from smelt.runtime.ndarray import NDArray, array, empty
from smelt.runtime.program import Module, TensorFunction
from smelt.runtime.report import BenchmarkResult, KernelTime, MemoryInfo, ProfileReport
from smelt.runtime.signature import TensorInfo
from smelt.runtime.support import enabled

__all__ = [
    "AotModule",
    "BenchmarkResult",
    "BoundCall",
    "Device",
    "Executable",
    "ExportError",
    "InputError",
    "KernelTime",
    "LoadError",
    "MemoryInfo",
    "Module",
    "NDArray",
    "ProfileReport",
    "RuntimeFailure",
    "SmeltError",
    "TensorFunction",
    "TensorInfo",
    "array",
    "cpu",
    "cpu_features",
    "empty",
    "enabled",
    "load_module",
    "num_threads",
    "read_metadata",
    "register_runtime",
    "registered_runtimes",
    "set_num_threads",
]
