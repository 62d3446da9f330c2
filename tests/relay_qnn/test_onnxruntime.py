"""onnxruntime where its operators mean the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smelt import relay

from .support import Array, equal, names, numbers, q, run, scale, var, zero

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")


def result(op: str, inputs: dict[str, Array], **attrs: Any) -> Array:
    """One node's result; types by the arrays, of any shape."""
    h = onnx.helper
    kind = {n: h.np_dtype_to_tensor_dtype(a.dtype) for n, a in inputs.items()}
    graph = h.make_graph(
        [h.make_node(op, list(inputs), ["out"], **attrs)], "g",
        [h.make_tensor_value_info(n, kind[n], a.shape) for n, a in inputs.items()],
        [h.make_empty_tensor_value_info("out")],
    )  # fmt: skip
    return session(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)])).run(None, inputs)[0]  # type: ignore[no-any-return]


def session(model: Any) -> Any:
    model.ir_version = 8
    return runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def f32(*values: float) -> Array:
    return np.array(values if len(values) > 1 else values[0], "float32")


def test_quantize_and_dequantize_linear() -> None:
    """The same but for halves, of which random numbers have none."""
    a = np.random.default_rng(0).normal(0, 3, (4, 50)).astype("float32")
    b, steps, zeros = numbers(1, "uint8", 4, 50), (0.02, 0.1, 0.03, 1.5), (3, 100, 0, 255)
    x, y = var("x", a), var("y", b)
    got = run(
        relay.Tuple(
            [
                q.quantize(x, scale(0.013), zero(-5)),
                q.quantize(x, scale(*steps), zero(*zeros), axis=0, out_dtype="uint8"),
                q.dequantize(y, scale(*steps), zero(*zeros), axis=0),
            ]
        ),
        {x: a, y: b},
    )
    s, z = f32(*steps), np.array(zeros, "uint8")
    minus = np.array(-5, "int8")
    equal(got[0], result("QuantizeLinear", {"x": a, "s": f32(0.013), "z": minus}))
    equal(got[1], result("QuantizeLinear", {"x": a, "s": s, "z": z}, axis=0))
    equal(got[2], result("DequantizeLinear", {"x": b, "s": s, "z": z}, axis=0))


def test_integer_products_are_equal() -> None:
    a, w = numbers(0, "uint8", 1, 4, 8, 8), numbers(1, "uint8", 6, 4, 3, 3)
    m, n = numbers(2, "uint8", 5, 7), numbers(3, "int8", 7, 4)
    x, y = var("x", a), var("y", m)
    ones = (scale(1.0), scale(1.0))
    conv = q.conv2d(x, relay.const(w), zero(9), zero(77), *ones, (3, 3), 6, strides=(2, 1),
                    padding=(1, 1))  # fmt: skip
    dense = q.dense(y, relay.const(np.ascontiguousarray(n.T)), zero(3), zero(-2), *ones, units=4)
    got = run(relay.Tuple([conv, dense]), {x: a, y: m})
    nine, other = np.array(9, "uint8"), np.array(77, "uint8")
    equal(got[0], result("ConvInteger", {"x": a, "w": w, "a": nine, "b": other}, strides=[2, 1],
                         pads=[1, 1, 1, 1]))  # fmt: skip
    three, two = np.array(3, "uint8"), np.array(-2, "int8")
    equal(got[1], result("MatMulInteger", {"x": m, "w": n, "a": three, "b": two}))


def test_qlinear_conv_and_matmul_round_floats() -> None:
    """onnxruntime multiplies by a float and rounds halves to even: one step apart at most."""
    # two products fit into 16 bits, in which onnxruntime adds them where the CPU has no VNNI
    a, w = numbers(0, "uint8", 1, 4, 8, 8), numbers(1, "int8", 6, 4, 3, 3) >> 1
    per = tuple(np.linspace(0.002, 0.004, 6).tolist())
    x = var("x", a)
    sums = q.conv2d(x, relay.const(w), zero(100), zero(0), scale(0.02), scale(*per), (3, 3), 6)
    both = relay.const(f32(0.02) * f32(*per))
    y = q.requantize(sums, both, zero(0), scale(0.1), zero(120), axis=1, out_dtype="uint8")
    inputs = {"x": a, "xs": f32(0.02), "xz": np.array(100, "uint8"), "w": w, "ws": f32(*per),
              "wz": np.zeros(6, "int8"), "ys": f32(0.1), "yz": np.array(120, "uint8")}  # fmt: skip
    apart = np.abs(run(y, {x: a})[0].astype(int) - result("QLinearConv", inputs).astype(int))
    assert apart.max() <= 1
    assert (apart == 0).mean() > 0.99


def qdq_model(dtype: str) -> Any:
    """quantize, conv with scales by channel and an int32 bias, relu, quantize."""
    h, rng = onnx.helper, np.random.default_rng(0)
    per = rng.uniform(0.002, 0.004, 4).astype("float32")
    arrays = {
        "s0": f32(0.02), "z0": np.array(10, dtype), "s1": f32(0.05), "z1": np.array(20, dtype),
        "w": numbers(1, "int8", 4, 3, 3, 3), "ws": per, "wz": np.zeros(4, "int8"),
        "b": numbers(2, "int32", 4, low=-1000, high=1000), "bs": per * f32(0.02),
    }  # fmt: skip
    nodes = [
        h.make_node("QuantizeLinear", ["x", "s0", "z0"], ["xq"]),
        h.make_node("DequantizeLinear", ["xq", "s0", "z0"], ["xd"]),
        h.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0),
        h.make_node("DequantizeLinear", ["b", "bs"], ["bd"], axis=0),
        h.make_node("Conv", ["xd", "wd", "bd"], ["c"], pads=[1, 1, 1, 1]),
        h.make_node("Relu", ["c"], ["r"]),
        h.make_node("QuantizeLinear", ["r", "s1", "z1"], ["yq"]),
        h.make_node("DequantizeLinear", ["yq", "s1", "z1"], ["y"]),
    ]
    info = h.make_tensor_value_info
    graph = h.make_graph(
        nodes, "g", [info("x", onnx.TensorProto.FLOAT, [1, 3, 8, 8])],
        [info("y", onnx.TensorProto.FLOAT, [1, 4, 8, 8])],
        [onnx.numpy_helper.from_array(a, n) for n, a in arrays.items()],
    )  # fmt: skip
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)])


@pytest.mark.parametrize(("dtype", "freeze"), [("uint8", True), ("int8", False)])
def test_a_model_with_quantization_nodes_becomes_integer(dtype: str, freeze: bool) -> None:
    model = qdq_model(dtype)
    a = np.random.default_rng(5).normal(size=(1, 3, 8, 8)).astype("float32")
    want = session(model).run(None, {"x": a})[0]
    mod, params = relay.frontend.from_onnx(model, freeze_params=freeze)
    assert not params
    assert names(mod) == {"qnn.quantize", "qnn.dequantize", "nn.conv2d", "nn.bias_add", "nn.relu"}
    made = relay.transform.FakeQuantizationToInteger(hard_fail=True)(mod)
    assert "qnn.conv2d" in names(made)
    assert "nn.conv2d" not in names(made)
    x = made["main"].params[0]
    got = run(made["main"].body, {x: a})[0]
    apart = np.abs(got - want) / 0.05
    assert apart.max() < 1.01
    assert (apart < 0.01).mean() > 0.99
