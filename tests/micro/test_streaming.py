"""Kernels that run row by row: what they compute, and how little memory is between them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt.arith import Analyzer
from smelt.artifact import streaming
from smelt.artifact.rows import Pace
from smelt.ir.build import value_of
from smelt.ir.expr import Var, const
from smelt.ir.walk import substitute
from smelt.micro import CSource, compile_c
from tests.models.net import Net, floats

from .test_c import OPTIONS, TINY, compiled, run

ANY_SAVING = 1e9
"""Kernels are streamed even where that saves nothing."""
SANITIZED = ("-fsanitize=undefined", "-fno-sanitize-recover=all")
TURN = Var("turn", "int32")


def results(made: CSource, folder: Path, x: Any, *flags: str) -> list[Any]:
    """What a model of one input computes."""
    folder.mkdir(exist_ok=True)
    found = [np.full(t.shape, 77, t.dtype) for t in made.outputs]
    assert run(made, compiled(made, folder, *flags), [x], found) == 0
    return found


def same(model: Any, x: Any, folder: Path, target: str = "c") -> tuple[CSource, CSource]:
    """A model with streams and without them: all bits of the results are equal."""
    made, plain = (compile_c(model, target, stream=s, options=OPTIONS) for s in (True, False))
    pairs = zip(results(made, folder / "rows", x, *SANITIZED),
                results(plain, folder / "plain", x), strict=True)  # fmt: skip
    for a, b in pairs:
        np.testing.assert_array_equal(a, b)
    return made, plain


def network(seed: int) -> tuple[onnx.ModelProto, Any]:
    """Convolutions, pools and shortcuts over an image, of random sizes."""
    random, net = np.random.default_rng(seed), Net(seed)
    shape = [1, int(random.integers(1, 4)), *map(int, random.integers(12, 20, 2))]
    x, channels, least = net.input("x", shape), shape[1], min(shape[2:])
    for _ in range(int(random.integers(3, 6))):
        kind = random.choice(["conv", "point", "depth", "pool", "shortcut"])
        side, stride = int(random.choice([2, 3, 5])), int(random.integers(1, 4))
        if (least := (least - side) // stride + 1) < 1:
            break
        pads = [int(n) for n in random.integers(0, 2, 4)]
        made = int(random.integers(1, 7))
        if kind == "conv":
            x, channels = net.conv(x, (channels, made), side, stride, pads=pads), made
        elif kind == "point":
            x, channels = net.op("Relu", net.conv(x, (channels, made), 1)), made
        elif kind == "depth":
            x = net.conv(x, (channels, channels), side, stride, groups=channels, pads=pads)
        elif kind == "pool":
            x = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[stride, 1], pads=[0, 0, 1, 1])
        else:
            inner = net.op("Relu", net.conv(x, (channels, channels), 3))
            x = net.op("Add", net.conv(inner, (channels, channels), 3), x)
    if random.random() < 0.5:
        x = net.op("ReduceSum", x, net.ints(2, 3))
    return net.model(x), floats("x", *shape)["x"]


@pytest.mark.parametrize("seed", range(5))
def test_random_networks(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every order of operations is kept, so that floats are equal bit for bit."""
    monkeypatch.setattr(streaming, "_WORTH", ANY_SAVING)
    model, x = network(seed)
    made, plain = same(model, x, tmp_path)
    assert made.workspace_bytes <= plain.workspace_bytes


@pytest.mark.parametrize(("name", "target", "most"), [
    ("ic_int8", "c -mcpu=cortex-m4", 15_000),
    ("vww_int8", "c -mcpu=cortex-m4", 16_000), ("vww_int8", "c -mcpu=cortex-m55", 19_000),
])  # fmt: skip
def test_trained_models(name: str, target: str, most: int, tmp_path: Path) -> None:
    """Of bytes, for processors whose instructions are written as plain C here."""
    path = TINY / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"needs {path}")
    shape = {"ic": (1, 32, 32, 3), "kws": (1, 49, 10, 1), "vww": (1, 96, 96, 3)}[name[:-5]]
    x = np.random.default_rng(0).integers(-128, 128, shape).astype("int8")
    made, _ = same(path, x, tmp_path, target)
    assert made.workspace_bytes <= most  # an M55 has copies of windows, too


def test_pieces_across_rows(tmp_path: Path) -> None:
    """Of an odd width, whose pixels are computed two by two."""
    net = Net()
    x = net.op("Relu", net.conv(net.input("x", [1, 4, 17, 17]), (4, 24), 1))
    x = net.op("Relu", net.conv(x, (24, 24), 3, 2, groups=24))
    made, _ = same(net.model(net.conv(x, (24, 6), 1)), floats("x", 1, 4, 17, 17)["x"], tmp_path)
    assert "net_rows_of_2_kernels" in made.kernels


@pytest.mark.parametrize("stride", [3, 5])
def test_rows_that_nobody_reads(
    stride: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window that goes further than it is high leaves rows out; they are written all the same,
    into the workspace and not in front of it."""
    monkeypatch.setattr(streaming, "_WORTH", ANY_SAVING)
    net = Net()
    x = net.conv(net.input("x", [1, 3, 24, 24]), (3, 8), 3, pads=[1, 1, 1, 1])
    model = net.model(net.conv(x, (8, 4), 2, stride))
    made, _ = same(model, floats("x", 1, 3, 24, 24)["x"], tmp_path)
    assert any("rows_of" in k for k in made.kernels)


def image(net: Net) -> str:
    """A chain whose middle is larger than its ends."""
    x = net.op("Relu", net.conv(net.input("x", [1, 2, 16, 16]), (2, 16), 3))
    return net.op("Relu", net.conv(net.op("Relu", net.conv(x, (16, 16), 3)), (16, 2), 3, 2))


def test_what_is_between_has_few_rows(tmp_path: Path) -> None:
    """Three rows of either image are kept, of 16 pixels with 16 channels."""
    net = Net()
    made, plain = same(net.model(image(net)), floats("x", 1, 2, 16, 16)["x"], tmp_path)
    assert plain.workspace_bytes >= 16 * 16 * 16 * 4
    assert made.workspace_bytes == 2 * 3 * 16 * 16 * 4 + 2 * 8 * 8 * 4
    assert made.kernels == ("net_rows_of_3_kernels", "net_copy")
    assert made.memory.workspace == made.memory.least


def test_what_is_read_elsewhere_is_whole(tmp_path: Path) -> None:
    """A result of the model, and one that a kernel needs later."""
    net = Net()
    x = net.conv(net.input("x", [1, 2, 12, 12]), (2, 8), 3)
    y = net.conv(x, (8, 8), 3)
    made, _ = same(net.model(x, y), floats("x", 1, 2, 12, 12)["x"], tmp_path)
    assert len(made.kernels) > 1


def test_little_is_not_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    model = net.model(image(net))
    monkeypatch.setattr(streaming, "_WORTH", 0.01)
    assert len(compile_c(model, options=OPTIONS).kernels) == 4


paces = st.builds(
    lambda up, down, ahead, rows: Pace(Fraction(min(up, down), down), Fraction(ahead, down), rows),
    st.integers(1, 6), st.integers(1, 6), st.integers(-20, 40), st.integers(1, 30),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(paces, st.integers(-60, 60))
def test_paces(pace: Pace, turn: int) -> None:
    """A turn brings one row at most; the expression is the same number."""
    before, after = pace.at(np.array([turn - 1, turn])).tolist()
    assert 0 <= after - before <= 1
    said = substitute(pace.after(TURN), {TURN: const(turn, "int32")})
    assert value_of(Analyzer().simplify(said)) == after
    assert pace.at(np.array([pace.start - 1])) == 0
    assert pace.at(np.array([pace.start])) == 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=20), st.integers(1, 4), st.integers(1, 4))
def test_a_pace_has_what_is_wanted(wanted: list[int], up: int, down: int) -> None:
    rows = np.maximum.accumulate(np.array([*wanted, 1]))
    turns = np.arange(-3, len(rows) - 3)
    pace = Pace.of(Fraction(min(up, down), down), turns, rows)
    assert (pace.at(turns) >= rows).all()
    slower = replace(pace, ahead=pace.ahead - Fraction(1, down))
    assert (slower.at(turns) < rows).any()
