"""Models on emulated microcontrollers: results are those of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import smelt
from smelt.micro import compile_c

from .boards import BOARDS, build, need_boards, run
from .test_c import OPTIONS, TINY, numbers


def quantized() -> onnx.ModelProto:
    """Two convolutions of bytes, one by channel, and what their rows come to."""
    rng = np.random.default_rng(3)
    values: dict[str, Any] = {
        "w": rng.integers(-90, 90, (8, 4, 3, 3)).astype(np.int8),
        "v": rng.integers(-90, 90, (8, 1, 3, 3)).astype(np.int8),
        "b": rng.integers(-500, 500, 8).astype(np.int32),
        "s": np.float32(0.05), "t": np.float32(0.01), "u": np.float32(0.3),
        "z": np.int8(3), "none": np.int8(0),
    }  # fmt: skip
    nodes = [
        helper.make_node("QLinearConv", ["x", "s", "z", "w", "t", "none", "u", "none", "b"], ["a"],
                         pads=[1, 1, 1, 1]),
        helper.make_node("QLinearConv", ["a", "u", "none", "v", "t", "none", "u", "z", "b"], ["y"],
                         group=8, strides=[2, 2]),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "bytes", [helper.make_tensor_value_info("x", T.INT8, [1, 4, 9, 9])],
        [helper.make_tensor_value_info("y", T.INT8, [1, 8, 4, 4])],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in values.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("level", ["-O3", "-Os"])
@pytest.mark.parametrize("name", BOARDS)
def test_bytes(name: str, level: str, tmp_path: Path) -> None:
    need_boards()
    model, board = quantized(), BOARDS[name]
    exe = smelt.compile(model, options=OPTIONS)
    given = numbers(exe)
    wanted = exe(*given).numpy()
    made = compile_c(model, board.target, options=OPTIONS)
    found = [np.zeros_like(wanted)]
    count = run(build(made, board, tmp_path, given, found, level), board, found)
    np.testing.assert_array_equal(found[0], wanted)
    assert 5_000 < count < 5_000_000


@pytest.mark.parametrize("name", ["kws_int8", "ad_int8", "ic_int8", "vww_int8"])
def test_trained_models(name: str, tmp_path: Path) -> None:
    need_boards()
    path = TINY / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"no trained models in {TINY} (SMELT_MODELS)")
    exe = smelt.compile(str(path), options=OPTIONS)
    given = numbers(exe)
    wanted = exe(*given).numpy()
    made = compile_c(str(path), "c -mcpu=cortex-m4", options=OPTIONS)
    found = [np.zeros_like(wanted)]
    board = BOARDS["m4"]
    assert run(build(made, board, tmp_path, given, found), board, found) > 0
    np.testing.assert_array_equal(found[0], wanted)
