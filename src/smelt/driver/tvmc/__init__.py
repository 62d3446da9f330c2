"""tvmc: models compiled, run and tuned by the classic commands, and the same from Python.

model = tvmc.load("resnet18.onnx")
package = tvmc.compile(model, target="llvm -mcpu=native")
print(tvmc.run(package, inputs={"input": x}))

A thin face: every option stands for one thing in smelt, or is refused.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .autotuner import tune_model as tune
    from .compiler import compile_model as compile
    from .model import TVMCException, TVMCModel, TVMCPackage, TVMCResult
    from .model import load_model as load
    from .runner import run_module as run

__all__ = ["TVMCException", "TVMCModel", "TVMCPackage", "TVMCResult", "compile", "load", "run",
           "tune"]  # fmt: skip
_FROM = {"tune": ("autotuner", "tune_model"), "compile": ("compiler", "compile_model"),
         "load": ("model", "load_model"), "run": ("runner", "run_module")}  # fmt: skip


def __getattr__(name: str) -> Any:
    # Loaded when it is used first: a command that is ended before is quiet.
    if name not in __all__:
        raise AttributeError(f"module 'smelt.driver.tvmc' has no attribute {name!r}")
    module, real = _FROM.get(name, ("model", name))
    return getattr(importlib.import_module(f"smelt.driver.tvmc.{module}"), real)
