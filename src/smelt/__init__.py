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

_NAMES = {
    # the main job
    "compile": "smelt.pipeline",
    "compile_artifact": "smelt.pipeline",
    "compile_levels": "smelt.levels",
    "load": "smelt.runtime",
    "Executable": "smelt.runtime",
    "Results": "smelt.runtime",
    "build": "smelt.pipeline",
    "lower": "smelt.pipeline",
    "default_schedule": "smelt.choices",
    "optimize": "smelt.pipeline",
    "to_onnx": "smelt.frontend.convert",
    "show": "smelt.display",
    "stage_text": "smelt.stages",
    "why": "smelt.choices",
    "quantize": "smelt.quantization",
    "tune": "smelt.tuning",
    "__version__": "smelt.version",
    "machine_limits": "smelt.codegen.peak",
    "Options": "smelt.ir.options",
    "Size": "smelt.ir.sizes",
    "Target": "smelt.target",
    # the language
    "op": "smelt.topi.registry",
    # values and modules
    "NDArray": "smelt.runtime",
    "cpu": "smelt.runtime",
    "cuda": "smelt.runtime",
    "device": "smelt.runtime",
    "register_func": "smelt.runtime.packed",
    "get_global_func": "smelt.runtime.packed",
    "TVMError": "smelt.ir.errors",
    "gpu": "smelt.nd",
    "IRModule": "smelt.ir.module",
    "SmeltError": "smelt.ir.errors",
    **dict.fromkeys(("ConstantMemoryPools", "ConstantPoolInfo", "PoolInfoProperties",
                     "WorkspaceMemoryPools", "WorkspacePoolInfo"), "smelt.ir.memory_pools"),
}  # fmt: skip
_ROOMS = (
    "runtime",
    "target",
    "ir",
    "arith",
    "tir",
    "te",
    "topi",
    "relax",
    "rules",
    "lowering",
    "codegen",
    "frontend",
    "model",
    "byoc",
    "pipeline",
    "quantization",
    "stages",
    "display",
    "relay",
    "autotvm",
    "contrib",
    "micro",
    "driver",
    "rpc",
    "exec",
    "transform",
    "instrument",
    "nd",
    "auto_scheduler",
    "meta_schedule",
    "script",
    "compat",
    "testing",
)
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
