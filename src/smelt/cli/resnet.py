"""A ResNet-18 as ONNX, built here with seeded weights: a real network without a download.

Source: He, Zhang, Ren and Sun, Deep Residual Learning for Image Recognition (2015), table 1, the
basic block. Weights are He-scaled; the statistics of each BatchNormalization are what the layers
in front of it would show on normal inputs, so that activations keep their scale through the
network and a swapped channel shows in the result.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.cli.results import Array

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET = 18
BLOCKS = 2  # in each of the four stages
EPSILON = 1e-5


class _Network:
    """Nodes as plain tuples (operator, inputs, output, attributes), and the weights by name."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[tuple[str, list[str], str, dict[str, Any]]] = []
        self.weights: dict[str, Array] = {}
        # The mean square of each tensor's elements, as far as the statistics below need it.
        self.square = {"input": 1.0}

    def node(self, op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append((op, inputs, output, attributes))
        return output

    def weight(self, name: str, value: Array) -> str:
        self.weights[name] = np.ascontiguousarray(value, np.float32)
        return name

    def conv_norm(self, x: str, name: str, shape: tuple[int, int, int], stride: int = 1) -> str:
        """A convolution without bias and its BatchNormalization; shape: out, in, kernel side."""
        o, i, side = shape
        fan_in = i * side * side
        filters = self.random.standard_normal((o, i, side, side)) * np.sqrt(2 / fan_in)
        y = self.node(
            "Conv",
            [x, self.weight(f"{name}.weight", filters)],
            f"{name}.conv",
            kernel_shape=[side, side],
            strides=[stride, stride],
            pads=[side // 2] * 4,
        )
        square = 2 * self.square[x]
        parameters = {
            "scale": self.random.uniform(0.7, 1.3, o),
            "bias": self.random.uniform(-0.2, 0.2, o),
            "mean": self.random.uniform(-0.2, 0.2, o) * np.sqrt(square),
            "var": self.random.uniform(0.8, 1.2, o) * square,
        }
        names = [self.weight(f"{name}.norm.{k}", v) for k, v in parameters.items()]
        y = self.node("BatchNormalization", [y, *names], f"{name}.norm", epsilon=EPSILON)
        self.square[y] = 1.0
        return y

    def relu(self, x: str, name: str) -> str:
        y = self.node("Relu", [x], name)
        self.square[y] = self.square[x] / 2
        return y

    def block(self, x: str, name: str, channels: tuple[int, int], stride: int) -> str:
        i, o = channels
        y = self.relu(self.conv_norm(x, f"{name}.1", (o, i, 3), stride), f"{name}.1.relu")
        y = self.conv_norm(y, f"{name}.2", (o, o, 3))
        if stride != 1 or i != o:
            x = self.conv_norm(x, f"{name}.skip", (o, i, 1), stride)
        total = self.node("Add", [y, x], f"{name}.add")
        self.square[total] = self.square[y] + self.square[x]
        return self.relu(total, f"{name}.relu")


def resnet18(
    *, batch: int | str = 1, image: int = 224, width: int = 64, classes: int = 1000, seed: int = 0
) -> "ModelProto":
    """The network as an ONNX model: input [batch, 3, image, image], output [batch, classes].

    The same arguments give the same weights on every machine. A `batch` that is a name makes a
    dynamic dimension; `width`, the channels of the first stage, makes smaller networks for tests.
    """
    net = _Network(seed)
    x = net.relu(net.conv_norm("input", "stem", (width, 3, 7), 2), "stem.relu")
    pooled = net.node(
        "MaxPool", [x], "stem.pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]
    )
    net.square[pooled] = 2 * net.square[x]
    x, channels = pooled, width
    for stage in range(4):
        for index in range(BLOCKS):
            o, stride = width << stage, 2 if stage and not index else 1
            x = net.block(x, f"stage{stage + 1}.{index + 1}", (channels, o), stride)
            channels = o
    x = net.node("GlobalAveragePool", [x], "pool")
    x = net.node("Flatten", [x], "flat", axis=1)
    matrix = net.random.standard_normal((classes, channels)) / np.sqrt(channels)
    bias = net.random.uniform(-0.1, 0.1, classes)
    operands = [x, net.weight("fc.weight", matrix), net.weight("fc.bias", bias)]
    net.node("Gemm", operands, "output", transB=1)
    return _model(net, [batch, 3, image, image], [batch, classes])


def _model(net: _Network, taken: list[int | str], given: list[int | str]) -> "ModelProto":
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415  (heavy)

    graph = helper.make_graph(
        [
            helper.make_node(op, inputs, [output], name=output, **attributes)
            for op, inputs, output, attributes in net.nodes
        ],
        "resnet18",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, taken)],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, given)],
        [numpy_helper.from_array(value, name) for name, value in net.weights.items()],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8, producer_name="smelt"
    )
