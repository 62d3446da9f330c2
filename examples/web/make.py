"""Trains a small network on scikit-learn's digits, and writes it as a package for the page.

python make.py            writes ./digits
python -m http.server     then open http://localhost:8000
"""

import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import smelt

HERE = Path(__file__).parent


def network():
    """A trained network as ONNX: 8 x 8 numbers from 0 to 1 in, ten probabilities out."""
    images, digits = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8) / 16
    # drawings are rarely in the middle
    shifted = [np.roll(images, by, (1, 2)) for by in ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0))]
    made = MLPClassifier((64,), max_iter=20, random_state=0)
    made.fit(np.concatenate(shifted).reshape(-1, 64), np.tile(digits, len(shifted)))
    (w1, w2), (b1, b2) = made.coefs_, made.intercepts_
    weights = {"w1": w1, "b1": b1, "w2": w2, "b2": b2}
    nodes = [
        helper.make_node("Flatten", ["image"], ["x"], axis=1),
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "w2", "b2"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["digit"]),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 8, 8])],
        [helper.make_tensor_value_info("digit", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(w.astype("float32"), name) for name, w in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if sys.argv[1:] else HERE / "digits"
    smelt.compile_artifact(network(), "wasm").export_package(folder)
    print(f"written to {folder}")
