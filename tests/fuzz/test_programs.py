"""Two hundred random tensor programs, and the means themselves."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from smelt.tir.printer import script
from tests.fuzz import programs


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler: gcc")
@pytest.mark.parametrize("first", range(0, 200, programs.BATCH))
def test_random_programs(first: int) -> None:
    assert programs.judge(range(first, first + programs.BATCH)) == {}


def test_a_seed_gives_the_same_program() -> None:
    for seed in range(20):
        assert script(programs.draw(seed)) == script(programs.draw(seed))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler: gcc")
def test_a_difference_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other(d: programs.Drawn) -> list[np.ndarray]:
        return [~a if a.dtype == bool else a + 1 for a in d.arguments()]

    monkeypatch.setattr(programs.Drawn, "interpreted", other)
    wrong = programs.judge([7, 8])
    assert sorted(wrong) == [7, 8]
    assert "LLVM and C differ from the interpreter" in wrong[7]
    assert "def random_7(" in wrong[7]
