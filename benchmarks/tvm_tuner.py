"""Tunes an ONNX model by MetaSchedule of apache-tvm, in an environment that has it:

`python -m benchmarks.tvm_tuner MODEL FOLDER TRIALS CORES CPU`

The records are kept in the folder; with 0 trials what they know is compiled to FOLDER/model.so.
"""

import importlib
import sys
from pathlib import Path


def main(model: str, folder: str, trials: int, cores: int, cpu: str) -> None:
    """Tune, or compile what was found."""
    tvm, onnx = importlib.import_module("tvm"), importlib.import_module("onnx")
    frontend = importlib.import_module("tvm.relax.frontend.onnx")
    relax = importlib.import_module("tvm.relax")
    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": cores})
    mod = frontend.from_onnx(onnx.load(model), keep_params_in_input=False)
    mod = relax.pipeline.static_shape_tuning_pipeline(
        total_trials=trials, target=target, work_dir=folder, cpu_weight_prepack=True
    )(mod)
    if not trials:
        tvm.compile(mod, target).export_library(str(Path(folder) / "model.so"))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
