"""The cache of kernels: nothing is compiled twice, and nothing breaks it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt.artifact.model import BUILD
from smelt.codegen.workers import WorkerPool
from tests.models.compare import agree, compiled, run
from tests.shipping.conftest import ROOT, Case

Jobs = list[int]


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """How many jobs each compilation has given to the workers."""
    counts: Jobs = []
    original: Callable[..., list[Any]] = WorkerPool.map

    def counted(pool: WorkerPool, function: str, work: Sequence[Any], *more: Any) -> list[Any]:
        if function == BUILD:  # kernels come first, then programs over constants
            counts.append(0)
        counts[-1] += len(work)
        return original(pool, function, work, *more)

    monkeypatch.setattr(WorkerPool, "map", counted)
    return counts


def entries(cache: Path) -> list[Path]:
    return sorted(p for p in (cache / "objects").rglob("*") if p.is_file())


def test_the_second_compilation_has_no_work(case: Case, tmp_path: Path, jobs: Jobs) -> None:
    for _ in range(2):
        agree(run(compiled(case.model, str(tmp_path)), {"x": case.x}), [case.y])
    assert jobs[0] > 0
    assert jobs[1] == 0
    assert len(entries(tmp_path)) == jobs[0] + 1  # the host program is one of its own


def test_other_options_are_other_entries(
    cases: dict[str, Case], tmp_path: Path, jobs: Jobs
) -> None:
    case, cache = cases["mlp"], str(tmp_path)
    compiled(case.model, cache, 1)
    compiled(case.model, cache, 2)
    compiled(case.model, cache, 1, "llvm -mcpu=x86-64")
    smelt.compile(case.model, options=smelt.Options(threads=1, cache_dir=cache, opt_level=1))
    assert all(n > 0 for n in jobs), jobs


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "swap"])
def test_damaged_entries_are_compiled_again(
    damage: str, cases: dict[str, Case], tmp_path: Path, jobs: Jobs
) -> None:
    case = cases["mlp"]
    compiled(case.model, str(tmp_path))
    texts = [p.read_bytes() for p in entries(tmp_path)]
    for i, path in enumerate(entries(tmp_path)):
        data = bytearray(texts[i])
        data[len(data) // 2] ^= 1
        other = texts[(i + 1) % len(texts)]
        choices = {"cut": texts[i][:-9], "flip": bytes(data), "empty": b"", "swap": other}
        path.write_bytes(choices[damage])
    agree(run(compiled(case.model, str(tmp_path)), {"x": case.x}), [case.y])
    assert jobs[1] == jobs[0]
    compiled(case.model, str(tmp_path))
    assert jobs[2] == 0


COMPILE = """
import sys, numpy, smelt
model, cache, x, y = sys.argv[1:]
options = smelt.Options(cache_dir=cache, workers=1)
got = smelt.compile(model, options=options)(numpy.load(x)).numpy()
numpy.testing.assert_allclose(got, numpy.load(y), rtol=0, atol=1e-4 * abs(got).max())
"""


def test_two_processes_compile_the_same_model_at_once(
    case: Case, tmp_path: Path, jobs: Jobs
) -> None:
    cache = tmp_path / "cache"
    for name, array in (("x", case.x), ("y", case.y)):
        np.save(tmp_path / f"{name}.npy", array)
    arguments = [case.path, cache, tmp_path / "x.npy", tmp_path / "y.npy"]
    command = [sys.executable, "-c", COMPILE, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}"}
    started = [subprocess.Popen(command, env=environment) for _ in range(2)]
    assert [p.wait(120) for p in started] == [0, 0]
    assert not [p for p in entries(cache) if p.name.startswith(".new-")]
    options = smelt.Options(cache_dir=str(cache))
    agree(run(smelt.compile(case.model, options=options), {"x": case.x}), [case.y])
    assert jobs == [0]
