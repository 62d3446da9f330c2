"""Train nothing, quantize everything: a small network in floats, its int8 form, and both timed.

    python examples/quantize_and_run.py [model.onnx samples.npz]

With a model of your own, samples.npz holds an array of samples for each of its inputs.
"""

from __future__ import annotations

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import smelt


def network() -> onnx.ModelProto:
    """Eight convolutions with residual connections, and a classifier, with random weights."""
    rng = np.random.default_rng(0)
    nodes, weights = [], []

    def weight(name: str, *shape: int) -> str:
        fan = int(np.prod(shape[1:])) if len(shape) > 1 else 64
        data = (rng.standard_normal(shape) * np.sqrt(2 / fan)).astype("float32")
        weights.append(numpy_helper.from_array(data, name))
        return name

    def node(op: str, name: str, *inputs: str, **attrs: object) -> str:
        nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attrs))
        return name

    def conv(x: str, name: str, into: int, out: int, stride: int = 1) -> str:
        w, b = weight(f"{name}.w", out, into, 3, 3), weight(f"{name}.b", out)
        return node("Conv", name, x, w, b, pads=[1] * 4, strides=[stride] * 2)

    x = node("Relu", "r0", conv("image", "c0", 3, 64, 2))
    for n in range(1, 5):
        h = node("Relu", f"r{n}a", conv(x, f"c{n}a", 64, 64))
        x = node("Relu", f"r{n}", node("Add", f"s{n}", conv(h, f"c{n}b", 64, 64), x))
    x = node("Flatten", "flat", node("GlobalAveragePool", "mean", x))
    node("Gemm", "classes", x, weight("fc.w", 64, 10), weight("fc.b", 10))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 96, 96])
    classes = helper.make_tensor_value_info("classes", TensorProto.FLOAT, [1, 10])
    graph = helper.make_graph(nodes, "network", [image], [classes], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def main() -> None:
    """Quantize, compare, time."""
    if len(sys.argv) == 3:
        model: object = sys.argv[1]
        data: object = sys.argv[2]
    else:
        model = network()
        noise = np.random.default_rng(1).standard_normal((32, 1, 3, 96, 96))
        data = (np.cumsum(noise, axis=-1) / 5).astype("float32")  # rows like those of pictures
    made = smelt.quantize(model, data, method="mse")
    report = made.report
    for layer in report.layers:
        print(f"{layer.name:12} {layer.form:8} {layer.noise or 0:6.1f} dB  {layer.why}")
    before, after = report.bytes
    print(f"weights {before / 1e6:.2f} -> {after / 1e6:.2f} MB")
    print(f"results differ by {report.distance:.2f} %; same class: {report.agreement} %")
    made.save("quantized.onnx")

    floats, integers = smelt.compile(model), smelt.compile("quantized.onnx")
    sample = next(iter(smelt.quantization.Samples(data, floats.inputs)))
    for name, exe in (("float32", floats), ("int8", integers)):
        print(f"{name:8} {exe.benchmark(*sample.values()).median:.3f} ms")


if __name__ == "__main__":
    main()
