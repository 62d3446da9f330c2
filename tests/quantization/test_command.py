"""`smelt quantize`: files in, a model, a report and a page out."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import smelt
from smelt.cli import main as command_line
from tests.quantization.networks import digits, trained


@pytest.fixture(name="folder")
def fixture_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model, samples of it, and the place where they are."""
    monkeypatch.chdir(tmp_path)
    smelt.to_onnx(trained("plain")[0], "net.onnx")
    np.savez("samples.npz", x=digits()[0][:50])
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["smelt", "quantize", *arguments])
    with pytest.raises(SystemExit) as done:
        command_line.main()
    return int(done.value.code or 0)


@pytest.mark.usefixtures("folder")
def test_a_model_is_quantized(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "net.onnx", "--data", "samples.npz", "-o", "q.onnx", "--page",
               "report.html", "--max-drop", "1") == 0  # fmt: skip
    said = capsys.readouterr().out
    assert "4 of 4 layers quantized (minmax, 50 samples)" in said
    assert "the same class for 100.0 % of the samples" in said
    page = Path("report.html").read_text(encoding="utf-8")
    assert "Quantization of net.onnx" in page
    assert page.count("<tr>") >= 5
    exe = smelt.compile("q.onnx")
    assert exe(digits()[0][0][None]).numpy().shape == (1, 10)


@pytest.mark.usefixtures("folder")
def test_the_report_as_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "net.onnx", "--data", "samples.npz", "-o", "q.onnx", "--method", "mse",
               "--samples", "20", "--json") == 0  # fmt: skip
    found = json.loads(capsys.readouterr().out)
    assert found["samples"] == 20
    assert [v["form"] for v in found["layers"]] == ["int8"] * 4
    assert all(v["noise"] > 20 for v in found["layers"])


@pytest.mark.usefixtures("folder")
def test_weights_alone_need_no_samples(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "net.onnx", "--activations", "float32", "-o", "q.onnx") == 0
    assert "1 of 4 layers quantized (weights alone)" in capsys.readouterr().out


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("arguments", "said"), [
    (["net.onnx", "-o", "q.onnx"], "--data is missing: give samples of the model's inputs, or "
     "quantize weights alone with --activations float32"),
    (["net.onnx", "--data", "samples.npz", "-o", "q.so"], "cannot write q.so: .so files cannot be "
     "written; legal: an ONNX model, model.int8.onnx"),
    (["net.onnx", "--data", "samples.npz", "-o", "q.onnx", "--method", "best"], "method='best'"),
    (["net.onnx", "--data", "none.npz", "-o", "q.onnx"], "none.npz: there is no such file"),
    (["net.onnx", "--data", "samples.npz", "-o", "q.onnx", "--keep", "x"],
     "keep: the model has no layer 'x'"),
])  # fmt: skip
def test_mistakes(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert run(monkeypatch, *arguments) == 2
    assert said in capsys.readouterr().err.replace("\n", " ")
    assert not Path("q.onnx").exists()
