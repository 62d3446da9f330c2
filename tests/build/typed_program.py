"""A program as users of type checkers write it: mypy and pyright know all of its types."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import smelt


def program(x: npt.NDArray[np.float32]) -> smelt.NDArray:
    """What is held on to, and what it gives."""
    exe = smelt.compile("model.onnx", shapes={"x": ("n", 3)}, threads=1)
    assert_type(exe, smelt.Executable)
    assert_type(exe.name, str)
    assert_type(exe.memory.weights, int)
    assert_type(exe.metadata["kernels"][0]["name"], str)
    assert_type(exe.inputs[0].shape, tuple[int | str, ...])
    assert_type(exe.benchmark(x, repeat=3).median, float)
    assert_type(exe.profile(x).table(), str)
    exe.export_library("model.so", header=True)
    assert_type(smelt.load("model.so"), smelt.Executable)
    made = exe(x)
    assert_type(made, smelt.NDArray | smelt.Results)
    if not isinstance(made, smelt.Results):
        assert_type(made.numpy(), npt.NDArray[Any])
        return made
    assert_type(made["scores"], smelt.NDArray)
    assert_type(made[:1], tuple[smelt.NDArray, ...])
    assert_type(made.as_dict(), dict[str, smelt.NDArray])
    return made[0]
