"""`smelt micro`: a model on a board, and on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner, Result

import smelt
from smelt.cli.commands import app
from smelt.micro import BOARDS, Session
from smelt.runtime.errors import SmeltError
from tests.micro.test_boards import need, quantized


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "net.onnx"
    onnx.save(quantized(), path)
    return str(path)


def asked(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["micro", *map(str, arguments)])


def said(*arguments: str | Path) -> str:
    done = asked(*arguments)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


@pytest.mark.parametrize("board", ["host", "mps2-an386"])
def test_from_a_model_to_its_results(board: str, model: str, tmp_path: Path) -> None:
    need(BOARDS[board])
    x = np.random.default_rng(0).integers(-128, 128, (1, 4, 9, 9)).astype(np.int8)
    np.save(tmp_path / "x.npy", x)
    files = "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy"
    found = json.loads(said("run", model, "--board", board, *files, "--json"))
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), smelt.compile(model)(x).numpy())
    (output,) = found["outputs"]
    assert (output["name"], output["dtype"], output["shape"]) == ("y", "int8", [1, 8, 4, 4])
    emulated = board != "host"
    assert (found["instructions"] is not None) == (found["stack_bytes"] is not None) == emulated
    text = said("run", model, "--board", board, "--check", "-Os")
    assert ("instructions on mps2-an386" if emulated else "ms on host") in text
    assert "workspace" in text
    assert ("stack used" in text) == emulated


@pytest.mark.parametrize("board", ["host", "mps2-an386"])
def test_profile(board: str, model: str) -> None:
    need(BOARDS[board])
    found = json.loads(said("profile", model, "--board", board, "--json"))
    assert sum([s["ticks"] for s in found["steps"]]) <= found["ticks"]
    assert [s["operations"] > 0 for s in found["steps"]] == [True, True, False]
    text = said("profile", model, "--board", board)
    assert ("instructions, not cycles" if board != "host" else "a tick is 100 ns") in text


def test_results_that_differ(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Session.run
    monkeypatch.setattr(Session, "run", lambda *a: [~y for y in run(*a)])
    done = asked("run", model, "--board", "host", "--check")
    assert done.exit_code == 1


def test_inputs_that_do_not_fit(model: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 3), np.float32))
    done = asked("run", model, "--board", "host", "--input", tmp_path / "x.npy")
    assert isinstance(done.exception, SmeltError)
    assert str(done.exception) == ("net: input 'x' is float32[2, 3]; legal: int8[1, 4, 9, 9]")
