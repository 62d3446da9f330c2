"""`smelt tune` and --database on mistakes: one message, and nothing is measured or left behind."""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
import pytest

from smelt.cli import main as command_line
from tests.bad_input.conftest import tiny

MISTAKES: dict[str, str] = {
    "tune good.onnx --trials 0": (
        "--trials 0: it should be greater than or equal to 1; see smelt tune --help"
    ),
    "tune good.onnx --minutes 0": (
        "--minutes 0: it should be greater than or equal to 0.01; see smelt tune --help"
    ),
    "tune good.onnx --kernel relu": ("the model has no kernel 'relu'; kernels: fused_relu_add"),
    "tune good.onnx --database nowhere/good.db": (
        "--database: cannot write nowhere/good.db: the folder nowhere does not exist"
    ),
    "tune good.onnx --database good.txt": (
        "good.txt: no kind of database; legal: a file of SQLite (NAME.db, NAME.sqlite), of JSON"
        " (NAME.json), a folder with database_workload.json and database_tuning_record.json, a URL"
        " (postgresql://...), :memory:"
    ),
    "tune good.onnx --page report.pdf": (
        "cannot write report.pdf: .pdf files cannot be written; legal: a page, report.html"
    ),
    "tune good.onnx --target raspberry-pi/4b-aarch64": (
        "nothing can be measured here for llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72"
        " -num-cores=4 -mattr=+neon -device=arm_cpu -tag=raspberry-pi/4b-aarch64; legal: this"
        " machine's CPU, or a runner"
    ),
    "tune other.so": "other.so is compiled already: this command needs the model itself",
    "bench good.onnx --database good.db": (
        "--database good.db: there is no such file; smelt tune MODEL --database good.db writes it"
    ),
}


@pytest.mark.parametrize("typed", MISTAKES)
def test_mistakes(
    typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(tiny(), "good.onnx")
    Path("other.so").touch()
    monkeypatch.setattr(sys, "argv", ["smelt", *typed.split()])
    with pytest.raises(SystemExit) as done:
        command_line.main()
    assert done.value.code == 2
    assert tuple(capsys.readouterr()) == ("", f"smelt: error: {MISTAKES[typed]}\n")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["good.onnx", "other.so"]
