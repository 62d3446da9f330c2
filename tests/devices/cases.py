"""Models for other machines: networks of every kind, small and in the sizes of their originals."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from smelt.cli.resnet import resnet18
from smelt.frontend.tflite import load
from tests.models.control_nets import CONTROL
from tests.models.conv_nets import mobilenet
from tests.models.image_nets import FULL as IMAGES
from tests.models.image_nets import deeplab, unet
from tests.models.language_nets import FULL as WORDS
from tests.models.language_nets import gru, lstm
from tests.models.net import Array, Feeds, Net, floats, merged, words
from tests.models.transformers import attend, bert, heads, tanh_gelu
from tests.updates.nets import row_added

ROOT = Path(__file__).parents[2]
TRAINED = Path(os.environ.get("SMELT_MODELS", ROOT / "build" / "models"))
ZOO = ROOT / "build" / "zoo"
HALF = 2e-3
"""A number in float16 has 11 bits: where sums round otherwise, results are two of its steps apart."""

Model = onnx.ModelProto | Path


@dataclass(frozen=True)
class Case:
    """A model and inputs for it.

    make    it; raises FileNotFoundError where it is not on this machine
    inputs  of one run each
    bound   how far results may lie apart, in parts of the largest of a result; 0: not at all
    state   by input the output that it is in the next run
    """

    make: Callable[[], Model]
    inputs: Callable[[Model], Sequence[Feeds]]
    bound: float = 1e-5
    state: tuple[tuple[str, str], ...] = ()


# ---- builders -------------------------------------------------------------------------------


def in_halves(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same network in float16."""
    graph, half = model.graph, TensorProto.FLOAT16
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(tensor).astype(np.float16)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for value in graph.input:
        value.type.tensor_type.elem_type = half
    return model


def of_any_size(batch: str = "n") -> onnx.ModelProto:
    """ResNet-18 for images of any number and size."""
    model = resnet18(batch=batch, image=40, width=16, classes=10)
    dims = model.graph.input[0].type.tensor_type.shape.dim
    dims[2].dim_param, dims[3].dim_param = "h", "w"
    return model


def of_few_bits(width: int = 64, layers: int = 2, block: int = 32) -> onnx.ModelProto:
    """A gated network whose weights have 4 bits, in blocks (MatMulNBits)."""
    net = Net(70)

    def product(x: str, k: int, n: int) -> str:
        packed = net.const(net.random.integers(0, 256, (n, k // block, block // 2)), np.uint8)
        scale = net.const(net.random.uniform(0.5, 1.5, (n, k // block)) / (4 * k**0.5))
        return net.op("MatMulNBits", x, packed, scale, domain="com.microsoft", K=k, N=n, bits=4,
                      block_size=block, accuracy_level=1)  # fmt: skip

    x = net.input("x", ["rows", width])
    for _ in range(layers):
        gate = net.silu(product(x, width, 3 * width))
        inner = net.op("Mul", gate, product(x, width, 3 * width))
        x = net.layer_norm(net.op("Add", x, product(inner, 3 * width, width)), width)
    made = net.model(x)
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return made


def decoder(
    width: int = 32, count: int = 4, layers: int = 2, rows: int = 16, vocabulary: int = 50
) -> onnx.ModelProto:
    """Radford et al. 2019, one word a call: keys and values of the words before are inputs, and with
    this word's outputs (past_k0 -> present_k0, ...)."""
    net, depth = Net(71), width // count
    table = net.normal((vocabulary, width), 0.5)
    word, at = net.input("word", [1, 1], np.int64), net.input("at", [1], np.int64)
    x = net.op("Gather", table, word, axis=0)
    x = net.op("Add", x, net.op("Gather", net.normal((rows, width), 0.3), at, axis=0))
    seen = net.op("LessOrEqual", net.const(np.arange(rows), np.int64), at)
    mask = net.op("Where", seen, net.const(0.0), net.const(-1e4))
    kept: list[str] = []
    for n in range(layers):
        y = net.dense(net.layer_norm(x, width), (width, 3 * width))
        parts = net.ops("Split", 3, y, net.ints(width, width, width), axis=2)
        q, *new = (heads(net, p, count, depth) for p in parts)
        caches = [net.input(f"past_{c}{n}", [1, count, rows, depth]) for c in "kv"]
        keys, values = (row_added(net, "scatter_elements", c, y, at, count, depth)
                        for c, y in zip(caches, new, strict=True))  # fmt: skip
        y = attend(net, q, keys, values, mask, width, float(np.sqrt(depth)))
        x = net.op("Add", x, net.dense(y, (width, width)))
        y = tanh_gelu(net, net.dense(net.layer_norm(x, width), (width, 4 * width)))
        x = net.op("Add", x, net.dense(y, (4 * width, width)))
        kept += [keys, values]
    logits = net.op("MatMul", net.layer_norm(x, width), net.op("Transpose", table, perm=[1, 0]))
    return net.model(logits, *kept)


def from_file(path: Path) -> Callable[[], Model]:
    """A model of a file."""

    def make() -> Model:
        if not path.exists():
            raise FileNotFoundError(path)
        return path

    return make


# ---- inputs ---------------------------------------------------------------------------------


def given(*feeds: Feeds) -> Callable[[Model], Sequence[Feeds]]:
    """The same for any size of the model."""
    return lambda _: feeds


def beside(model: Model) -> Sequence[Feeds]:
    """What the zoo has beside a model."""
    assert isinstance(model, Path)
    with np.load(model.with_suffix(".inputs.npz")) as found:
        return [{n: found[n] for n in found.files}]


def random_input(model: Model) -> Sequence[Feeds]:
    """Numbers for the only input of a TFLite model."""
    value = load(model).graph.inputs[0]
    random = np.random.default_rng(1)
    shape = tuple(value.shape)
    if value.dtype == "float32":
        return [{value.name: random.normal(size=shape).astype("float32")}]
    return [{value.name: random.integers(-128, 128, shape).astype(value.dtype)}]


def told(batch: int, tokens: int) -> Feeds:
    """Words of which the last are padding."""
    mask = np.ones((batch, tokens), np.int64)
    mask[-1, tokens // 2 :] = 0
    return merged(words("input_ids", 50, batch, tokens), {"attention_mask": mask})


def of_turns(model: Model) -> Sequence[Feeds]:
    """Three words after another, behind an empty cache."""
    assert isinstance(model, onnx.ModelProto)
    sizes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    empty = {n: np.zeros(s, np.float32) for n, s in sizes.items() if n.startswith("past")}
    first, *others = ({"word": np.array([[7 * n + 3]]), "at": np.array([n])} for n in range(3))
    return [merged(first, empty), *others]


def halves(**shapes: tuple[int, ...]) -> Feeds:
    """Floats of 16 bits."""
    return {n: floats(n, *s)[n].astype(np.float16) for n, s in shapes.items()}
