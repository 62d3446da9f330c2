"""`smelt show` on the command line."""

import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

import smelt
from smelt.cli import main as command_line
from smelt.runtime.limits import MachineLimits
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
    for chosen in (["--stage", "scheduled"], ["--kernel", "fused_relu_add"]):
        assert run(monkeypatch, file, *chosen, "-o", str(page)) == 0
        assert capsys.readouterr().out == f"wrote {page}\n"
        assert read(page.read_text()).find("h1")[0].text == "fused_relu_add, scheduled"


def test_show_writes_a_text(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "stage.txt"
    assert run(monkeypatch, file, "--stage", "fused", "-o", str(text)) == 0
    assert text.read_text() == smelt.stage_text(file, "fused").rstrip() + "\n"


def test_show_writes_a_page_of_the_whole_model_with_times(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = MachineLimits(100.0, 10.0)

    def measure(threads: int | None, between: Callable[[], object]) -> MachineLimits:
        between()
        return limits

    monkeypatch.setattr(smelt, "machine_limits", measure, raising=False)
    page = tmp_path / "page.html"
    assert run(monkeypatch, file, "-o", str(page)) == 0
    assert capsys.readouterr() == (f"wrote {page}\n", "")
    made = read(page.read_text())
    (row,) = made.find("tbody")[0].find("tr")
    assert row.find("small")[0].text == "r, y"
    assert float(row.find("td")[0].attributes["data-value"]) > 0
    assert "100 GFLOP/s, 10 GB/s" in made.find("dl")[0].text


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--no-times"], "The times were left out (--no-times)."),
        (["--target", "llvm -mtriple=aarch64-linux-gnu"], "this machine cannot run"),
    ],
)
def test_the_page_says_why_there_are_no_times(
    file: str,
    more: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = tmp_path / "page.html"
    assert run(monkeypatch, file, *more, "-o", str(page)) == 0
    assert (said in capsys.readouterr().err) == (more != ["--no-times"])
    made = read(page.read_text())
    assert said in made.find("p", "hint")[0].text
    assert [e.text for e in made.find("thead")[0].find("button")][:2] != ["kernel", "ms"]


def test_mistakes_are_one_message(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, file, "-o", str(tmp_path / "no" / "a.html")) == 2
    assert "cannot write" in capsys.readouterr().err
    assert run(monkeypatch, file, "-o", str(tmp_path / "a.pdf")) == 2
    assert "legal: a page, e.g. model.html, or text, model.txt" in capsys.readouterr().err
    assert run(monkeypatch, file, "--no-times") == 2
    assert "--no-times is for the page of a whole model" in capsys.readouterr().err
    assert run(monkeypatch, file, "--stage", "tir", "--kernel", "conv") == 2
    assert "the model has no kernel 'conv'; kernels: fused_relu_add" in capsys.readouterr().err


def test_the_command_line_knows_every_stage(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, file, "--stage", "layout") == 0
    assert "R.call_tir(" in capsys.readouterr().out
    assert run(monkeypatch, file, "--stage", "laiout") == 2
    assert f"nearest: layout; stages: {', '.join(STAGES)}" in capsys.readouterr().err
