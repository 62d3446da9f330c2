"""A hundred mutated model files, and the means themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")

# by the full name, under which worker processes import it too
from tests.fuzz import mutate_models


def test_mutated_files_are_refused_or_right(tmp_path: Path) -> None:
    assert mutate_models.run(0, 100, 1, tmp_path) == 0


def test_a_seed_gives_the_same_file() -> None:
    for seed in range(20):
        assert mutate_models.model_of(seed) == mutate_models.model_of(seed)


def test_a_raw_exception_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **options: object) -> None:
        raise KeyError("x")

    path = tmp_path / "m.onnx"
    path.write_bytes(mutate_models.HAND[0]().SerializeToString())
    monkeypatch.setattr("smelt.cli.check.survey", broken)
    assert mutate_models.judge_file(str(path)).kind == "error"
    path.write_bytes(b"")
    assert mutate_models.judge_file(str(path)).kind == "error"
