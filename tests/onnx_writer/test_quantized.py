"""Quantized models keep their structure: the same nodes around the same operators."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from smelt.frontend.onnx import from_onnx
from smelt.frontend.onnx.write import to_onnx
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax.compose.common import scalar
from smelt.relax.nodes import Function, Var, call
from smelt.relax.transform.canonicalize import simplify_graph
from tests.frontend.models import model, node

from .test_networks import ZOO
from .written import Array, agree, checked, evaluator, operators, runtime

RANDOM = np.random.default_rng(0)
KEPT = ("QuantizeLinear", "DequantizeLinear", "Conv", "Add", "Gemm", "MatMul", "MaxPool")


def floats(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mobilenet_v2_int8", "resnet18_int8", "resnet18_7bits_int8"])
def test_a_quantized_network_keeps_its_nodes(name: str) -> None:
    path = ZOO / f"{name}.onnx"
    if not path.exists():
        pytest.skip(f"no models in {ZOO}")
    given = onnx.load(path)
    made = checked(from_onnx(given))
    for op in KEPT:
        assert operators(made).count(op) == operators(given).count(op), op
    feeds = {given.graph.input[0].name: floats(1, 3, 224, 224)}
    theirs = runtime(given, optimised=False)(feeds)
    agree(runtime(made, optimised=False)(feeds), theirs, 0.0)


def quantized_conv() -> onnx.ModelProto:
    """x and w quantized, w for each of its channels; the bias in int32; the result quantized."""
    w = RANDOM.integers(-127, 127, (5, 3, 3, 3)).astype(np.int8)
    scales = np.abs(floats(5)) * np.float32(0.01) + np.float32(0.001)
    constants: dict[str, Any] = {
        "sx": np.float32(0.03), "zx": np.uint8(120), "w": w, "sw": scales,
        "zw": np.zeros(5, np.int8), "b": RANDOM.integers(-500, 500, 5).astype(np.int32),
        "sb": scales * np.float32(0.03), "sy": np.float32(0.06), "zy": np.uint8(131),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", ["x", "sx", "zx"], ["xq"]),
        node("DequantizeLinear", ["xq", "sx", "zx"], ["xd"]),
        node("DequantizeLinear", ["w", "sw", "zw"], ["wd"], axis=0),
        node("DequantizeLinear", ["b", "sb"], ["bd"], axis=0),
        node("Conv", ["xd", "wd", "bd"], ["c"], pads=[1, 1, 1, 1]),
        node("QuantizeLinear", ["c", "sy", "zy"], ["cq"]),
        node("DequantizeLinear", ["cq", "sy", "zy"], ["y"]),
    ]
    return model(nodes, {"x": ((2, 3, 8, 8), np.float32)}, constants=constants, opset=21)


def test_a_convolution_keeps_its_nodes_and_names() -> None:
    given = quantized_conv()
    made = checked(from_onnx(given))
    kept = [(n.name, n.op_type, list(n.input)) for n in given.graph.node]
    there = [(n.name, n.op_type) for n in made.graph.node]
    assert sorted(there) == sorted([(name, op) for name, op, _ in kept])
    assert {t.name: t.data_type for t in made.graph.initializer if t.name in "wb"} == {
        "w": onnx.TensorProto.INT8, "b": onnx.TensorProto.INT32
    }  # fmt: skip
    feeds = {"x": floats(2, 3, 8, 8)}
    agree(runtime(made, False)(feeds), runtime(given_types(given), False)(feeds), 0.0)


def given_types(m: onnx.ModelProto) -> onnx.ModelProto:
    return onnx.shape_inference.infer_shapes(m)


@pytest.mark.parametrize("kind", ["int4", "uint4", "int8"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("zero", [True, False])
def test_weights_in_blocks_stay_so(kind: str, axis: int, zero: bool) -> None:
    dtype: Any = getattr(ml_dtypes, kind) if kind.endswith("4") else np.int8
    w = RANDOM.integers(0, 7, (32, 64)).astype(dtype)
    shape = (2, 64) if axis == 0 else (32, 4)
    constants = {"w": w, "s": np.abs(floats(*shape)) + np.float32(0.01)}
    if zero:
        constants["z"] = RANDOM.integers(0, 7, shape).astype(dtype)
    nodes = [
        node("DequantizeLinear", ["w", "s", "z"][: 2 + zero], ["d"], axis=axis, block_size=16),
        node("MatMul", ["x", "d"]),
    ]
    given = model(nodes, {"x": ((3, 32), np.float32)}, constants=constants, opset=21)
    made = checked(from_onnx(given))
    assert operators(made) == ["DequantizeLinear", "MatMul"]
    attrs = {a.name: a.i for a in made.graph.node[0].attribute}
    assert attrs == {"axis": axis, "block_size": 16}
    assert [t.data_type for t in made.graph.initializer if list(t.dims) == [32, 64]] == [
        onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    ]
    feeds = {"x": floats(3, 32)}
    agree(runtime(made)(feeds), runtime(given_types(given))(feeds))


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zero", ["", "integers", "floats"])
@pytest.mark.parametrize("level", [1, 4])
def test_products_in_blocks_are_one_node(bits: int, zero: str, level: int) -> None:
    if bits == 8 and zero == "floats":
        pytest.skip("onnxruntime has no such zeros")
    n, k, count = 24, 70, 3  # the last block is short
    constants: dict[str, Any] = {
        "b": RANDOM.integers(0, 256, (n, count, 32 * bits // 8)).astype(np.uint8),
        "s": np.abs(floats(n * count)) + np.float32(0.01),
    }
    if zero == "floats":
        constants["z"] = RANDOM.uniform(0, 15, (n, count)).astype(np.float32)
    elif zero:
        constants["z"] = RANDOM.integers(0, 256, n * -(-count * bits // 8)).astype(np.uint8)
    made_of = ["x", "b", "s", "z"][: 3 + bool(zero)]
    op = node("MatMulNBits", made_of, ["y"], domain="com.microsoft", K=k, N=n, bits=bits,
              block_size=32, accuracy_level=level)  # fmt: skip
    given = model([op], {"x": ((1, k), np.float32)}, constants=constants, opset=21)
    if not any(o.domain for o in given.opset_import):
        given.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    made = to_onnx(from_onnx(given))
    assert operators(made) == ["MatMulNBits"]
    attrs = {a.name: a.i for a in made.graph.node[0].attribute}
    assert attrs["accuracy_level"] == (4 if level == 4 and bits == 4 else 1)
    if attrs["accuracy_level"] == level:
        feeds = {"x": floats(1, k)}
        agree(runtime(made)(feeds), runtime(given)(feeds))


def test_numbers_quantized_in_blocks_stay_so() -> None:
    constants: dict[str, Any] = {
        "s": np.abs(floats(4, 2)) + np.float32(0.01),
        "z": np.ones((4, 2), np.int8),
    }
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=1, block_size=4),
        node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=1, block_size=4),
    ]
    given = model(nodes, {"x": ((4, 8), np.float32)}, constants=constants, opset=21)
    made = checked(from_onnx(given))
    assert operators(made) == ["QuantizeLinear", "DequantizeLinear"]
    feeds = {"x": floats(4, 8)}
    agree(evaluator(made)(feeds), evaluator(given)(feeds))


def function(y: Any, x: Var) -> IRModule:
    return IRModule({"main": Function((x,), y, {"output_names": ("y",)})})


def test_a_number_quantized_anew_is_two_nodes() -> None:
    x = Var("x", tensor_type((2, 6), "int8"))
    scale, other = scalar(0.5, "float32"), scalar(0.25, "float32")
    y = call("requantize", x, scale, None, other, scalar(3, "int8"), rounding="even",
             compute_dtype="float32", out_dtype="int8")  # fmt: skip
    assert operators(checked(function(y, x))) == ["DequantizeLinear", "QuantizeLinear"]


@pytest.mark.parametrize("rounding", ["up", "away", "twice"])
def test_fixed_point_is_exact(rounding: str) -> None:
    x = Var("x", tensor_type((50,), "int32"))
    y = call("requantize", x, scalar(0.37, "float64"), None, scalar(1.9, "float64"), None,
             rounding=rounding, out_dtype="int8")  # fmt: skip
    data = RANDOM.integers(-900, 900, 50).astype(np.int32)
    mod = function(y, x)
    wanted = {"up": np.floor(data * (0.37 / 1.9) + 0.5)}.get(rounding)
    (got,) = runtime(checked(mod))({"x": data})
    (same,) = runtime(checked(simplify_graph(mod)))({"x": data})
    assert np.array_equal(got, same)
    assert wanted is None or np.array_equal(got, np.clip(wanted, -128, 127))
