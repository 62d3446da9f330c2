"""Chosen schedules beside others: shapes, ranks, the table; and results that are kept in parts."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from benchmarks import regret, report
from benchmarks.shapes import MatMul


@pytest.mark.parametrize("name", regret.CLASSES)
def test_shapes_are_the_same_every_time(name: str) -> None:
    make = regret.CLASSES[name]
    found = [make(random.Random(seed)) for seed in (1, 1, 2)]
    assert found[0] == found[1]
    assert found[0][0] != found[2][0]


def test_ranks() -> None:
    assert regret.spearman([1, 2, 3, 4, 5], [10, 20, 40, 80, 90]) == pytest.approx(1.0)
    assert regret.spearman([1, 2, 3, 4, 5], [5, 4, 3, 2, 1]) == pytest.approx(-1.0)
    # both pairs of equal values share the rank between them
    assert regret.spearman([1, 1, 2, 3, 3], [1, 1, 2, 3, 3]) == pytest.approx(1.0)
    assert regret.spearman([1, 2, 3], [1, 2, 3]) is None
    assert regret.spearman([1, 1, 1, 1, 1], [1, 2, 3, 4, 5]) is None


def test_a_kernel_is_timed_beside_others() -> None:
    (row,) = regret.kernel_row("small", MatMul(64, 96, 300, constant=False).model(), 1, quick=True)
    assert row["regret"] >= 0
    assert "contraction" in row["chosen"]
    assert len(row["ms"]) > regret.NEXT
    assert min(row["ms"]) > 0
    text = regret.section({"groups": [{"class": "x", "half": "unseen", "threads": 1, "rows": [row]},
                                      {"class": "y", "half": "unseen", "threads": 1,
                                       "rows": {"error": "no memory"}}]})  # fmt: skip
    assert "| x, 1 thread(s)" in text
    assert "y, 1 thread(s), unseen: no memory." in text


def test_parts_replace_theirs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(report, "HERE", tmp_path)
    one, two = ({"case": c, "threads": 1, "rows": [1.0]} for c in "ab")
    report.write("noise", {"groups": [one, two]})
    report.write("noise", {"groups": [{**one, "rows": [2.0]}]}, whole=False)
    found = json.loads((tmp_path / "results" / "noise.json").read_text())
    assert found["groups"] == [two, {**one, "rows": [2.0]}]
    monkeypatch.setattr(report, "machine", lambda: {"cpu": "another"})
    report.write("noise", {"groups": [one]}, whole=False)
    found = json.loads((tmp_path / "results" / "noise.json").read_text())
    assert found["groups"] == [one]
