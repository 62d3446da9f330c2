"""Constant weights of a few bits are multiplied, and looked up, as they are."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import smelt
from smelt.frontend.onnx import from_onnx
from smelt.ir import dtype as dt
from smelt.pipeline import compile_artifact
from smelt.relax.transform.keep_few_bits import keep_few_bits

from .test_compute_in_integers import model, operators

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng
KINDS = {
    "int4": TensorProto.INT4,
    "uint4": TensorProto.UINT4,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
}


def tensor(name: str, a: Array, dtype: str) -> onnx.TensorProto:
    """An array as a constant of a type of few bits."""
    return helper.make_tensor(name, KINDS[dtype], a.shape, a.astype(int).reshape(-1).tolist())


def weights(
    body: str, shape: tuple[int, int], scales: tuple[int, ...], dtype: str = "int4",
    zero: bool = False, inputs: str = "float[3, k] x", outputs: str = "float[3, n] y",
) -> onnx.ModelProto:  # fmt: skip
    """A model whose constants are q, s and, where it has zeros, z."""
    rng, (low, high) = RNG(len(body)), dt.limits(dtype)
    k, n = shape
    made = model(body, inputs.replace("k", str(k)), outputs.replace("n", str(n)),
                 s=rng.uniform(0.1, 1, scales).astype("float32"))  # fmt: skip
    turned = "Transpose" in body or "transB" in body
    whole = rng.integers(low, high + 1, (n, k) if turned else shape)
    made.graph.initializer.append(tensor("q", whole, dtype))
    if zero:
        made.graph.initializer.append(
            tensor("z", rng.integers(low, high + 1, scales or (1,)).reshape(scales), dtype)
        )
    made.opset_import[0].version, made.ir_version = 21, 10
    return made


def peer(m: onnx.ModelProto, *given: Array) -> Array:
    """onnxruntime's result, as the model says it: what it would fuse multiplies in 8 bits."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        m.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [i.name for i in session.get_inputs()]
    found: Array = session.run(None, dict(zip(names, given, strict=True)))[0]
    return found


def agrees(m: onnx.ModelProto, *given: Array) -> Any:
    """The executable, whose result is onnxruntime's."""
    exe = smelt.compile(m)
    wanted, found = peer(m, *given), exe(*given).numpy()
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()
    return exe


BLOCKS = "v = DequantizeLinear <axis = {axis}, block_size = {block}> (q, s{z})"
PRODUCTS = {
    "blocks": (f"{BLOCKS} y = MatMul (x, v)", (64, 24), (2, 24), 0, 32),
    "ragged": (f"{BLOCKS} y = MatMul (x, v)", (70, 9), (3, 9), 0, 32),
    "turned": (f"{BLOCKS} w = Transpose <perm = [1, 0]> (v) y = MatMul (x, w)", (64, 24), (24, 4),
               1, 16),
    "gemm": (f"{BLOCKS} y = Gemm <transB = 1> (x, v)", (32, 12), (12, 1), -1, 32),
}  # fmt: skip


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("dtype", ["int4", "uint4", "int8"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_blocks(name: str, dtype: str, zero: bool) -> None:
    body, shape, scales, axis, block = PRODUCTS[name]
    text = body.format(axis=axis, block=block, z=", z" if zero else "")
    m = weights(text, shape, scales, dtype, zero)
    found = operators(keep_few_bits(from_onnx(m)))
    assert found[0] == "matmul_in_blocks"
    assert "dequantize" not in found
    agrees(m, RNG(1).standard_normal((3, shape[0])).astype("float32"))


@pytest.mark.parametrize(("scales", "axis", "dtype"), [((20,), 1, "int8"), ((), 0, "uint8")])
def test_one_scale_for_a_column_or_all(scales: tuple[int, ...], axis: int, dtype: str) -> None:
    body = f"v = DequantizeLinear <axis = {axis}> (q, s, z) y = MatMul (x, v)"
    m = weights(body, (40, 20), scales, dtype, zero=True)
    exe = agrees(m, RNG(1).standard_normal((3, 40)).astype("float32"))
    (kernel,) = exe.metadata["kernels"]
    assert kernel["name"] == "matmul_in_blocks"


def test_other_blocks_stay_floats() -> None:
    for body, scales in (
        ("v = DequantizeLinear <axis = 1, block_size = 4> (q, s) y = MatMul (x, v)", (32, 5)),
        ("v = DequantizeLinear <axis = 0> (q, s) y = MatMul (x, v)", (32,)),
    ):
        m = weights(body, (32, 20), scales, "int8")
        assert "matmul_in_blocks" not in operators(keep_few_bits(from_onnx(m)))[:1]
        agrees(m, RNG(1).standard_normal((3, 32)).astype("float32"))


def test_weights_stay_small() -> None:
    """4 bits and a float32 for 32 of them; 8 bits and a float32 for a column."""
    k, n = 1024, 480
    body = BLOCKS.format(axis=0, block=32, z="") + " y = MatMul (x, v)"
    made = compile_artifact(weights(body, (k, n), (k // 32, n)))
    assert made.weights.nbytes <= k * n * (4 + 32 / 32) / 8 * 1.02
    body = "v = DequantizeLinear <axis = 1> (q, s) y = MatMul (x, v)"
    made = compile_artifact(weights(body, (k, n), (n,), "int8"))
    assert made.weights.nbytes <= (k * n + 4 * n) * 1.02


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("dtype", ["int4", "uint4", "int8"])
@pytest.mark.parametrize(("scales", "axis", "block"), [((50, 4), 1, 16), ((50,), 0, 0), ((), 0, 0)])
def test_rows_are_looked_up(
    scales: tuple[int, ...], axis: int, block: int, dtype: str, zero: bool
) -> None:
    text = BLOCKS.format(axis=axis, block=block, z=", z" if zero else "")
    m = weights(text + " y = Gather (v, i)", (50, 64), scales, dtype, zero, "int64[2, 3] i",
                "float[2, 3, 64] y")  # fmt: skip
    found = operators(keep_few_bits(from_onnx(m)))
    assert found.index("gather") < found.index("dequantize")
    agrees(m, np.array([[0, 3, 49], [7, 7, -1]]))
    made = compile_artifact(m)
    bits = 4 if "4" in dtype else 8
    most = 50 * 64 * bits / 8 + (5 if zero else 4) * int(np.prod(scales)) + 1024
    assert made.weights.nbytes <= most


def test_integers_go_another_way() -> None:
    m = model(
        "a = DequantizeLinear (x, s) v = DequantizeLinear (q, s) y = MatMul (a, v)",
        "uint8[3, 8] x", "float[3, 4] y", s=np.float32(0.5),
        q=RNG(0).integers(-8, 8, (8, 4)).astype("int8"),
    )  # fmt: skip
    (kernel,) = smelt.compile(m).metadata["kernels"]
    assert "matmul_in_blocks" not in kernel["name"]


# ------------------------------------------------------------------------ onnxruntime's operators


def packed(shape: tuple[int, ...]) -> Array:
    return RNG(3).integers(0, 256, shape).astype("uint8")


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [None, "packed", "float"])
@pytest.mark.parametrize(("k", "block"), [(64, 16), (64, 32), (96, 128), (50, 16)])
@pytest.mark.parametrize("rows", [1, 7])
def test_matmul_nbits(rows: int, k: int, block: int, zeros: str | None, bits: int) -> None:
    n, count = 40, -(-k // block)
    if bits == 8 and zeros == "float":
        return  # onnxruntime has none
    given = {
        "b": packed((n, count, block * bits // 8)),
        "s": RNG(1).uniform(0.1, 1, n * count).astype("float32"),
    }
    if zeros == "packed":
        given["z"] = packed((n * -(-count * bits // 8),))
    if zeros == "float":
        given["z"] = RNG(2).uniform(0, 15, (n, count)).astype("float32")
    node = helper.make_node("MatMulNBits", ["x", *given], ["y"], domain="com.microsoft", K=k, N=n,
                            bits=bits, block_size=block, accuracy_level=1)  # fmt: skip
    exe = agrees(_one(node, given, (rows, k), (rows, n)),
                 RNG(4).standard_normal((rows, k)).astype("float32"))  # fmt: skip
    assert exe.metadata["kernels"][0]["name"] == "matmul_in_blocks"


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize(("k", "block"), [(64, 16), (64, 32), (96, 128), (50, 16), (320, 64)])
def test_matmul_nbits_in_bytes(k: int, block: int, rows: int, zeros: bool) -> None:
    n, count = 40, -(-k // block)
    given = {"b": packed((n, count, block // 2)),
             "s": RNG(1).uniform(0.1, 1, n * count).astype("float32")}  # fmt: skip
    if zeros:
        given["z"] = packed((n * -(-count // 2),))
    made = []
    for level in (1, 4):
        node = helper.make_node("MatMulNBits", ["x", *given], ["y"], domain="com.microsoft", K=k,
                                N=n, bits=4, block_size=block, accuracy_level=level)  # fmt: skip
        made.append(_one(node, given, (rows, k), (rows, n)))
    x = RNG(4).standard_normal((rows, k)).astype("float32")
    agrees(made[1], x)
    exact, found = smelt.compile(made[0])(x).numpy(), smelt.compile(made[1])(x).numpy()
    assert 1e-4 < np.abs(found - exact).max() / np.abs(exact).max() < 0.05


@pytest.mark.parametrize("dtype", ["int4", "uint4", "uint8"])
@pytest.mark.parametrize("zero", [False, True])
def test_gather_block_quantized(dtype: str, zero: bool) -> None:
    s = RNG(1).uniform(0.1, 1, (30, 4)).astype("float32")
    given = {"q": packed((30, 32)) if dtype == "uint8" else _few(dtype, (30, 64)), "s": s}
    if zero:
        given["z"] = packed((30, 2)) if dtype == "uint8" else _few(dtype, (30, 4))
    names = ["q", "x", "s", *["z"] * zero]
    node = helper.make_node("GatherBlockQuantized", names, ["y"], domain="com.microsoft",
                            block_size=16, gather_axis=0, quantize_axis=1)  # fmt: skip
    m = _one(node, given, (5,), (5, 64), TensorProto.INT64)
    agrees(m, np.array([0, 29, 3, 3, 11]))
    assert compile_artifact(m).weights.nbytes < 30 * 32 + 30 * 4 * 5 + 1024


def _few(dtype: str, shape: tuple[int, ...]) -> Array:
    low, high = dt.limits(dtype)
    kind = {"int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4}[dtype]
    return RNG(5).integers(low, high + 1, shape).astype(kind)


def _one(
    node: onnx.NodeProto, constants: dict[str, Array], shape: tuple[int, ...],
    result: tuple[int, ...], kind: int = TensorProto.FLOAT,
) -> onnx.ModelProto:  # fmt: skip
    """A model of one of onnxruntime's operators."""
    value = helper.make_tensor_value_info
    given = [tensor(n, a, str(a.dtype)) if str(a.dtype) in KINDS else numpy_helper.from_array(a, n)
             for n, a in constants.items()]  # fmt: skip
    graph = helper.make_graph([node], "one", [value("x", kind, shape)],
                              [value("y", TensorProto.FLOAT, result)], given)  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)
