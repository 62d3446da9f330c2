"""The document on edge devices: microcontrollers, memory planned before the run."""

import ctypes
import importlib
import importlib.util
import re
import shutil

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.micro import export_model_library_format
from tvm.micro.build import get_microtvm_template_projects
from tvm.micro.model_library_format import UnsupportedInModelLibraryFormatError
from tvm.micro.project_api.client import ProjectAPIClient

from smelt.ir.errors import CompileError
from smelt.micro.project_api.server import ServerError
from tests.micro.test_c import TINY, compiled

M4 = "c -keys=arm_cpu -mcpu=cortex-m4 -march=armv7e-m -mfloat-abi=hard -mfpu=fpv4-sp-d16 " \
     "-runtime=c -system-lib"  # fmt: skip


def keywords():
    """A model as large as one that spots keywords, its parameters, and what it computes."""
    data = relay.var("data", shape=(1, 1, 49, 10), dtype="float32")
    weights = {"w1": (16, 1, 3, 3), "w2": (12, 16)}
    conv = relay.nn.conv2d(data, relay.var("w1", shape=weights["w1"]), padding=(1, 1),
                           channels=16, kernel_size=(3, 3))  # fmt: skip
    pool = relay.nn.global_avg_pool2d(conv)
    flat = relay.nn.batch_flatten(pool)
    dense = relay.nn.dense(flat, relay.var("w2", shape=weights["w2"]))
    mod = tvm.IRModule.from_expr(relay.nn.softmax(dense))
    rng = np.random.default_rng(0)
    params = {n: rng.standard_normal(s).astype("float32") for n, s in weights.items()}
    return mod, params


def test_aot(tmp_path):
    """Both interfaces compute what the model does."""
    mod, params = keywords()
    with tvm.transform.PassContext(opt_level=3):
        executor = relay.backend.Executor("aot", {
            "unpacked-api": True,
            "interface-api": "packed",
        })  # fmt: skip
        runtime = relay.backend.Runtime("crt")
        lib = relay.build(mod, target=tvm.target.Target(M4), params=params, executor=executor,
                          runtime=runtime)  # fmt: skip
    x = np.random.default_rng(1).random((1, 1, 49, 10), np.float32)
    here = relay.build(mod, "llvm", params=params)
    module = tvm.contrib.graph_executor.GraphModule(here["default"](tvm.cpu(0)))
    module.run(data=x)
    y = np.zeros((1, 12), np.float32)
    library = ctypes.CDLL(str(compiled(lib.code, tmp_path)))
    space = np.zeros(lib.code.workspace_bytes // 8 + 1, np.int64)
    table = (ctypes.c_void_p * 2)(x.ctypes.data, y.ctypes.data)
    for entry, given in (("tvmgen_default_run_packed", [table]),
                         ("tvmgen_default_run", [(ctypes.c_void_p * 1)(table[0]),
                                                 (ctypes.c_void_p * 1)(table[1])])):  # fmt: skip
        y[:] = 0
        assert library[entry](*given, ctypes.c_void_p(space.ctypes.data)) == 0
        np.testing.assert_allclose(y, module.get_output(0).numpy(), rtol=1e-5, atol=1e-6)
    assert "struct tvmgen_default_inputs" in lib.get_source("h")
    assert "malloc" not in lib.get_source()


@pytest.mark.parametrize("algorithm", ["hill_climb", "greedy_by_size", "greedy_by_conflicts",
                                       "linear_scan"])  # fmt: skip
@pytest.mark.parametrize("target", [M4, "llvm"])
def test_memory_planning(algorithm, target):
    mod, params = keywords()
    crt = relay.backend.Runtime("crt" if target == M4 else "cpp")
    with tvm.transform.PassContext(opt_level=3, config={
        "tir.usmp.enable": True,
        "tir.usmp.algorithm": algorithm,
        "tir.disable_vectorize": True,
    }):  # fmt: skip
        lib = relay.build(mod, target=target, params=params,
                          executor=relay.backend.Executor("aot"), runtime=crt)  # fmt: skip
    if target == M4:
        assert 0 < lib.code.workspace_bytes < 40_000


def test_aot_and_graph():
    mod, _ = keywords()
    target = tvm.target.Target("c -keys=arm_cpu -mcpu=cortex-m4")
    with tvm.transform.PassContext(opt_level=3):
        lib_graph = relay.build(mod, target=target)
    with tvm.transform.PassContext(opt_level=3):
        executor = relay.backend.Executor("aot", {"unpacked-api": True, "interface-api": "c"})
        runtime = relay.backend.Runtime("crt")
        lib_aot = relay.build(mod, target=target, executor=executor, runtime=runtime)
    assert "run_packed" in lib_graph.get_source()
    assert "run_packed" not in lib_aot.get_source()
    assert re.search(r"const float \*w1;", lib_aot.get_source("h"))


def test_what_is_refused(tmp_path):
    mod, params = keywords()
    with pytest.raises(CompileError, match=r"Runtime\('crt'\) runs C, and the target makes llvm"):
        relay.build(mod, "llvm", params=params, runtime=relay.backend.Runtime("crt"),
                    executor=relay.backend.Executor("aot", {"unpacked-api": True}))  # fmt: skip
    lib = relay.build(mod, "c", params=params)
    with pytest.raises(CompileError, match=r'C source cannot run here; lib\.save\("model\.c"\)'):
        lib["default"]
    with pytest.raises(CompileError, match=r"export_library\('m.so'\): the target is C"):
        lib.export_library("m.so")
    lib.save(tmp_path / "model.c")
    assert (tmp_path / "model.h").exists()
    planned = tvm.transform.PassContext(config={"tir.usmp.enable": True})
    with planned, pytest.raises(CompileError, match="belongs to programs compiled ahead"):
        relay.build(mod, "c", params=params)


def test_a_project_for_arduino(tmp_path, monkeypatch):
    """Up to the board, which only arduino-cli can reach: one error that names it."""
    path = TINY / "kws_int8.tflite"
    if not path.exists():
        pytest.skip(f"no trained models in {TINY} (SMELT_MODELS)")
    if not (shutil.which("arm-none-eabi-gcc") or importlib.util.find_spec("ziglang")):
        pytest.skip("arm-none-eabi-gcc and ziglang are missing: make setup-edge")
    monkeypatch.chdir(tmp_path)
    tflite_model = path.read_bytes()
    mod, params = relay.frontend.from_tflite(tflite_model)
    target = tvm.target.Target("c -keys=arm_cpu -mcpu=cortex-m4")
    with tvm.transform.PassContext(opt_level=3):
        executor = relay.backend.Executor("aot", {"unpacked-api": True})
        runtime = relay.backend.Runtime("crt")
        lib = relay.build(mod, target=target, params=params,
                          executor=executor, runtime=runtime)  # fmt: skip
    export_model_library_format(lib, "keyword_spotting.tar")
    assert callable(ProjectAPIClient.build)
    project = tvm.micro.generate_project(
        template_dir="arduino",
        module=lib,
        generated_project_dir="./arduino_project",
        options={"board": "nano33ble", "project_type": "example_project"},
    )
    project.build()
    with pytest.raises(ServerError, match=r"nano33ble: arduino-cli is missing\n.*arduino-cli"):
        project.flash()
    assert (tmp_path / "arduino_project" / "arduino_project.ino").exists()
    assert (tmp_path / "arduino_project" / "build" / "net.o").exists()


def test_names_of_micro():
    """Where classic programs look for them."""
    assert tvm.micro.project.generate_project is tvm.micro.generate_project
    assert get_microtvm_template_projects("zephyr").endswith("zephyr")
    assert issubclass(UnsupportedInModelLibraryFormatError, tvm.TVMError)
    assert tvm.micro.Session is tvm.micro.session.Session
    assert issubclass(tvm.micro.ProjectTransport, tvm.micro.transport.Transport)
    with pytest.raises(ImportError, match=r"smelt\.micro\.debugger is not there yet: a project's"):
        importlib.import_module("tvm.micro.debugger")
