"""The networks that come with the onnx package, with weights that tell channels apart.

Their files hold one constant in place of each weight. Here each becomes an array of its own:
filters He-scaled, the statistics of a BatchNormalization about what the layers in front of it
show, and the last layer scaled so that Softmax does not saturate.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.frontend.models import reference
from tests.models.net import Array, Feeds, floats

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NAMES = tuple(sorted(path.stem.removeprefix("light_") for path in FOLDER.glob("light_*.onnx")))
_GAINS = {"Conv": 2.0, "Gemm": 2.0, "Relu": 0.5, "MaxPool": 2.0}
"""What an operator does to the mean square of the elements, roughly."""


def light(name: str) -> onnx.ModelProto:
    """The network `name` with seeded weights."""
    model = onnx.load(FOLDER / f"light_{name}.onnx")
    shapes = _shapes(model)
    weights = _weights(model, shapes, np.random.default_rng(zlib.crc32(name.encode())))
    graph = model.graph
    nodes = [n for n in graph.node if n.op_type != "ConstantOfShape"]
    kept = [t for t in graph.initializer if any(t.name in n.input for n in nodes)]
    tensors = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    names = {t.name for t in graph.initializer}
    inputs = [i for i in graph.input if i.name not in names]
    made = helper.make_graph(nodes, name, inputs, graph.output, [*kept, *tensors])
    result = helper.make_model(made, opset_imports=model.opset_import, ir_version=8)
    _calm(result, weights)
    return result


def feeds_of(model: onnx.ModelProto, seed: int = 1) -> Feeds:
    (only,) = model.graph.input
    dims = [d.dim_value for d in only.type.tensor_type.shape.dim]
    return floats(only.name, *dims, seed=seed)


def _shapes(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """The shape of each constant."""
    known = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    nodes = [n for n in model.graph.node if n.op_type == "ConstantOfShape"]
    return {n.output[0]: tuple(known[n.input[0]].tolist()) for n in nodes}


def _weights(
    model: onnx.ModelProto, shapes: dict[str, tuple[int, ...]], random: np.random.Generator
) -> dict[str, Array]:
    """A value for each constant, by what it is used for."""
    found: dict[str, Array] = {}
    square = {i.name: 1.0 for i in model.graph.input}
    views = _views(model)
    for node in model.graph.node:
        constants = [views.get(i, i) for i in node.input]
        values = [i for i in node.input if views.get(i, i) not in shapes and i in square]
        before = float(np.mean([square[i] for i in values])) if values else 1.0
        for place, name in enumerate(constants):
            if name in shapes:
                kind = f"{node.op_type} {place}"
                found[name] = _value(kind, shapes[name], before, random).astype(np.float32)
        after = before * _GAINS.get(node.op_type, 1.0)
        if node.op_type == "Sum" or (node.op_type == "Add" and len(values) == 2):
            after = sum(square[i] for i in values)
        if node.op_type == "BatchNormalization":
            after = 1.0
        square[node.output[0]] = after
    return found


def _views(model: onnx.ModelProto) -> dict[str, str]:
    """What Unsqueeze and Reshape make of what."""
    kinds = ("Unsqueeze", "Reshape")
    return {n.output[0]: n.input[0] for n in model.graph.node if n.op_type in kinds}


def _value(kind: str, shape: tuple[int, ...], square: float, random: np.random.Generator) -> Array:
    match kind:
        case "Conv 1" | "Gemm 1":
            fan_in = int(np.prod(shape[1:]))
            filters: Array = random.standard_normal(shape, np.float32)
            filters *= np.float32(np.sqrt(2 / fan_in))
            return filters
        case "BatchNormalization 1" | "Mul 0" | "Mul 1":
            return random.uniform(0.7, 1.3, shape)
        case "BatchNormalization 3":
            return random.uniform(-0.2, 0.2, shape) * float(np.sqrt(square))
        case "BatchNormalization 4":
            return random.uniform(0.8, 1.2, shape) * square
    return random.uniform(-0.2, 0.2, shape)


def _calm(model: onnx.ModelProto, weights: dict[str, Array]) -> None:
    """Scale the last layer so that the operand of Softmax has the deviation 1."""
    last = next(n for n in reversed(model.graph.node) if n.op_type in ("Conv", "Gemm"))
    softmax = [n.input[0] for n in model.graph.node if n.op_type == "Softmax"]
    (seen,) = softmax or last.output
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:]
    probe.graph.output.append(helper.make_tensor_value_info(seen, TensorProto.FLOAT, None))
    deviation = float(reference(probe, feeds_of(model))[0].std())
    own = [_views(model).get(i, i) for i in last.input]
    for tensor in model.graph.initializer:
        if tensor.name in own and tensor.name in weights:
            calm = (weights[tensor.name] / np.float32(deviation)).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(calm, tensor.name))
