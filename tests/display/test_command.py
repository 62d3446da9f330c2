"""`smelt show` on the command line."""

import sys
from pathlib import Path

import onnx
import pytest

import smelt
from smelt.cli import main as command_line
from smelt.cli.show import Stage
from smelt.stages import STAGES

from .dom import read
from .test_show import model


@pytest.fixture(name="file")
def fixture_file(tmp_path: Path) -> str:
    """A model file."""
    path = tmp_path / "tiny.onnx"
    onnx.save(model(), path)
    return str(path)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the command line in this process; gives the exit code."""
    monkeypatch.setattr(sys, "argv", ["smelt", "show", *arguments])
    with pytest.raises(SystemExit) as done:
        command_line.main()
    return int(done.value.code or 0)


@pytest.mark.parametrize("stage", ["graph", "scheduled", "asm"])
def test_show_prints_a_stage(
    file: str, stage: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, file, "--stage", stage) == 0
    assert capsys.readouterr().out.rstrip() == smelt.stage_text(file, stage).rstrip()


def test_show_writes_a_page(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert run(monkeypatch, file, "--stage", "scheduled", "--html", str(page)) == 0
    assert capsys.readouterr().out == f"wrote {page}\n"
    assert read(page.read_text()).find("h1")[0].text == "fused_relu_add, scheduled"


def test_mistakes_are_one_message(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, file, "--html", str(tmp_path)) == 2
    assert capsys.readouterr().err == (
        f"smelt: error: cannot write {tmp_path}: it is a folder\n"
        "  legal: a file in a folder that is there\n"
    )
    assert run(monkeypatch, file, "--stage", "tir", "--kernel", "conv") == 2
    assert "the model has no kernel 'conv'; kernels: fused_relu_add" in capsys.readouterr().err


def test_the_command_line_knows_every_stage(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [str(s) for s in Stage] == list(STAGES)
    assert run(monkeypatch, file, "--stage", "layout") == 0
    assert "R.call_tir(" in capsys.readouterr().out
