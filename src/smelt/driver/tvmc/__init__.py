"""tvmc: models compiled, run and tuned by the classic commands, and the same from Python.

model = tvmc.load("resnet18.onnx")
package = tvmc.compile(model, target="llvm -mcpu=native")
print(tvmc.run(package, inputs={"input": x}))

A thin face: every option stands for one thing in smelt, or is refused.
"""

from .autotuner import tune_model as tune
from .compiler import compile_model as compile
from .model import TVMCException, TVMCModel, TVMCPackage, TVMCResult
from .model import load_model as load
from .runner import run_module as run

__all__ = ["TVMCException", "TVMCModel", "TVMCPackage", "TVMCResult", "compile", "load", "run",
           "tune"]  # fmt: skip
