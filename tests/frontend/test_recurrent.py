"""RNN, GRU and LSTM against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import smelt
from smelt.ir.errors import ImportFailure, Unsupported

from .models import check, model, node, random, reference

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STATES = {"RNN": 1, "GRU": 1, "LSTM": 2}
LENGTH, BATCH, WIDTH, HIDDEN = 4, 3, 5, 7


class Layer:
    """A model of one recurrent layer and its input."""

    def __init__(
        self, op: str, *, bias: bool = True, lengths: Any = None, states: bool = False,
        peephole: bool = False, shape: tuple[Any, ...] = (LENGTH, BATCH, WIDTH), **attrs: Any,
    ) -> None:  # fmt: skip
        count = 2 if attrs.get("direction") == "bidirectional" else 1
        rows, first = GATES[op] * HIDDEN, (count, BATCH, HIDDEN)
        x = random(LENGTH, BATCH, WIDTH)
        if attrs.get("layout"):
            x, first = x.transpose(1, 0, 2).copy(), (BATCH, count, HIDDEN)
            shape = (shape[1], shape[0], shape[2])
        given: dict[str, Any] = {
            "w": random(count, rows, WIDTH, seed=1), "r": random(count, rows, HIDDEN, seed=2) / 2,
            "b": random(count, 2 * rows, seed=3) if bias else None,
            "lengths": None if lengths is None else np.array(lengths, np.int32),
            "h": random(*first, seed=4) if states else None,
        }  # fmt: skip
        if op == "LSTM":
            given["c"] = random(*first, seed=5) if states else None
            given["p"] = random(count, 3 * HIDDEN, seed=6) if peephole else None
        known = {k: v for k, v in given.items() if v is not None}
        outputs = ["y", "last", "cell"][: 1 + STATES[op]]
        made = node(op, ["x", *[k if k in known else "" for k in given]], outputs,
                    hidden_size=HIDDEN, **attrs)  # fmt: skip
        self.model = model([made], {"x": (shape, np.float32)}, outputs, known, 17)
        self.inputs = {"x": x}

    def compiled(self) -> None:
        """Machine code gives the same."""
        found = smelt.compile(self.model)(self.inputs["x"])
        for a, b in zip(found, reference(self.model, self.inputs), strict=True):
            np.testing.assert_allclose(np.asarray(a.numpy()), b, rtol=0, atol=1e-5)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", GATES)
def test_layers(op: str, direction: str) -> None:
    for layer in (
        Layer(op, direction=direction),
        Layer(op, direction=direction, bias=False, states=True, lengths=[4, 1, 3]),
    ):
        check(layer.model, layer.inputs, 5e-6)
    layer.compiled()


@pytest.mark.parametrize("reset", [0, 1])
def test_gru_before_and_after_the_reset(reset: int) -> None:
    layer = Layer("GRU", linear_before_reset=reset, direction="bidirectional")
    check(layer.model, layer.inputs, 5e-6)
    layer = Layer("GRU", linear_before_reset=reset, bias=False, lengths=[2, 4, 4], clip=0.5)
    check(layer.model, layer.inputs, 5e-6)


@pytest.mark.parametrize("more", [{}, {"clip": 0.3}, {"input_forget": 1}])
def test_lstm_with_peepholes(more: dict[str, Any]) -> None:
    layer = Layer("LSTM", peephole=True, states=True, direction="bidirectional", **more)
    check(layer.model, layer.inputs, 5e-6)


ACTIVATIONS: list[dict[str, Any]] = [
    {"activations": ["Relu"]},
    {"activations": ["LeakyRelu"], "activation_alpha": [0.2]},
    {"activations": ["ThresholdedRelu"], "activation_alpha": [0.4]},
    {"activations": ["ScaledTanh"], "activation_alpha": [1.5], "activation_beta": [0.6]},
    {"activations": ["HardSigmoid"], "activation_alpha": [0.3], "activation_beta": [0.4]},
    {"activations": ["Elu"], "activation_alpha": [0.5]},
    {"activations": ["Softsign"]},
    {"activations": ["Softplus"]},
    {"activations": ["Affine"], "activation_alpha": [0.5], "activation_beta": [0.1]},
]


@pytest.mark.parametrize("attrs", ACTIVATIONS, ids=lambda a: a["activations"][0])
def test_activations(attrs: dict[str, Any]) -> None:
    layer = Layer("RNN", **attrs)
    check(layer.model, layer.inputs, 5e-6)


def test_directions_with_different_activations() -> None:
    layer = Layer(
        "LSTM",
        direction="bidirectional",
        activation_alpha=[0.3, 0.1],
        activations=["HardSigmoid", "Tanh", "Relu", "Sigmoid", "LeakyRelu", "Tanh"],
    )
    check(layer.model, layer.inputs, 5e-6)


@pytest.mark.parametrize("op", GATES)
def test_batch_first(op: str) -> None:
    """onnxruntime has no such layout: the same layer with exchanged dimensions is the reference."""
    other = Layer(op, states=True, direction="bidirectional")
    want = reference(other.model, other.inputs)
    layer = Layer(op, states=True, direction="bidirectional", layout=1)
    states = {i.name for i in layer.model.graph.initializer} & {"h", "c"}
    for t in layer.model.graph.initializer:
        if t.name in states:
            turned = next(o for o in other.model.graph.initializer if o.name == t.name)
            array = onnx.numpy_helper.to_array(turned).transpose(1, 0, 2)
            t.CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(array), t.name))
    y, *last = smelt.compile(layer.model)(layer.inputs["x"])
    np.testing.assert_allclose(y.numpy(), want[0].transpose(2, 0, 1, 3), rtol=0, atol=1e-5)
    for a, b in zip(last, want[1:], strict=True):
        np.testing.assert_allclose(a.numpy(), b.transpose(1, 0, 2), rtol=0, atol=1e-5)


@pytest.mark.parametrize("op", GATES)
def test_sizes_that_the_call_gives(op: str) -> None:
    Layer(op, shape=("length", "batch", WIDTH), direction="bidirectional").compiled()


ERRORS = [
    (
        {"activations": ["Tanhh"]},
        Unsupported,
        "activation 'Tanhh' (nearest: Tanh)\n  supported: Relu",
    ),
    (
        {"activations": ["Tanh"] * 2},
        ImportFailure,
        "activations=('Tanh', 'Tanh'): 2 names, 1 needed",
    ),
    (
        {"direction": "back"},
        Unsupported,
        "direction='back'\n  supported: forward, reverse, bidirec",
    ),
]


@pytest.mark.parametrize(("attrs", "error", "text"), ERRORS)
def test_errors(attrs: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        smelt.compile(Layer("RNN", **attrs).model)
    assert text in str(caught.value)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("op", GATES)
def test_results_have_the_type_of_the_input(op: str, kind: type[np.floating[Any]]) -> None:
    rows, outputs = GATES[op] * HIDDEN, ["y", "last", "cell"][: 1 + STATES[op]]
    weights = {"w": random(1, rows, WIDTH).astype(kind), "r": random(1, rows, HIDDEN).astype(kind)}
    made = node(op, ["x", *weights], outputs, hidden_size=HIDDEN)
    m = model([made], {"x": ((LENGTH, BATCH, WIDTH), kind)}, outputs, weights, 17)
    found = smelt.compile(m)(random(LENGTH, BATCH, WIDTH).astype(kind))
    assert [r.numpy().dtype for r in found] == [np.dtype(kind)] * len(outputs)
