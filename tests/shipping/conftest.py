"""Two small networks, compiled once a session, with an input and onnxruntime's result of each."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onnx
import pytest

from smelt.runtime import Executable
from tests.frontend.models import reference
from tests.models import conv_nets
from tests.models.compare import compiled
from tests.models.folder import kernels
from tests.models.net import Array, floats

ROOT = Path(__file__).resolve().parents[2]
Script = Callable[..., subprocess.CompletedProcess[str]]


@dataclass(frozen=True)
class Case:
    """A network: the model, an input, the expected result, and the model as a file."""

    name: str
    model: onnx.ModelProto
    x: Array
    y: Array
    path: Path


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return kernels(tmp_path_factory)


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    folder = tmp_path_factory.mktemp("models")
    found = {}
    for name, model, shape in (
        ("conv", conv_nets.dscnn(2), (2, 1, 49, 10)),
        ("mlp", conv_nets.mlp(2), (2, 196)),
    ):
        x = floats("x", *shape)
        path = folder / f"{name}.onnx"
        onnx.save(model, path)
        found[name] = Case(name, model, x["x"], reference(model, x)[0], path)
    return found


@pytest.fixture(params=["conv", "mlp"])
def case(request: pytest.FixtureRequest, cases: dict[str, Case]) -> Case:
    return cases[str(request.param)]


@pytest.fixture
def exe(case: Case, cache: str) -> Executable:
    return compiled(case.model, cache, 2)


@pytest.fixture
def script() -> Script:
    """Runs a Python program in a process of its own; it has to end well."""

    def run(text: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-c", text, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", **environment},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    return run
