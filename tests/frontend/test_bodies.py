"""Function bodies and other spelled-out forms become the kernels of the direct operators again."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.inliner import inline_selected_functions

from smelt.frontend.onnx import from_onnx
from smelt.ir.module import IRModule
from smelt.pipeline import optimize
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Function
from smelt.relax.transform import simplify_graph

from .models import model, node, random


def kernels(mod: IRModule) -> list[str]:
    """The kernels of a model but copies, without numbers in their names."""
    names = [str(f.attrs["name"]) for n, f in optimize(mod).functions.items()
             if n != "main" and isinstance(f, Function) and f.attrs["name"] != "copy"]  # fmt: skip
    return sorted(n.rstrip("0123456789_") for n in names)


X, ROW = random(2, 4, 6, 5), random(5, seed=1)
CHANNELS, QKV = random(4, seed=2), [random(2, 3, 5, 8, seed=k) for k in range(3)]
LABELS = np.array([[1, 0, 3], [2, 2, 0]], np.int64)

BODIES: list[tuple[str, list[np.ndarray], int, dict[str, Any]]] = [
    ("LayerNormalization", [X, ROW, ROW], 17, {}),
    ("LayerNormalization", [X, ROW], 17, {"epsilon": 1e-3}),
    ("RMSNormalization", [X, ROW], 23, {}),
    ("GroupNormalization", [X, CHANNELS, CHANNELS], 21, {"num_groups": 2}),
    ("Gelu", [X], 20, {}),
    ("Gelu", [X], 20, {"approximate": "tanh"}),
    ("HardSwish", [X], 14, {}),
    ("Softplus", [X], 18, {}),
    ("Softsign", [X], 18, {}),
    ("Mish", [X], 18, {}),
    ("Swish", [X], 24, {"alpha": 1.0}),
    ("Elu", [X], 18, {"alpha": 0.7}),
    ("Celu", [X], 12, {"alpha": 0.7}),
    ("Selu", [X], 18, {"alpha": 1.6, "gamma": 1.1}),
    ("LeakyRelu", [X], 16, {"alpha": 0.2}),
    ("ThresholdedRelu", [X], 18, {"alpha": 0.3}),
    ("HardSigmoid", [X], 18, {"alpha": 0.3, "beta": 0.4}),
    ("PRelu", [X, CHANNELS.reshape(4, 1, 1)], 16, {}),
    ("Softmax", [X], 18, {"axis": -1}),
    ("LogSoftmax", [X], 18, {"axis": 1}),
    ("SoftmaxCrossEntropyLoss", [random(2, 4, 3), LABELS], 13, {}),
    ("Attention", QKV, 23, {}),
    ("Attention", QKV, 23, {"is_causal": 1}),
]

RECOGNISED = {
    "LayerNormalization", "RMSNormalization", "GroupNormalization", "Gelu", "HardSwish", "Softplus",
    "Mish", "Swish", "Softmax", "LogSoftmax", "Attention",
}  # fmt: skip
"""Those whose body becomes the core's operator; the others are one elementwise kernel anyway."""


@pytest.mark.parametrize(
    ("op", "operands", "opset", "attrs"), BODIES, ids=[f"{b[0]}{b[3] or ''}" for b in BODIES]
)
def test_a_function_body_is_the_same_kernels(
    op: str, operands: list[np.ndarray], opset: int, attrs: dict[str, Any]
) -> None:
    inputs = {f"x{k}": x for k, x in enumerate(operands)}
    types = {n: (x.shape, x.dtype) for n, x in inputs.items()}
    direct = model([node(op, list(inputs), **attrs)], types, opset=opset)
    spelled = inline_selected_functions(
        onnx.shape_inference.infer_shapes(direct), [("", op)], inline_schema_functions=True
    )
    assert all(n.op_type != op for n in spelled.graph.node)
    made = from_onnx(spelled)
    found, wanted = kernels(made), kernels(from_onnx(direct))
    assert len(found) == len(wanted)
    if op in RECOGNISED:
        assert all(any(w in f for f in found) for w in wanted), found
    (got,) = interpret(simplify_graph(made)["main"], *operands)
    (want,) = interpret(from_onnx(direct)["main"], *operands)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)


@pytest.mark.parametrize("first", ["Mul", "Add"])
def test_group_norm_by_norms_of_instances(first: str) -> None:
    """As it is written where the operator is missing, with a scale before or behind the product."""
    scale, bias = CHANNELS.reshape(4, 1, 1), random(4, 1, 1, seed=5)
    turn = first == "Add"
    nodes = [
        node("Reshape", ["x", "groups"], ["wide"]),
        node("InstanceNormalization", ["wide", "ones", "zeros"], ["normed"]),
        node("Reshape", ["normed", "back"], ["flat"]),
        node("Mul", ["scale", "flat"] if turn else ["flat", "scale"], ["scaled"]),
        node("Add", ["bias", "scaled"] if turn else ["scaled", "bias"]),
    ]
    constants = {
        "groups": np.array([0, 2, -1]), "back": np.array([2, 4, 6, 5]), "ones": np.ones(2, "f"),
        "zeros": np.zeros(2, "f"), "scale": scale, "bias": bias,
    }  # fmt: skip
    made = from_onnx(model(nodes, {"x": (X.shape, np.float32)}, constants=constants))
    assert kernels(made) == ["group_norm"]
    (got,) = interpret(simplify_graph(made)["main"], X)
    wide = X.reshape(2, 2, -1)
    normed = (wide - wide.mean(2, keepdims=True)) / np.sqrt(wide.var(2, keepdims=True) + 1e-5)
    np.testing.assert_allclose(got, normed.reshape(X.shape) * scale + bias, rtol=0, atol=1e-5)


def test_a_norm_with_a_scale_of_its_own_stays() -> None:
    """A scale of the groups is no scale of the channels."""
    nodes = [
        node("Reshape", ["x", "groups"], ["wide"]),
        node("InstanceNormalization", ["wide", "scales", "zeros"], ["normed"]),
        node("Reshape", ["normed", "back"], ["flat"]),
        node("Mul", ["flat", "scale"], ["scaled"]),
        node("Add", ["scaled", "scale"]),
    ]
    constants = {
        "groups": np.array([0, 2, -1]), "back": np.array([2, 4, 6, 5]), "zeros": np.zeros(2, "f"),
        "scales": np.array([1, 2], "f"), "scale": CHANNELS.reshape(4, 1, 1),
    }  # fmt: skip
    made = from_onnx(model(nodes, {"x": (X.shape, np.float32)}, constants=constants))
    assert "group_norm" not in kernels(made)
