"""A hundred mutated artifacts, and what mutating found before."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.artifact_samples import make_samples
from tests.fuzz.artifacts import FAILURES, judged


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_mutated_artifacts(tmp_path: Path) -> None:
    samples, runtime = tmp_path / "samples", tmp_path / "runtime"
    samples.mkdir()
    runtime.mkdir()
    make_samples(samples, runtime)
    verdicts = list(judged(samples, 0, 100))
    assert [v for v in verdicts if v.kind in FAILURES] == []
    kinds = Counter(v.kind for v in verdicts)
    assert kinds.total() == 100
    assert min(kinds["right"], kinds["refused"]) > 5  # what is mutated is sometimes not read


def test_a_process_that_dies_is_a_verdict(tmp_path: Path) -> None:
    (kind,) = {v.kind for v in judged(tmp_path / "none", 0, 2)}
    assert kind == "crash"
