"""The learned correction: nothing at first, better orders afterwards, always the same."""

from __future__ import annotations

import numpy as np
import pytest

from smelt.rules.cost import Array
from smelt.search.features import LENGTH
from smelt.search.model import CostModel

needs_trees = pytest.mark.skipif(not CostModel.available, reason="xgboost is not installed")


def task(seed: int, count: int = 60) -> tuple[Array, Array, Array]:
    """Candidates for which the closed form misses what two columns say."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((count, LENGTH), np.float32)
    rows[:, 10:20] = rng.uniform(0, 4, (count, 10))
    prior = rng.normal(-8 + seed, 0.3, count)
    missed = 0.4 * (rows[:, 12] > 2) + 0.3 * rows[:, 15]
    return rows, prior, np.exp(prior + missed)


def taught(seed: int = 0, tasks: int = 6) -> CostModel:
    model = CostModel(seed)
    for k in range(1, tasks):
        model.add(*task(k), f"task {k}")
    model.fit()
    return model


def order(scores: Array, seconds: Array) -> float:
    first, second = (np.argsort(np.argsort(x)) for x in (scores, seconds))
    return float(np.corrcoef(first, second)[0, 1])


def test_nothing_is_corrected_before_something_is_learned() -> None:
    rows, prior, seconds = task(0)
    model = CostModel()
    assert (model.predict(rows) == 0).all()
    model.add(rows[:4], prior[:4], seconds[:4], "task")
    assert not model.fit()
    assert not model.trained
    assert (model.predict(rows) == 0).all()
    assert model.predict(rows[:0]).shape == (0,)


@needs_trees
def test_orders_of_a_task_never_seen_are_better() -> None:
    rows, prior, seconds = task(0, 200)
    learned = taught().predict(rows)
    assert learned.shape == (200,)
    assert order(prior + learned, seconds) > order(prior, seconds) + 0.1


@needs_trees
def test_equal_data_teach_the_same() -> None:
    rows, _, _ = task(0)
    assert (taught(3).predict(rows) == taught(3).predict(rows)).all()
    assert (taught(3).predict(rows) != taught(4).predict(rows)).any()
    forward, backward = CostModel(), CostModel()
    for k in (1, 2, 3):
        forward.add(*task(k), f"task {k}")
        backward.add(*task(4 - k), f"task {4 - k}")
    assert forward.fit()
    assert backward.fit()
    assert (forward.predict(rows) == backward.predict(rows)).all()


@needs_trees
def test_it_learns_again_where_enough_is_new() -> None:
    model = taught()
    count = model.count
    assert not model.fit()
    model.add(*task(9, 5), "task 9")
    assert model.count == count + 5
    assert not model.fit()
    model.add(*task(9, 80), "task 9")
    assert model.fit()
    model.add(*task(9, 1), "task 9")
    assert model.fit(force=True)


def test_failures_teach_nothing() -> None:
    rows, prior, seconds = task(0, 4)
    model = CostModel()
    model.add(rows, prior, [np.inf, np.nan, 0.0, seconds[3]], "task")
    assert model.count == 1


def test_without_the_package_nothing_is_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CostModel, "available", False)
    model = taught()
    rows, _, _ = task(0)
    assert not model.fit(force=True)
    assert (model.predict(rows) == 0).all()


def test_rows_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match=rf"shape \(3, 7\).*legal: \(3, {LENGTH}\)"):
        CostModel().add(np.zeros((3, 7)), np.zeros(3), np.ones(3), "task")
    with pytest.raises(ValueError, match=rf"shape \(7,\); legal: \(n, {LENGTH}\)"):
        CostModel().predict(np.zeros(7))
