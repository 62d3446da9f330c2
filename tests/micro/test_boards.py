"""Models on emulated microcontrollers: results are those of this machine."""

from __future__ import annotations

import importlib.util
import shutil
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import smelt
from smelt.micro import BOARDS, Board, compile_c, open_board

from .test_c import OPTIONS, TINY, Array, numbers


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


def need(board: Board) -> None:
    """Skip the test, naming what is missing."""
    if board.is_host:
        return
    if shutil.which("arm-none-eabi-gcc") is None and importlib.util.find_spec("ziglang") is None:
        pytest.skip("ziglang is missing: make setup-edge")
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is missing: make setup-edge")


def compared(
    model: Any, board: Board, level: str = "-O3", *, exact: bool = True, seed: int = 0
) -> int | None:
    """Compare a board's results with this machine's. Gives the instructions of the run."""
    need(board)
    exe = smelt.compile(model, options=OPTIONS)
    given = numbers(exe, seed)
    wanted: Array = exe(*given).numpy()
    made = compile_c(model, board.target, options=OPTIONS)
    with open_board(made, board, level=level) as session:
        (found,) = session.run(*given)
        if exact:
            np.testing.assert_array_equal(found, wanted)
        else:
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
        steps = session.steps()
        assert [s.kernel for s in steps] == [*made.kernels]
        assert sum([s.ticks for s in steps]) <= session.ticks
        if not board.is_host:
            used, watched = session.stack() or (0, 0)
            assert 100 < used < watched
        return session.instructions


@pytest.mark.parametrize("level", ["-O3", "-Os"])
@pytest.mark.parametrize("name", BOARDS)
def test_bytes(name: str, level: str) -> None:
    count = compared(quantized(), BOARDS[name], level)
    assert (count is None) == (name == "host")
    assert count is None or 5_000 < count < 5_000_000


@pytest.mark.parametrize("name", ["kws_int8", "ad_int8", "ic_int8", "vww_int8", "kws_f32"])
def test_trained_models(name: str) -> None:
    path = TINY / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"no trained models in {TINY} (SMELT_MODELS)")
    assert compared(str(path), BOARDS["mps2-an386"], exact=name.endswith("int8"))
