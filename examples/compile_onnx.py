"""An ONNX model made on the fly, compiled, run and compared with numpy.

python examples/compile_onnx.py
"""

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

import smelt


def perceptron(w1: np.ndarray, w2: np.ndarray) -> ModelProto:
    """y = softmax(relu(x @ w1) @ w2), for any number of rows."""
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w2"], ["c"]),
        helper.make_node("Softmax", ["c"], ["y"], axis=-1),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", w1.shape[0]])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", w2.shape[1]])
    weights = [numpy_helper.from_array(w1, "w1"), numpy_helper.from_array(w2, "w2")]
    graph = helper.make_graph(nodes, "perceptron", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main() -> None:
    """Compile once, run with several batch sizes."""
    rng = np.random.default_rng(0)
    w1 = rng.standard_normal((20, 32)).astype(np.float32)
    w2 = rng.standard_normal((32, 10)).astype(np.float32)
    exe = smelt.compile(perceptron(w1, w2))
    for rows in (1, 3, 16):
        x = rng.standard_normal((rows, 20)).astype(np.float32)
        y = exe(x).numpy()
        expected = np.exp(np.maximum(x @ w1, 0) @ w2)
        expected /= expected.sum(axis=1, keepdims=True)
        error = np.abs(y - expected).max()
        assert error < 1e-5
        print(f"{rows:2} rows: largest error {error:.1e}")


if __name__ == "__main__":
    main()
