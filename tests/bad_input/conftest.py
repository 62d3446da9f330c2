"""Texts of errors, and the command line as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import pytest

from smelt.runtime import Executable
from smelt.runtime.errors import SmeltError
from tests.frontend.models import model, node
from tests.models.compare import compiled
from tests.models.folder import kernels

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Said:
    """What the command line printed, and its exit code."""

    code: int
    out: str
    err: str


Cli = Callable[..., Said]


def message(kind: type[SmeltError], action: Callable[[], Any]) -> str:
    """The text of the error, of exactly this kind, that an action ends with."""
    with pytest.raises(kind) as caught:
        action()
    assert type(caught.value) is kind
    return str(caught.value)


def tiny(*, batch: int | str = 2) -> onnx.ModelProto:
    """y = a + relu(x)."""
    nodes = [node("Relu", ["x"], ["r"]), node("Add", ["a", "r"], ["y"])]
    shape = (batch, 3)
    return model(nodes, {"x": (shape, "float32"), "a": (shape, "float32")})


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return kernels(tmp_path_factory)


@pytest.fixture(scope="session")
def exe(cache: str) -> Executable:
    return compiled(tiny(), cache)


@pytest.fixture
def cli(cache: str, tmp_path: Path) -> Cli:
    """Runs `smelt ARGUMENTS` in the test's folder."""

    def run(*arguments: str, **environment: str) -> Said:
        own = {"PYTHONPATH": str(ROOT / "src"), "SMELT_CACHE_DIR": cache, "COLUMNS": "100"}
        done = subprocess.run(
            [sys.executable, "-m", "smelt.cli.main", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=tmp_path,
            env={**os.environ, **own, **environment},
        )
        return Said(done.returncode, done.stdout, done.stderr)

    return run
