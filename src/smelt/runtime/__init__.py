"""Running compiled models: needs numpy and the native library, and nothing else of smelt."""

from __future__ import annotations

from smelt.runtime.bound import BoundCall
from smelt.runtime.device import Device, cpu, cuda, device
from smelt.runtime.errors import (
    ExportError,
    InputError,
    LoadError,
    MicroError,
    RuntimeFailure,
    SmeltError,
)
from smelt.runtime.executable import Executable, Results
from smelt.runtime.executor import AotModule
from smelt.runtime.external import register_runtime, registered_runtimes
from smelt.runtime.kernel_times import KernelTime
from smelt.runtime.module import load, load_module, read_metadata
from smelt.runtime.native import cpu_features, num_threads, set_num_threads
from smelt.runtime.native_executable import NativeExecutable
from smelt.runtime.ndarray import NDArray, array, empty, from_dlpack
from smelt.runtime.packed import convert, get_global_func, register_func
from smelt.runtime.params import (
    load_param_dict,
    load_param_dict_from_file,
    save_param_dict,
    save_param_dict_to_file,
)
from smelt.runtime.program import Module, TensorFunction
from smelt.runtime.report import BenchmarkResult, MemoryInfo, ProfileReport
from smelt.runtime.signature import TensorInfo
from smelt.runtime.support import enabled

__all__ = ["AotModule", "BenchmarkResult", "BoundCall", "Device", "Executable", "ExportError",
           "InputError", "KernelTime", "LoadError", "MemoryInfo", "MicroError", "Module", "NDArray",
           "NativeExecutable", "ProfileReport", "Results", "RuntimeFailure", "SmeltError",
           "TensorFunction", "TensorInfo", "array", "convert", "cpu", "cpu_features", "cuda",
           "device", "empty", "enabled", "from_dlpack", "get_global_func", "load", "load_module",
           "load_param_dict", "load_param_dict_from_file", "num_threads", "read_metadata",
           "register_func", "register_runtime", "registered_runtimes", "save_param_dict",
           "save_param_dict_to_file", "set_num_threads"]  # fmt: skip
