"""Models on emulated microcontrollers: results are those of this machine."""

from __future__ import annotations

import importlib.util
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import smelt
from smelt.micro import BOARDS, Board, Session, compile_c, open_board
from smelt.micro.program import write_program
from smelt.micro.session import start
from smelt.micro.toolchain import build
from smelt.runtime.errors import MicroError

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


@pytest.mark.parametrize("name", BOARDS)
def test_programs_have_no_warnings(name: str, tmp_path: Path) -> None:
    board = BOARDS[name]
    need(board)
    write_program(compile_c(quantized(), board.target, options=OPTIONS), board, tmp_path)
    assert build(tmp_path, board, "-O2", ("-Wall", "-Wextra", "-Wconversion", "-Werror")).exists()


FLOATS = """<ir_version: 8, opset_import: ["": 17]>
net (float[2, 24] x) => (float[2, 24] y) <float[1] two = {2.5}> {
    a = Softmax(x)
    b = Tanh(x)
    c = Round(x)
    d = Abs(x)
    e = Pow(d, two)
    f = Sqrt(d)
    y = Sum(a, b, c, e, f)
}"""


@pytest.mark.parametrize("name", BOARDS)
def test_floats(name: str) -> None:
    """Functions of math.h, without a C library, too."""
    compared(onnx.parser.parse_model(FLOATS), BOARDS[name], exact=False)


def test_a_function_that_nobody_has(monkeypatch: pytest.MonkeyPatch) -> None:
    need(BOARDS["mps2-an386"])
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("ziglang is missing: make setup-edge")
    which = shutil.which
    monkeypatch.setattr("shutil.which", lambda name: None if "gcc" in name else which(name))
    model = onnx.parser.parse_model(FLOATS.replace("Tanh", "Erf"))
    with pytest.raises(MicroError) as wrong:
        open_board(compile_c(model, options=OPTIONS), "mps2-an386")
    assert str(wrong.value) == (
        "the program for mps2-an386 needs erff, which no library here has: apt install "
        "gcc-arm-none-eabi libnewlib-arm-none-eabi brings a C library"
    )


def dense(*sizes: int) -> onnx.ModelProto:
    """Layers in float."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal(s).astype(np.float32) / 30 for s in pairwise(sizes)]
    nodes = [
        helper.make_node("MatMul", [f"x{n}", f"w{n}"], [f"x{n + 1}"]) for n in range(len(weights))
    ]
    ends = [
        helper.make_tensor_value_info(f"x{n}", T.FLOAT, [1, sizes[n]]) for n in (0, len(sizes) - 1)
    ]
    arrays = [numpy_helper.from_array(w, f"w{n}") for n, w in enumerate(weights)]
    graph = helper.make_graph(nodes, "dense", ends[:1], ends[1:], arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(("name", "width"), [("mps3-an547", 400), ("mps2-an386", 1100)])
def test_constants_in_the_larger_memory(name: str, width: int) -> None:
    compared(dense(8, width, width, 8), BOARDS[name], "-O1", exact=False)


def test_a_model_that_is_too_large() -> None:
    need(BOARDS["mps3-an547"])
    model = compile_c(dense(4, 1200, 1200, 1200, 4), "c -mcpu=cortex-m55", options=OPTIONS)
    with pytest.raises(MicroError, match=r"^the program for mps3-an547 is too large for it; the"):
        open_board(model, "mps3-an547", level="-O1")


ENDS = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, -0.0, np.nan, np.inf, -np.inf, 3e9, -3e9,
        2147483520.0, -2147483648.0, 127.5, 128.5, -128.5, -129.5, 255.5, 256.0, 65535.6, 1e20,
        8388609.0, 8388607.5, -8388607.5]  # fmt: skip


@pytest.mark.parametrize("name", ["mps2-an385", "mps2-an386", "mps3-an547"])
def test_floats_become_integers(name: str) -> None:
    """The nearest ones, cut off and rounded: by instructions where processors have them."""
    board, x = BOARDS[name], np.array(ENDS, "float32")
    need(board)
    kinds = {"int8": 3, "uint8": 2, "uint16": 4, "int32": 6, "uint32": 12, "int64": 7}
    both = [(k, n, v) for k, n in kinds.items() for v in "xr"]
    made = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> net (float[{x.size}] x) => (float[{x.size}] r, '
        + ", ".join([f"{k}[{x.size}] {v}{n}" for k, n, v in both]) + ") { r = Round (x) "
        + " ".join([f"{v}{n} = Cast <to = {n}> ({v})" for _, n, v in both]) + "}"
    )  # fmt: skip
    wanted = [w.numpy() for w in smelt.compile(made, options=OPTIONS)(x)]
    with open_board(compile_c(made, board.target, options=OPTIONS), board) as session:
        for found, w in zip(session.run(x), wanted, strict=True):
            np.testing.assert_array_equal(found, w)
            assert found.dtype.kind != "f" or (np.signbit(found) == np.signbit(w)).all()


PROGRAMS = {
    "*(volatile int *)0xF0000000 = 1": r"^qemu-system-arm ended: the program has met a fault",
    "return 0": r"^qemu-system-arm ended with exit code 0",
    "for (;;) continue": r"^HELLO: the board gives no answer; tried 3 times, 0.5 s each$",
}


@pytest.mark.parametrize("does", PROGRAMS)
def test_programs_that_do_not_serve(does: str, tmp_path: Path) -> None:
    board = BOARDS["mps2-an386"]
    need(board)
    write_program(compile_c(quantized(), board.target, options=OPTIONS), board, tmp_path)
    (tmp_path / "main.c").write_text(f"int main(void) {{ {does}; return 0; }}\n")
    line = start(build(tmp_path, board, "-O1"), board)
    with line, pytest.raises(MicroError, match=PROGRAMS[does]):
        Session(line, timeout=0.5)


@pytest.mark.parametrize("name", ["kws_int8", "ad_int8", "ic_int8", "vww_int8", "kws_f32"])
def test_trained_models(name: str) -> None:
    path = TINY / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"no trained models in {TINY} (SMELT_MODELS)")
    assert compared(str(path), BOARDS["mps2-an386"], exact=name.endswith("int8"))
