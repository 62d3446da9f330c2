"""Tuning of whole models: what its tasks are, and that winners are looked at in the model."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import smelt
from smelt import Size, tuning
from smelt.runtime.executable import Executable
from smelt.search.database import Database, MemoryDatabase
from smelt.search.record import REFUTED
from smelt.search.tune import Session, Settings, State

from .cli.sessions import ONE, MadeUp, network


def rows() -> onnx.ModelProto:
    """y = relu(x @ w) for any number of rows, and what is kept of it."""
    w = numpy_helper.from_array(np.ones((32, 48), np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 32])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 48])
    graph = helper.make_graph(nodes, "rows", [given], [made], [w])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_likely_sizes_are_tasks_of_their_own() -> None:
    shapes = {"x": (Size("n", likely=(1, 64)), 32)}
    tasks = tuning.extract_tasks(rows(), shapes=shapes, options=ONE)
    (plain,) = tuning.extract_tasks(rows(), options=ONE)
    assert [t.name for t in tasks] == [plain.name, f"{plain.name} (n=1)", f"{plain.name} (n=64)"]
    assert len({t.space.workload.key for t in tasks}) == 3
    assert {t.cold for t in tasks} == {4 * 32 * 48}


def test_what_is_tuned_is_what_is_compiled() -> None:
    """Likely sizes included: every winner is looked up by the kernel that it is for."""
    shapes = {"x": (Size("n", likely=(64,)), 32)}
    database = MemoryDatabase()
    state = tuning.tune(rows(), database, shapes=shapes, trials=120, options=ONE, runner=MadeUp())
    won = [t for t in state.tasks if t.winner is not None]
    assert won
    asked: list[str] = []
    best = database.best

    def noted(workload: str, machine: str, confirmed: bool = True) -> Any:
        found = best(workload, machine, confirmed)
        asked.append(found.trace if found is not None else "")
        return found

    database.best = noted  # type: ignore[method-assign]
    exe = smelt.compile(rows(), shapes=shapes, threads=1, database=database)
    assert {t.trace for t in won} <= {*asked}
    x = np.ones((64, 32), np.float32)
    assert (exe(x).numpy() == 32).all()


def test_progress_is_told_once_of_every_batch() -> None:
    """Nothing comes behind the last one where no model is looked at."""
    told: list[int] = []
    state = tuning.tune(network(), MemoryDatabase(), trials=40, options=ONE, runner=MadeUp(),
                        progress=lambda s: told.append(len(s.history)))  # fmt: skip
    assert told == [*range(1, len(state.history) + 1)]


def won(trials: int = 200) -> tuple[Session, State]:
    """A session that has found winners, by times that are made up."""
    tasks = tuning.extract_tasks(network(), options=ONE)
    session = Session(tasks, MemoryDatabase(), Settings(trials=trials), smelt.pipeline.LOWER,
                      MadeUp())  # fmt: skip
    for _ in session.run():
        pass
    assert len([t for t in tasks if t.winner is not None]) > 1
    return session, session.state


def compiled(database: Database) -> Executable:
    return smelt.compile(network(), threads=1, database=database)


@pytest.mark.parametrize("whole", [0.9, 1.0])
def test_winners_that_are_no_faster_in_the_model_are_taken_back(
    whole: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them, where the model as a whole is no faster."""
    session, state = won()
    first, *others = [t for t in state.tasks if t.winner is not None]
    slow = []

    def told(
        default: Executable, tuned: Executable, sizes: Mapping[str, int]
    ) -> tuple[dict[str, float], tuple[float, float]]:
        slow.append(first.winner)
        found = {t.name: 0.9 for t in others} | {first.name: 1.1}
        return found, (1.0, whole)

    monkeypatch.setattr(tuning, "compared", told)
    tuning.refute_slow(session, compiled)
    assert slow[0] is not None
    assert first.winner is None
    kept = [t for t in others if t.winner is not None]
    assert kept == (others if whole < 1 else [])
    assert state.model == ((1.0, whole) if whole < 1 else None)
    refuted = [r for r in session.database.records() if r.source == REFUTED]
    assert slow[0].text in [r.decision for r in refuted]
    for t in state.tasks:
        best = session.database.best(t.space.workload.key, t.machine)
        assert (best is None) == (t.winner is None)


def test_a_model_is_measured_beside_its_default() -> None:
    session, state = won()
    tuning.refute_slow(session, compiled)
    left = [t for t in state.tasks if t.winner is not None]
    assert (state.model is None) == (not left)
    names = {t.name for t in state.tasks}
    exe = compiled(MemoryDatabase())
    ratios, (before, after) = tuning.compared(exe, exe, {})
    assert names <= {*ratios}
    assert before > 0
    assert after > 0


def test_sizes_that_nobody_knows_are_not_looked_at() -> None:
    state = tuning.tune(rows(), MemoryDatabase(), trials=4, options=ONE)
    assert state.message.endswith("; not looked at in the model, whose inputs have no sizes")
    assert state.model is None
