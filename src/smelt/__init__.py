"""smelt: a learning tensor compiler. Any model, any hardware, one `pip install`.

    exe = smelt.compile("model.onnx")
    y = exe(x)

Names are resolved when they are first used, so that `import smelt` and `import smelt.runtime` load
neither llvmlite nor onnx.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smelt import arith, byoc, display, ir, relax, runtime, target, te, tir, topi
    from smelt.choices import why
    from smelt.codegen.peak import machine_limits
    from smelt.display import show
    from smelt.frontend.convert import to_onnx
    from smelt.ir.errors import SmeltError
    from smelt.ir.module import IRModule
    from smelt.ir.options import Options
    from smelt.ir.sizes import Size
    from smelt.levels import compile_levels
    from smelt.pipeline import build, compile, compile_artifact, lower, optimize
    from smelt.quantization import quantize
    from smelt.runtime import NDArray, cpu, load
    from smelt.runtime.executable import Executable, Results
    from smelt.stages import stage_text
    from smelt.target import Target
    from smelt.topi.registry import op
    from smelt.tuning import tune
    from smelt.version import __version__

_HOMES = {
    "smelt.pipeline": "compile compile_artifact build lower optimize",
    "smelt.levels": "compile_levels",
    "smelt.runtime": "load Executable Results NDArray cpu cuda device",
    "smelt.choices": "default_schedule why",
    "smelt.frontend.convert": "to_onnx",
    "smelt.display": "show",
    "smelt.stages": "stage_text",
    "smelt.quantization": "quantize",
    "smelt.tuning": "tune",
    "smelt.version": "__version__",
    "smelt.codegen.peak": "machine_limits",
    "smelt.ir.options": "Options",
    "smelt.ir.sizes": "Size",
    "smelt.target": "Target",
    "smelt.topi.registry": "op",
    "smelt.runtime.packed": "register_func get_global_func",
    "smelt.ir.errors": "TVMError SmeltError",
    "smelt.nd": "gpu",
    "smelt.ir.module": "IRModule",
    "smelt.ir.memory_pools": "ConstantMemoryPools ConstantPoolInfo PoolInfoProperties "
                             "WorkspaceMemoryPools WorkspacePoolInfo",
}  # fmt: skip
"""smelt's own names by the modules that have them, loaded when first used."""

_NAMES = {name: home for home, names in _HOMES.items() for name in names.split()}

_ROOMS = ("runtime", "target", "ir", "arith", "tir", "te", "topi", "relax", "rules", "lowering",
          "codegen", "frontend", "model", "byoc", "pipeline", "quantization", "stages",
          "display", "relay", "autotvm", "contrib", "micro", "driver", "rpc", "exec",
          "transform", "instrument", "nd", "auto_scheduler", "meta_schedule", "script", "compat",
          "testing")  # fmt: skip

_OTHER_ROOMS = {
    "parser": "smelt.relay.parser",
    "error": "smelt.ir.errors",
    "_ffi": "smelt.runtime.packed",
}
"""Classic rooms whose names smelt keeps elsewhere."""

__all__ = ["Executable", "IRModule", "NDArray", "Options", "Results", "Size", "SmeltError",
           "Target", "__version__", "arith", "build", "byoc", "compile", "compile_artifact",
           "compile_levels", "cpu",
           "display", "ir", "load", "lower", "machine_limits", "op", "optimize", "quantize",
           "relax", "runtime", "show", "stage_text", "target", "te", "tir", "to_onnx", "topi",
           "tune", "why"]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    if name in _ROOMS:
        try:
            return importlib.import_module(f"smelt.{name}")
        except ModuleNotFoundError as e:
            if e.name != f"smelt.{name}":
                raise
    if name in _OTHER_ROOMS:
        return importlib.import_module(_OTHER_ROOMS[name])
    if not name.startswith("_"):
        absent = importlib.import_module("smelt.ir.absent")
        if absent.is_absent(name):
            absent.refuse_module(name)
    near = "" if name.startswith("_") else _nearest(name)
    raise AttributeError(f"module 'smelt' has no attribute {name!r}{near}")


def _nearest(name: str) -> str:
    errors = importlib.import_module("smelt.runtime.errors")
    return str(errors.nearest(name, [*_NAMES, *_ROOMS]))


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES, *_ROOMS})
