"""Models by Relax's front ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smelt import relax
from smelt.ir.errors import ImportFailure, Unsupported
from smelt.relax.frontend.onnx import from_onnx
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Tuple

onnx = pytest.importorskip("onnx")
W = np.random.default_rng(0).normal(size=(4, 5)).astype("float32")


def model() -> Any:
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", kind, ["n", 4])],
        [helper.make_tensor_value_info("y", kind, ["n", 5])],
        [onnx.numpy_helper.from_array(W, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_weights_are_constants_or_parameters() -> None:
    a = np.ones((3, 4), "float32")
    want = np.maximum(a @ W, 0)
    frozen = from_onnx(model(), {"x": (3, 4)})
    np.testing.assert_allclose(interpret(frozen["main"], a)[0], want, rtol=1e-5)
    open_ = from_onnx(model(), {"x": (3, 4)}, keep_params_in_input=True)
    assert open_["main"].attrs["num_input"] == 1
    mod, params = relax.frontend.detach_params(open_)
    assert "params" not in mod["main"].attrs
    assert [p.name for p in mod["main"].params] == ["x", "w"]
    ex = relax.build(mod, params=dict(zip(["w"], params["main"], strict=True)))
    np.testing.assert_allclose(relax.VirtualMachine(ex)["main"](a).numpy(), want, rtol=1e-5)


def test_what_the_file_does_not_say_is_refused() -> None:
    with pytest.raises(ImportFailure, match="opset=9 given, but the model is of opset 17"):
        from_onnx(model(), opset=9)
    with pytest.raises(ImportFailure, match="of input 'x': float16 given, float32 in the file"):
        from_onnx(model(), dtype_dict={"x": "float16"})


def test_torch_programs() -> None:
    torch = pytest.importorskip("torch")
    from_exported_program = relax.frontend.torch.from_exported_program
    net = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU())
    a = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
    want = net(torch.from_numpy(a)).detach().numpy()
    exported = torch.export.export(net, (torch.from_numpy(a),))
    whole = from_exported_program(exported)
    assert isinstance(whole["main"].body, Tuple)
    np.testing.assert_allclose(interpret(whole["main"], a)[0], want, rtol=1e-4, atol=1e-5)
    single = from_exported_program(exported, unwrap_unit_return_tuple=True)
    assert not isinstance(single["main"].body, Tuple)
    mod, params = relax.frontend.detach_params(
        from_exported_program(exported, keep_params_as_input=True)
    )
    arrays = [p.numpy() for p in params["main"]]
    np.testing.assert_allclose(interpret(mod["main"], a, *arrays)[0], want, rtol=1e-4, atol=1e-5)
    traced = torch.fx.symbolic_trace(net)
    by_fx = relax.frontend.torch.from_fx(traced, [((3, 4), "float32")])
    assert [p.name for p in by_fx["main"].params] == ["inp_0"]
    np.testing.assert_allclose(interpret(by_fx["main"], a)[0], want, rtol=1e-4, atol=1e-5)


def test_torch_refusals() -> None:
    with pytest.raises(ImportFailure, match="a int is given"):
        relax.frontend.torch.from_exported_program(3)
    with pytest.raises(Unsupported, match="there is no map"):
        relax.frontend.torch.from_fx(None, [], custom_convert_map={"f": print})
    with pytest.raises(Unsupported, match=r"no backend for torch\.compile yet"):
        relax.frontend.torch.relax_dynamo()
    with pytest.raises(AttributeError, match=r"it has: .*from_fx"):
        relax.frontend.torch.from_torch  # noqa: B018
