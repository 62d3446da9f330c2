"""Modules at their classic places, also at their older ones."""

import importlib

import pytest
import tvm

PLACES = [
    ("tvm.contrib.graph_runtime", "create"),
    ("tvm.contrib.debugger.debug_executor", "GraphModuleDebug"),
    ("tvm.contrib.debugger.debug_runtime", "GraphModuleDebug"),
    ("tvm.contrib.utils", "tempdir"),
    ("tvm.error", "TVMError"),
    ("tvm.parser", "fromtext"),
    ("tvm.relay.backend.executor_factory", "GraphExecutorFactoryModule"),
    ("tvm.relay.backend.interpreter", "Executor"),
    ("tvm.relay.backend.vm", "compile"),
    ("tvm.relay.build_module", "bind_params_by_name"),
    ("tvm.relay.frontend.onnx", "from_onnx"),
    ("tvm.relay.frontend.pytorch", "from_pytorch"),
    ("tvm.relay.function", "Function"),
    ("tvm.relay.param_dict", "save_param_dict"),
    ("tvm.runtime.ndarray", "array"),
    ("tvm.testing", "assert_allclose"),
]


@pytest.mark.parametrize(("place", "name"), PLACES, ids=[p for p, _ in PLACES])
def test_a_place(place, name):
    assert getattr(importlib.import_module(place), name)


def test_what_is_nowhere():
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'tvm\.nowhere'"):
        importlib.import_module("tvm.nowhere")
    assert not hasattr(tvm, "nowhere")


def test_names_of_the_package():
    assert tvm.__version__
    assert tvm.runtime.enabled("llvm")
    assert not tvm.runtime.enabled("cuda")
    assert "raspberry-pi/4b-aarch64" in tvm.target.list_tags()
    assert issubclass(tvm.TVMError, Exception)
    assert type(tvm.IRModule()).__name__ == "IRModule"
