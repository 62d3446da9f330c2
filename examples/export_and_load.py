"""Compile, export a shared library, and run it with the runtime alone.

python examples/export_and_load.py
"""

import tempfile
from pathlib import Path

import numpy as np
from compile_onnx import perceptron

import smelt
import smelt.runtime


def main() -> None:
    """The loaded library gives what the executable gave; it needs numpy only."""
    rng = np.random.default_rng(0)
    w1 = rng.standard_normal((20, 32)).astype(np.float32)
    w2 = rng.standard_normal((32, 10)).astype(np.float32)
    exe = smelt.compile(perceptron(w1, w2))
    x = rng.standard_normal((3, 20)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "perceptron.so")
        exe.export_library(str(file))
        print(f"{file.name}: {file.stat().st_size} bytes")
        loaded = smelt.runtime.load_module(str(file))
        assert np.array_equal(loaded(x).numpy(), exe(x).numpy())
    print("the same result")


if __name__ == "__main__":
    main()
