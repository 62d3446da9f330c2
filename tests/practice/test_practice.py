"""The practice programs run, say what they are to say, and measure what they claim."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from rich.console import Console

import smelt
from smelt import te
from smelt.practice import (
    auto_tune,
    manual_schedule,
    relay_import,
    schedule_analysis,
    schedules,
    te_basics,
)
from smelt.practice.comparison import compare
from smelt.practice.report import Report, check
from smelt.practice.traffic import cache_traffic


def told(run: Callable[[Report], object]) -> str:
    """What a practice program prints."""
    page = io.StringIO()
    run(Report(Console(file=page, width=100, highlight=False)))
    return page.getvalue()


@pytest.mark.parametrize("name", schedules.ALL)
@pytest.mark.parametrize("n", [16, 50, 64])
def test_all_schedules_compute_the_product(name: str, n: int) -> None:
    made = schedules.ALL[name](n)
    assert check(smelt.build(made.schedule, made.args), n) < 1e-5


@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3"])
def test_vectors_wider_than_registers_are_compiled(cpu: str) -> None:
    """Rows of 32 with a mask, which LLVM cannot always cut."""
    made = schedules.packed(50)
    smelt.build(made.schedule, made.args, f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={cpu}")


def test_te_basics_shows_the_loops() -> None:
    text = told(lambda say: te_basics.main(32, say))
    assert "C[i, j] = C[i, j] + A[i, k] * B[k, j]" in text
    assert "Why is the computation declared apart from the schedule?" in text
    assert "times as fast here" in text


def test_manual_schedule_shows_every_primitive_before_and_after() -> None:
    text = told(lambda say: manual_schedule.main(32, say))
    for step in manual_schedule.STEPS:
        assert step.call in text
    assert text.count("Before:") == text.count("After:") == len(manual_schedule.STEPS)
    assert "T.vectorized(4)" in text
    assert "T.parallel(2)" in text
    assert "miss rate" in text


def test_schedule_analysis_compares_over_sizes() -> None:
    text = told(lambda say: schedule_analysis.main((16, 32), say))
    assert "times naive" in text
    assert "GFLOP/s over sizes" in text
    assert "At what matrix size does parallelization start helping?" in text


def test_relay_import_agrees_and_fuses() -> None:
    text = told(relay_import.main)
    assert "nn.dense" in text
    assert "Primitive=1" in text or "primitive" in text.lower()
    assert "opt_level=3" in text


def test_relay_import_works_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "PyTorch is not installed" in told(relay_import.main)


def test_auto_tune_compares_what_it_finds_with_schedules_by_hand() -> None:
    found: dict[str, float] = {}
    text = told(lambda say: found.update(auto_tune.main(48, say, trials=4)))
    assert set(found) == {*auto_tune.BY_HAND, auto_tune.RULES, auto_tune.TUNED}
    assert "sch.split(" in text  # the trace of the best
    assert "0 of them failed" in text.replace("\n", " ")
    assert "times the best by hand" in text


def test_the_comparison_has_a_limit_and_peers() -> None:
    found = compare(64, rounds=2)
    assert {"naive", "parallel", "packed"} <= set(found.seconds)
    assert found.limit > 0
    assert found.share("packed") == pytest.approx(found.speed("packed") / found.limit)


def test_phases_run_by_name() -> None:
    def run(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "smelt.practice", *args]
        return subprocess.run(command, capture_output=True, text=True)

    done = run("te_basics", "--size", "16")
    assert done.returncode == 0, done.stderr
    assert "Phase 1" in done.stdout
    shown = run("--help").stdout
    for phase in ("te_basics", "manual_schedule", "schedule_analysis", "relay_import",
                  "auto_tune", "main"):  # fmt: skip
        assert phase in shown
    assert run("te_basic").returncode == 2


# ---------------------------------------------------------------------------------- cache traffic


def flat(rows: int, columns: int, by_columns: bool) -> smelt.tir.PrimFunc:
    """The sum of a matrix in one order or the other."""
    a = te.placeholder((rows, columns), name="A")
    i, j = te.reduce_axis((0, rows), "i"), te.reduce_axis((0, columns), "j")
    c = te.compute((1,), lambda _: te.sum(a[i, j], axis=[i, j]), name="C")
    s = te.create_schedule(c.op)
    if by_columns:
        s[c].reorder(j, i)
    made: smelt.tir.PrimFunc = smelt.lower(s, [a, c])["main"]
    return made


def test_neighbours_share_a_line() -> None:
    found = cache_traffic(flat(64, 64, by_columns=False), 1024)
    assert found.misses == 64 * 64 * 4 // 64 + 2  # and the line of the result, before and after
    assert found.bytes == found.misses * 64
    assert found.accesses == 64 * 64 + 3  # the sum is in a register: start value, load, store


def test_columns_miss_every_time_until_the_cache_holds_all_their_lines() -> None:
    small = cache_traffic(flat(64, 64, by_columns=True), 1024)
    assert small.misses == 64 * 64 + 2
    large = cache_traffic(flat(64, 64, by_columns=True), 8192)
    assert large.misses == 64 * 64 * 4 // 64 + 2


def test_traffic_of_guarded_programs_counts_what_runs() -> None:
    a = te.placeholder((10,), name="A")
    c = te.compute((10,), lambda i: a[i] + 1.0, name="C")
    s = te.create_schedule(c.op)
    s[c].split(c.op.axis[0], factor=4)
    found = cache_traffic(smelt.lower(s, [a, c])["main"], 4096)
    assert found.accesses == 20
    assert np.isclose(found.bytes, 2 * 64)
