"""`smelt quantize`: files in, a model, a report and a page out."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
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


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str, command: str = "quantize") -> int:
    monkeypatch.setattr(sys, "argv", ["smelt", command, *arguments])
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
def test_products_with_bytes_that_the_run_makes_agree_to_some_steps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows of several layers: what differs in the last bit is rounded to another step."""
    rng = np.random.default_rng(0)
    made = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        net (float[rows, 200] x) => (float[rows, 30] y)
        { a = MatMul(x, v)  b = Relu(a)  c = MatMul(b, w)  y = MatMul(c, z) }"""
    )
    for name, shape in {"v": (200, 160), "w": (160, 96), "z": (96, 30)}.items():
        array = (rng.standard_normal(shape) / shape[0] ** 0.5).astype("float32")
        made.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.save(made, "layers.onnx")
    how = ["--activations", "dynamic", "--weights", "int4"]
    assert run(monkeypatch, "layers.onnx", *how, "-o", "q.onnx") == 0
    assert "3 of 3 layers quantized" in capsys.readouterr().out
    assert run(monkeypatch, "q.onnx", "--shape", "x=16,200", command="check") == 0
    assert run(monkeypatch, "layers.onnx", "--activations", "dynami", "-o", "q.onnx") == 2
    assert "activations='dynami'; nearest: dynamic" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("arguments", "said"), [
    (["net.onnx", "-o", "q.onnx"], "--data is missing: give samples of the model's inputs, or "
     "quantize weights alone with --activations float32"),
    (["net.onnx", "--data", "samples.npz", "-o", "q.so"], "cannot write q.so: .so files cannot be "
     "written; legal: an ONNX model, model.int8.onnx"),
    (["net.onnx", "--data", "samples.npz", "-o", "./net.onnx"],
     "--output ./net.onnx is the model itself; give another file"),
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
