"""What is measured of tuning: tables that are resumed, searches in them, programs, the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from benchmarks import tune, tune_formulas, tune_killed, tune_models, tune_tables
from benchmarks.shapes import MatMul
from smelt.search.database import MemoryDatabase
from smelt.search.record import ErrorCode
from smelt.search.runner import Attempt
from smelt.search.space import RuleSpace
from smelt.search.stores import open_database
from smelt.search.timing import Protocol
from smelt.search.tune import Settings, State, Task
from tests.search.samples import W, record

Arrays = dict[str, np.ndarray[Any, Any]]
SMALL = MatMul(12, 40, 64)


def small(threads: int = 1) -> tuple[Task, RuleSpace]:
    task = tune_tables.task_of(SMALL.model(), threads)
    return task, tune_tables.space_of(task)


def test_a_table_goes_on_where_it_stopped(tmp_path: Path) -> None:
    task, space = small()
    candidates = list(tune_tables.every(space))[:6]
    said: list[str] = []
    tune_tables.measured("a b", task, candidates[:4], tmp_path, said.append)
    found = tune_tables.measured("a b", task, candidates, tmp_path, said.append)
    again = tune_tables.measured("a b", task, candidates, tmp_path, said.append)
    assert said == ["a b: 4 of 4 measured", "a b: 6 of 6 measured"]
    assert found.rows == again.rows
    assert found.again == again.again
    assert all(t > 0 for t in found.rows.values())
    best = min(again.times, key=lambda t: again.times[t])
    assert best in again.again
    kept = tune_tables.opened(tmp_path / "a_b.json", again.stamp)
    assert kept.times == again.times
    assert not tune_tables.opened(tmp_path / "a_b.json", "another machine").rows


def test_what_failed_stays_so_in_a_file(tmp_path: Path) -> None:
    made = tune_tables.Table(tmp_path / "t.json", "s", 1e-3, {"a": float("inf"), "b": 0.5})
    made.save()
    assert tune_tables.opened(made.path, "s") == made


def test_candidates_are_all_or_some() -> None:
    _, space = small(threads=2)
    everything = {c.text for c in tune_tables.every(space)}
    assert len(everything) == space.size
    few = [c.text for c in tune_tables.some(space, 20)]
    assert len(few) == len(set(few)) == 20
    assert everything.issuperset(few)
    assert space.default().text in few
    assert few == [c.text for c in tune_tables.some(space, 20)]
    assert {c.text for c in tune_tables.some(space, 10_000)} == everything


def made_up(space: RuleSpace) -> dict[str, float]:
    """The default takes twice as long as the best, of which there is one."""
    order = sorted(tune_tables.every(space), key=lambda c: (c.predicted, c.text))
    times = {c.text: 1.5 + n / len(order) for n, c in enumerate(order)}
    return times | {space.default().text: 2.0, order[len(order) // 2].text: 1.0}


def test_searches_are_counted() -> None:
    task, space = small(threads=2)
    times = made_up(space)
    found = [tune_tables.searched(task, times, 0, learned=True) for _ in range(2)]
    assert found[0] == found[1]
    assert found[0] is not None
    assert 0 < found[0] < len(times)
    trials, ratio = tune_tables.settled(task, times, 0)
    assert 0 < trials < len(times)
    assert ratio >= 1.0
    default = space.default().text
    at_random = [tune_tables.drawn(default, times, seed) for seed in range(40)]
    assert 0 < min(at_random) < max(at_random) < len(times)
    assert tune_tables.searched(task, {**times, default: 1.01}, 0, learned=False) == 0
    assert tune_tables.drawn(default, {**times, default: 1.01}, 0) == 0


def test_a_table_answers_what_it_knows() -> None:
    _, space = small()
    one, two, *_ = tune_tables.every(space)
    runner = tune_tables.Answering({one.text: 1.0, two.text: 0.5})
    answer = runner.run(Attempt(one), Attempt(two), Protocol())
    assert answer.timed is not None
    assert answer.timed.relative == 0.5
    unknown = tune_tables.Answering({one.text: 1.0}).run(Attempt(one), Attempt(two), Protocol())
    assert unknown.error == ErrorCode.RUNTIME
    assert list(runner.asked) == [two.text]


def test_predictions_are_judged() -> None:
    known = tune_tables.Known("k", np.zeros((5, 1)), np.zeros(5), np.array([2.0, 1, 3, 4, 5]))
    assert known.judged(np.array([2.0, 1, 3, 4, 5])) == [pytest.approx(1.0), 0.0]
    assert known.judged(np.array([1.0, 2, 3, 4, 5])) == [pytest.approx(0.9), 1.0]


def test_algorithms_are_chosen_by_name() -> None:
    _, space = small()
    found = tune.wanted_ones(space, "", 20)
    assert len(found) == 20
    assert len({c.text for c in found}) == min(20, space.size)
    assert found[0].text == space.default().text
    assert not tune.wanted_ones(space, "winograd", 4)


def test_decisions_are_scored() -> None:
    row = tune.speed_row("product", SMALL.model(), quick=True)
    assert row["found"]["decisions"] == small(threads=2)[1].size
    assert all(row["found"][k] > 0 for k in ("bulk", "whole", "first", "closed", "learned"))
    assert "| product | " in tune.speed_text([row])


def convolved(x: np.ndarray[Any, Any], w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (1, 2))
    return np.asarray(np.einsum("chvpq,fcpq->fhv", windows, w))


def softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    e = np.exp(x - x.max(1, keepdims=True))
    return np.asarray(e / e.sum(1, keepdims=True))


def neighbours(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    return np.asarray((x[1:-1, 1:-1] + around) * 0.2)


@pytest.mark.parametrize(
    ("formula", "wanted", "moved"),
    [
        (tune_formulas.matmul(17), lambda a: a["A"] @ a["B"], 3 * 17 * 17),
        (tune_formulas.convolution(3, 5, 9), lambda a: convolved(a["X"], a["W"]), 243 + 135 + 245),
        (tune_formulas.softmax(5, 19), lambda a: softmax(a["X"]), 2 * 5 * 19),
        (tune_formulas.stencil(13), lambda a: neighbours(a["X"]), 13 * 13 + 15 * 15),
        (tune_formulas.bag(50, 8, 4, 6), lambda a: a["X"][a["at"]].sum(1), 24 + 24 * 8 + 4 * 8),
        (
            tune_formulas.distance(7, 5, 9),
            lambda a: np.abs(a["A"][:, None] - a["B"]).sum(2),
            7 * 9 + 5 * 9 + 7 * 5,
        ),
    ],
    ids=lambda v: v.func.name if isinstance(v, tune_formulas.Formula) else "",
)
def test_formulas_compute_what_they_say(
    formula: tune_formulas.Formula, wanted: Callable[[Arrays], Any], moved: int
) -> None:
    module = smelt.build(formula.func, threads=1)
    arrays = {k: v.copy() for k, v in formula.arrays.items()}
    module[module.entry_name](*arrays.values())
    assert np.allclose(arrays["out"], wanted(arrays), rtol=1e-4, atol=1e-5)
    assert formula.bytes == 4 * moved
    assert formula.operations > 0


def test_a_formula_is_timed_in_three_ways() -> None:
    formula = tune_formulas.distance(32, 24, 16)
    row = tune_formulas.formula_row("d", formula, 1, tune_formulas.QUICK_SECONDS)
    assert row["found"]["seconds"].keys() == {*tune_formulas.SIDES}
    assert max(row["found"]["errors"].values()) < 1e-5
    assert "| d, 1" in tune_formulas.section([row])


def test_winners_are_kept_at_each_stop(tmp_path: Path) -> None:
    with MemoryDatabase() as database:
        kept = tune_models._Snapshots(database, tmp_path, [2.0, 5.0])
        state = State([], Settings(trials=1))
        kept(state)
        assert not kept.files
        database.put(W, [record(confirmed=True), record(confirmed=False)])
        state.elapsed = 3.0
        kept(state)
        kept(state)
        state.elapsed = 7.0
        kept(state)
    assert [p.name for p in kept.files] == ["2.db", "5.db"]
    assert [t["elapsed"] for t in kept.told] == [3.0, 7.0]
    with open_database(kept.files[0], make=False) as found:
        assert [r.confirmed for r in found.records()] == [True]


def test_a_killed_session_loses_nothing_it_told_of(tmp_path: Path) -> None:
    told, running, stayed = tune_killed.killed(tmp_path / "t.db", 16, 0.3)
    assert told
    assert running
    assert not stayed
    records, wrong = tune_killed.whole(tmp_path / "t.db")
    assert not wrong
    assert {*told} <= {(r.workload, r.decision, r.source, r.when) for r in records}


def test_a_damaged_file_is_found_out(tmp_path: Path) -> None:
    with open_database(tmp_path / "t.db") as database:
        database.put(W, [record()])
    content = bytearray((tmp_path / "t.db").read_bytes())
    content[4096:8192] = b"\xff" * 4096
    (tmp_path / "t.db").write_bytes(bytes(content))
    assert tune_killed.whole(tmp_path / "t.db")[1]


def test_the_page_has_a_table_for_each_part() -> None:
    times = {k: {"median_ms": t} for k, t in
             {"default": 4.0, "stop 0": 3.0, "stop 1": 2.0, "known": 1.0}.items()}  # fmt: skip
    session = {"predicted": 0.5, "trials": 70, "elapsed": 301.0}
    found = {"stops": [60.0, 300.0], "times": times, "errors": {"known": 1e-6},
             "sessions": [session, session], "foreign_cores": 1.0}  # fmt: skip
    needed = {"engine": [3, 9, None], "closed form": [1, 1, 1], "random": [70, 80, 90]}
    space = {"decisions": 900, "near": 4, "default": 1.25, "needed": needed,
             "settled": [[64, 1.0], [80, 1.25], [70, 1.01]]}  # fmt: skip
    seen = {"candidates": 40, "closed form": [0.7, 0.1], "learned": [None, 0.02]}
    results = {
        "search": [{"space": "s", "found": space}],
        "learned": [{"kernel": "k", "found": seen}],
        "models": [{"model": "m", "threads": 2, "found": found},
                   {"model": "n", "threads": 2, "error": "why"}],
        "built": [{"kernel": "b", "error": "no algorithm"}],
    }  # fmt: skip
    text = tune.section(results)
    assert "| s | 900 | 4 | 1.25 | 9 … ∞ | 1 … 1 | 80 … 90 |" in text
    assert "| 70 | 1.010 … 1.250 | 1.02 |" in text
    assert "| k | 40 | 0.70 | – | 10 % | 2 % |" in text
    assert "| m, 2 ~ | 4.000 | 0.750 | 0.500 | 0.500 | 70, 301 s | 0.500 | 1.0e-06 |" in text
    assert "n, 2: why." in text
    assert "| b | – | – | no algorithm |" in text
    assert "Other work disturbed 1 of 2 rows." in text
    assert "### Programs by themselves" not in text
