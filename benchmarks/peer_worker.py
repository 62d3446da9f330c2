"""Times one runtime, as another process asks over pipes: `python -m benchmarks.peer_worker NAME`.

Runs in the environment of that runtime, where numpy is, and little else. A question is either
{"load": {"model", "inputs", "threads", ...}}, answered by what loading told, or {"seconds": s},
answered by the milliseconds of single calls.
"""

import importlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.processes import give_back, questions
from smelt.cli.timing import interleave

Arrays = Mapping[str, Any]
Loaded = tuple[Callable[[], Any], Callable[[], list[Any]]]
"""What runs the model, and what its results are."""


def smelt(model: str, feeds: Arrays, threads: int, sizes: Mapping[str, Any]) -> Loaded:
    """A bound call; `sizes` names the symbolic sizes among the extents: see `Size`, and maybe a
    database of tuned schedules."""
    package = importlib.import_module("smelt")
    made = {name: package.Size(name, **rest) for name, rest in sizes.get("sizes", {}).items()}
    shapes = {
        name: [made.get(extent, extent) for extent in shape]
        for name, shape in sizes.get("shapes", {}).items()
    }
    options = package.Options(threads=threads, database=sizes.get("database"))
    exe = package.compile(model, shapes=shapes or None, options=options)
    call = exe.bind([feeds[tensor.name] for tensor in exe.inputs])

    def results() -> list[Any]:
        call()
        return [one.numpy() for one in call.outputs]

    return call, results


def onnxruntime(model: str, feeds: Arrays, threads: int, _: Any) -> Loaded:
    """A session on the CPU."""
    package = importlib.import_module("onnxruntime")
    options = package.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = package.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    used = {tensor.name: feeds[tensor.name] for tensor in session.get_inputs()}
    return lambda: session.run(None, used), lambda: session.run(None, used)


def openvino(model: str, feeds: Arrays, threads: int, _: Any) -> Loaded:
    """A request for one call at a time, in float32: by itself it may take bfloat16."""
    package = importlib.import_module("openvino")
    core = package.Core()
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": "1",
        "INFERENCE_NUM_THREADS": str(threads),
        "INFERENCE_PRECISION_HINT": "f32",
        "ENABLE_CPU_PINNING": "NO",
    }
    compiled = core.compile_model(core.read_model(model), "CPU", settings)
    request = compiled.create_infer_request()
    for tensor in compiled.inputs:
        name = tensor.get_any_name()
        request.set_tensor(name, package.Tensor(feeds[name]))
    count = len(compiled.outputs)

    def results() -> list[Any]:
        request.infer()
        return [np.array(request.get_output_tensor(n).data) for n in range(count)]

    return request.infer, results


def litert(model: str, feeds: Arrays, threads: int, _: Any) -> Loaded:
    """The interpreter on the converted model; XNNPACK runs what it can."""
    package = importlib.import_module("ai_edge_litert.interpreter")
    interpreter = package.Interpreter(model, num_threads=threads)
    interpreter.allocate_tensors()
    for tensor in interpreter.get_input_details():
        # The converter calls input x serving_default_x:0, and narrows integers.
        name = tensor["name"].removeprefix("serving_default_").partition(":")[0]
        interpreter.set_tensor(tensor["index"], feeds[name].astype(tensor["dtype"]))
    outputs = sorted(interpreter.get_output_details(), key=lambda tensor: tensor["name"])

    def results() -> list[Any]:
        interpreter.invoke()
        return [interpreter.get_tensor(tensor["index"]) for tensor in outputs]

    return interpreter.invoke, results


def tvm(_: str, feeds: Arrays, threads: int, sizes: Mapping[str, Any]) -> Loaded:
    """The library that `benchmarks.tvm_tuner` has made of the model."""
    os.environ["TVM_NUM_THREADS"] = str(threads)
    package, relax = importlib.import_module("tvm"), importlib.import_module("tvm.relax")
    library = package.runtime.load_module(sizes["library"])
    machine = relax.VirtualMachine(library, package.cpu())
    machine.set_input("main", *[package.runtime.tensor(value) for value in feeds.values()])

    def results() -> list[Any]:
        machine.invoke_stateful("main")
        found = machine.get_outputs("main")
        return [one.numpy() for one in ([found] if hasattr(found, "numpy") else found)]

    return lambda: machine.invoke_stateful("main"), results


RUNTIMES = {
    "smelt": smelt, "onnxruntime": onnxruntime, "openvino": openvino, "litert": litert, "tvm": tvm,
}  # fmt: skip


def convert(model: str, inputs: str, result: str) -> None:
    """Write an ONNX model as TFLite. Inputs keep ONNX's order, results have channels last."""
    package = importlib.import_module("onnx2tf")
    with np.load(inputs) as content:
        names = [name for name, value in content.items() if value.ndim > 2]
    folder = Path(result).with_suffix("")
    package.convert(
        input_onnx_file_path=model,
        output_folder_path=str(folder),
        keep_ncw_or_nchw_or_ncdhw_input_names=names,
        copy_onnx_input_output_names_to_tflite=True,
        replace_to_pseudo_operators=["erf"],  # TFLite's interpreter has none
        non_verbose=True,
    )
    (folder / f"{Path(model).stem}_float32.tflite").rename(result)
    shutil.rmtree(folder)  # the same again in other forms


def answer(runtime: str) -> None:
    """Answer until nobody asks any more; what fails is the answer, too."""
    call: Callable[[], Any] | None = None
    for question in questions():
        try:
            if "load" in question:
                told, call = load(runtime, **question["load"])
                give_back(told)
            elif "convert" in question:
                convert(**question["convert"])
                give_back({})
            else:
                assert call is not None
                give_back(interleave([call], question["seconds"], rounds=1)[0])
        except Exception as error:  # each runtime raises classes of its own
            lines = str(error).strip().splitlines()
            give_back({"error": f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]})


def load(
    runtime: str, model: str, inputs: str, threads: int, results: str, **sizes: Any
) -> tuple[dict[str, float], Callable[[], Any]]:
    """Load a model, and write what it gives for the inputs; how long loading took, and the call.

    inputs, results  .npz files: the arrays by name, and the results in the model's order
    """
    with np.load(inputs) as content:
        feeds = dict(content)
    start = time.perf_counter()
    call, outputs = RUNTIMES[runtime](model, feeds, threads, sizes)
    told = {"load_s": time.perf_counter() - start}
    np.savez(results, *outputs(), allow_pickle=False)
    return told, call


if __name__ == "__main__":
    answer(sys.argv[1])
