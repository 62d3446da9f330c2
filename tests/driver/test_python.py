"""The same from Python, under smelt's name and the classic one."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import smelt
from smelt.driver import tvmc
from smelt.driver.tvmc import TVMCException, TVMCModel, TVMCPackage, TVMCResult

from .conftest import Array


def test_from_a_file_to_a_result(folder: Path, image: Array, expected: Array) -> None:
    model = tvmc.load("net.onnx")
    assert isinstance(model.mod, smelt.IRModule)
    package = tvmc.compile(model, target="llvm -mcpu=native", opt_level=2)
    result = tvmc.run(package, device="cpu", inputs={"input": image}, benchmark=True, repeat=3)
    np.testing.assert_allclose(result.get_output("output_0"), expected, rtol=1e-4, atol=1e-5)
    assert result.times is not None
    assert len(result.times.results) == 3
    assert 0 < result.times.mean < 1
    shown = str(result)
    assert shown.startswith("Execution time summary:\n")
    assert shown.endswith("\n\nOutput Names:\n ['output_0']")
    result.save("out.npz")
    again = tvmc.run(TVMCPackage(package_path=package.package_path))
    assert again.times is None
    assert list(again.outputs) == ["output_0"]


def test_the_shapes_that_are_asked_for(folder: Path) -> None:
    model = tvmc.load("net.onnx", shape_dict={"input": [4, 3, 32, 32]})
    assert tvmc.run(tvmc.compile(model)).get_output("output_0").shape == (4, 10)


def test_a_summary(model: TVMCModel) -> None:
    text = io.StringIO()
    model.summary(file=text)
    assert "def @main(%input: Tensor[(1, 3, 32, 32), float32]" in text.getvalue()
    assert len(text.getvalue()) < 50_000


def test_a_package_lives_as_long_as_it_is_used(model: TVMCModel) -> None:
    package = tvmc.compile(TVMCModel(model.mod, model.params))
    assert tvmc.run(package).outputs


def test_mistakes(model: TVMCModel, tmp_path: Path) -> None:
    result = TVMCResult({"output_0": np.zeros(3)})
    with pytest.raises(TVMCException, match="no output 'logits'; outputs: output_0"):
        result.get_output("logits")
    with pytest.raises(smelt.SmeltError, match=r"\.npy files cannot be written"):
        result.save(tmp_path / "out.npy")
    with pytest.raises(TVMCException, match="give mod and params"):
        TVMCModel()
    with pytest.raises(TVMCException, match="there is no such package"):
        TVMCPackage(tmp_path / "nothing.tar")
    with pytest.raises(TVMCException, match=r"tvmc\.run takes what tvmc\.compile gives, not a str"):
        tvmc.run("net.tar")  # type: ignore[arg-type]
    with pytest.raises(TVMCException, match="--tuner annealing: legal: ga, "):
        tvmc.tune(model, tuner="annealing", tasks_filter="0")


PROGRAM = """
import smelt.compat
smelt.compat.as_tvm()
from tvm.driver import tvmc
from tvm.driver.tvmc.model import TVMCPackage
model = tvmc.load("net.onnx")
tvmc.compile(model, target="llvm", package_path="net.so")
print(tvmc.run(TVMCPackage(package_path="net.so"), device="cpu"))
"""


def test_the_classic_name(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Nothing was timed.\n\nOutput Names:\n ['output_0']\n"
