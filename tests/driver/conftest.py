"""The command, two models, and what onnxruntime says of the first."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from smelt.cli.resnet import resnet18
from smelt.driver.tvmc import TVMCModel, load
from smelt.driver.tvmc.main import main
from tests.golden import line as golden  # noqa: F401
from tests.golden import pytest_addoption as pytest_addoption

Array = np.ndarray[Any, Any]
Command = Callable[..., str]


def typed(words: str) -> int:
    """The exit code of what somebody types."""
    with pytest.raises(SystemExit) as done:
        main(shlex.split(words))
    assert isinstance(done.value.code, int)
    return done.value.code


@pytest.fixture(scope="session")
def image() -> Array:
    return np.random.default_rng(3).standard_normal((1, 3, 32, 32)).astype("float32")


@pytest.fixture(scope="session")
def network() -> onnx.ModelProto:
    return resnet18(width=8, image=32, classes=10)


@pytest.fixture(scope="session")
def expected(network: onnx.ModelProto, image: Array) -> Array:
    session = onnxruntime.InferenceSession(network.SerializeToString())
    found: Array = session.run(None, {"input": image})[0]
    return found


@pytest.fixture(scope="session")
def model(network: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> TVMCModel:
    path = tmp_path_factory.mktemp("model") / "net.onnx"
    onnx.save(network, path)
    return load(path)


@pytest.fixture
def folder(
    tmp_path: Path, network: onnx.ModelProto, image: Array, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The current folder, with net.onnx and image.npz."""
    onnx.save(network, tmp_path / "net.onnx")
    np.savez(tmp_path / "image.npz", input=image)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def tvmc(folder: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """What a command prints; code: what it ends with."""

    def run(words: str, code: int = 0) -> str:
        capsys.readouterr()
        found = typed(words)
        out, err = capsys.readouterr()
        assert found == code, (words, found, out, err)
        return err if code else out

    return run
