"""The classic program, with nothing but its import line changed, against onnxruntime."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt as tvm
from smelt import relay
from smelt.contrib import graph_executor

from .support import Array, close


def test_the_program_runs(model: Any, image: Array, expected: Array, tmp_path: Path) -> None:
    mod, params = relay.frontend.from_onnx(model, {"input": (1, 3, 32, 32)})
    assert isinstance(mod, tvm.IRModule)
    assert type(mod).__name__ == "IRModule"
    assert "nn.conv2d(%input" in str(mod["main"])

    target = tvm.target.Target("llvm -mcpu=native")
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target=target, params=params)
    executor = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    executor.set_input("input", tvm.nd.array(image))
    executor.run()
    close(executor.get_output(0).numpy(), expected)

    lib.export_library(str(tmp_path / "resnet18.so"))
    loaded = tvm.runtime.load_module(str(tmp_path / "resnet18.so"))
    executor = graph_executor.GraphModule(loaded["default"](tvm.cpu(0)))
    executor.set_input("input", tvm.nd.array(image))
    executor.run()
    close(executor.get_output(0).numpy(), expected)


def test_operators_are_counted(mod: relay.IRModule) -> None:
    ops: dict[str, int] = {}

    def visit(node: Any) -> None:
        if isinstance(node, tvm.relay.Call):
            ops[str(node.op)] = ops.get(str(node.op), 0) + 1

    tvm.relay.analysis.post_order_visit(mod["main"], visit)
    assert ops == {
        "nn.conv2d": 20,
        "nn.batch_norm": 20,
        "nn.relu": 17,
        "nn.max_pool2d": 1,
        "add": 8,
        "nn.global_avg_pool2d": 1,
        "nn.batch_flatten": 1,
        "nn.dense": 1,
        "nn.bias_add": 1,
    }
    assert relay.analysis.count_ops(mod["main"]) == ops


def test_fusion_can_be_seen_and_built(mod: relay.IRModule, image: Array, expected: Array) -> None:
    with tvm.transform.PassContext(opt_level=3):
        fused = relay.transform.InferType()(mod)
        fused = relay.transform.FuseOps(fuse_opt_level=2)(fused)
    text = str(fused["main"])
    assert "Primitive=1" in text
    assert text.count("Primitive=1") == 59  # batch_norm stands alone before SimplifyInference
    executor = graph_executor.GraphModule(relay.build(fused)["default"](tvm.cpu(0)))
    executor.run(input=image)
    close(executor.get_output(0), expected)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_every_level_is_right(
    level: int, mod: relay.IRModule, image: Array, expected: Array
) -> None:
    with tvm.transform.PassContext(opt_level=level):
        lib = relay.build(mod, target="llvm -mcpu=native")
    executor = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    executor.run(input=image)
    close(executor.get_output(0), expected)


@pytest.mark.parametrize("name", ["FoldConstant", "SimplifyInference", "FoldScaleAxis", "FuseOps"])
def test_a_disabled_pass_changes_no_result(
    name: str, mod: relay.IRModule, image: Array, expected: Array
) -> None:
    with tvm.transform.PassContext(opt_level=3, disabled_pass=[name]):
        lib = relay.build(mod)
    executor = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    executor.run(input=image)
    close(executor.get_output(0), expected)
    if name == "SimplifyInference":
        ops = {op for k in lib.lib.metadata["kernels"] for op in k["ops"]}
        assert "batch_norm" in ops


def test_weights_can_stay_parameters(model: Any, image: Array, expected: Array) -> None:
    mod, params = relay.frontend.from_onnx(model, {"input": (1, 3, 32, 32)}, freeze_params=False)
    assert len(params) == 102
    assert [p.name for p in mod["main"].params][:2] == ["input", "stem.weight"]
    bound = graph_executor.GraphModule(relay.build(mod, params=params)["default"](tvm.cpu(0)))
    bound.run(input=image)
    close(bound.get_output(0), expected)
    assert bound.get_num_inputs() == 1

    free = graph_executor.GraphModule(relay.build(mod)["default"](tvm.cpu(0)))
    free.load_params(relay.save_param_dict(params))
    free.run(input=image)
    close(free.get_output(0), expected)
    assert free.get_num_inputs() == 103


def test_the_installation_can_be_asked() -> None:
    assert tvm.__version__
    assert tvm.runtime.enabled("llvm")
    assert not tvm.runtime.enabled("cuda")
    assert not tvm.runtime.enabled("")
    assert {"llvm", "c", "cuda"} <= set(tvm.target.Target.list_kinds())
    assert np.array_equal(tvm.nd.array(np.arange(3), tvm.cpu(0)).numpy(), np.arange(3))
