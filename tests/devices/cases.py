"""Models for other machines: small networks of every kind, and builders of larger ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from smelt.frontend.tflite import load
from tests.models.control_nets import CONTROL
from tests.models.conv_nets import mobilenet
from tests.models.image_nets import deeplab, unet
from tests.models.language_nets import gru, lstm
from tests.models.net import Array, Dim, Feeds, Net, floats, merged, words
from tests.models.transformers import attend, bert, heads, tanh_gelu
from tests.updates.nets import row_added

ROOT = Path(__file__).parents[2]
TRAINED = Path(os.environ.get("SMELT_MODELS", ROOT / "build" / "models"))
HALF = 2e-3
"""Numbers of float16 have 11 bits: where sums round otherwise, results are two steps apart."""
Model = onnx.ModelProto | Path
Results = list[list[Array]]
"""Of each run."""


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


def of_any_size(make: Callable[[Dim], onnx.ModelProto] = mobilenet) -> onnx.ModelProto:
    """A network for images of any number and size."""
    model = make("n")
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
    """Radford et al. 2019, one word a call: keys and values of the words before are inputs, those
    with this word's results."""
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


# ---- inputs ---------------------------------------------------------------------------------


def given(*feeds: Feeds) -> Callable[[Model], Sequence[Feeds]]:
    """The same for any size of the model."""
    return lambda _: feeds


def random_input(model: Model) -> Sequence[Feeds]:
    """Numbers for the only input of a TFLite model."""
    value = load(model).graph.inputs[0]
    random, shape = np.random.default_rng(1), [d for d in value.shape or () if isinstance(d, int)]
    if value.dtype == "float32":
        return [{value.name: random.normal(size=shape).astype("float32")}]
    return [{value.name: random.integers(-128, 128, shape).astype(value.dtype)}]


def told(batch: int, tokens: int) -> Feeds:
    """Words, of which the last row ends in padding."""
    mask = np.ones((batch, tokens), np.int64)
    mask[-1, tokens // 2 :] = 0
    return merged(words("input_ids", 50, batch, tokens), {"attention_mask": mask})


def turns(model: Model) -> Sequence[Feeds]:
    """Three words one after another, behind empty caches."""
    assert isinstance(model, onnx.ModelProto)
    sizes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    empty = {n: np.zeros(s, np.float32) for n, s in sizes.items() if n.startswith("past")}
    first, *others = ({"word": np.array([[7 * n + 3]]), "at": np.array([n])} for n in range(3))
    return [merged(first, empty), *others]


# ---- the models -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A model and inputs for it.

    make    it
    inputs  of one run each
    bound   how far results may lie apart, in parts of the largest of a result; 0: not at all
    state   inputs that are a result of the run before, by the result's number
    """

    make: Callable[[], Model]
    inputs: Callable[[Model], Sequence[Feeds]]
    bound: float = 1e-5
    state: Mapping[str, int] = field(default_factory=dict)


def trained(name: str, bound: float = 0.0) -> Case:
    """A TFLite model of a file."""
    return Case(lambda: TRAINED / f"{name}.tflite", random_input, bound)


def deciding(name: str) -> Case:
    """A model that decides while it runs, on inputs of which no two take the same way."""
    make, inputs = CONTROL[name]
    return Case(make, lambda _: inputs())


def caches(layers: int) -> dict[str, int]:
    """Those of `decoder`, by the results that they are."""
    names = [f"past_{c}{n}" for n in range(layers) for c in "kv"]
    return {name: n + 1 for n, name in enumerate(names)}


def in_float16(*shape: int) -> Feeds:
    return {"x": floats("x", *shape)["x"].astype(np.float16)}


CASES = {
    "keywords": trained("kws_f32", 1e-5),
    "keywords, int8": trained("kws_int8"),
    "bert, 2 layers": Case(lambda: bert("n", "tokens"), given(told(2, 12), told(3, 9))),
    "lstm": Case(lambda: lstm("n"), given(words("input_ids", 50, 2, 9))),
    "gru": Case(lambda: gru("n"), given(words("input_ids", 50, 3, 9))),
    "branch": deciding("branch"),
    "loop": deciding("loop"),
    "decoder in a loop": deciding("decoder"),
    "any image": Case(of_any_size, given(floats("x", 2, 3, 33, 33), floats("x", 1, 3, 40, 27))),
    "unet": Case(lambda: unet(1), given(floats("x", 1, 3, 32, 32))),
    "deeplab": Case(lambda: deeplab(1), given(floats("x", 1, 3, 33, 33))),
    "float16": Case(lambda: in_halves(mobilenet(1)), given(in_float16(1, 3, 33, 33)), HALF),
    "4 bits": Case(of_few_bits, given(floats("x", 1, 64), floats("x", 7, 64))),
    "decoder": Case(decoder, turns, state=caches(2)),
}
"""Small ones, of every kind."""


def chained(case: Case, feeds: Sequence[Feeds], run: Callable[[Feeds], list[Array]]) -> Results:
    """What the runs give, each with the state that the one before has left."""
    kept: Feeds = {}
    found = []
    for f in feeds:
        found.append(run({**f, **kept}))
        kept = {name: found[-1][n] for name, n in case.state.items()}
    return found


def apart(found: Results, wanted: Results) -> float:
    """The largest difference, in parts of the largest element of its result; infinite where shapes
    or types differ, or a number is none."""
    pairs = zip(chain(*found), chain(*wanted), strict=True)
    return max([_apart(a, b) for a, b in pairs])


def _apart(a: Array, b: Array) -> float:
    if a.shape != b.shape or a.dtype != b.dtype:
        return np.inf
    if np.array_equal(a, b):
        return 0.0
    far = np.abs(a.astype(np.float64) - b.astype(np.float64)).max()
    return float(far / np.abs(b.astype(np.float64)).max()) if np.isfinite(far) else np.inf
