"""Tasks are tuned, logs are read again, and what they say computes the right results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import auto_scheduler, relay, te
from smelt.contrib import graph_executor
from smelt.ir.errors import CompileError
from smelt.search.database import MemoryDatabase
from smelt.search.record import workload_key
from smelt.transform import PassContext

from .workloads import NATIVE, error_of, matmul_add, network, options, square


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ten trials of the tutorial's program have left."""
    path = tmp_path_factory.mktemp("logs") / "matmul.json"
    square(128).tune(options(10, auto_scheduler.RecordToFile(path)))
    return path


def test_the_best_of_a_log_computes_the_product(log: Path) -> None:
    task = square(128)
    sch, args = task.apply_best(log)
    assert "T.parallel" in smelt.lower(sch, args, simple_mode=True)["main"].script()
    assert error_of(smelt.build(sch, args, NATIVE), 128) < 1e-5
    assert "sch.vectorize(" in task.print_best(log)


def test_every_record_of_a_log_computes_the_product(log: Path) -> None:
    pairs = list(auto_scheduler.load_records(log))
    assert len(pairs) > 5
    sources = [inp.state.record.source for inp, _ in pairs if inp.state.record]
    assert sources[0] == "default"
    assert set(sources[1:]) == {"auto_scheduler"}
    for inp, res in pairs[:4]:
        assert res.error_no == auto_scheduler.MeasureErrorNo.NO_ERROR
        assert min(res.costs) > 0
        found = auto_scheduler.recover_measure_input(inp)
        made = found.task.compute_dag.apply_steps_from_state(found.state)
        assert error_of(smelt.build(*made, NATIVE), 128) < 1e-5


def test_records_are_text_and_back(log: Path, tmp_path: Path) -> None:
    lines = log.read_text().splitlines()
    inp, res = auto_scheduler.load_record_from_string(lines[1])
    again = auto_scheduler.load_record_from_string(auto_scheduler.dump_record_to_string(inp, res))
    assert again[0].state == inp.state
    assert again[1] == res
    copied = tmp_path / "copy.json"
    inputs, results = auto_scheduler.RecordReader(log).read_lines(3, skip_lines=1)
    auto_scheduler.save_records(copied, inputs, results)
    assert [json.loads(x) for x in copied.read_text().splitlines()] == [
        json.loads(x) for x in lines[1:4]
    ]
    best = tmp_path / "best.json"
    auto_scheduler.distill_record_file(log, best)
    ((kept, _),) = auto_scheduler.load_records(best)
    chosen, _ = auto_scheduler.load_best_record(log, square(128).workload_key, NATIVE)
    assert chosen is not None
    assert kept.state == chosen.state


def test_a_search_goes_on_from_a_log(log: Path, tmp_path: Path) -> None:
    before = {i.state.decision for i, _ in auto_scheduler.load_records(log)}
    path = tmp_path / "more.json"
    task = square(128)
    policy = auto_scheduler.SketchPolicy(
        task, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log)], verbose=0
    )
    task.tune(options(4, auto_scheduler.RecordToFile(path)), search_policy=policy)
    measured = [i for i, _ in auto_scheduler.load_records(path)]
    new = [i for i in measured if i.state.record and not i.state.record.confirmed]
    assert new
    assert not before & {i.state.decision for i in new}


def test_records_are_the_engines_and_found_by_the_program(log: Path) -> None:
    database = MemoryDatabase()
    count = auto_scheduler.load_into(database, log)
    key = workload_key(te.create_prim_func(matmul_add(128, 128, 128, "float32")))
    assert len(database.records(key, square(128).machine_key)) == count
    assert database.workload(key) is not None


class _Backwards(auto_scheduler.PythonBasedModel):
    """Wants what the closed form thinks slowest."""

    def __init__(self) -> None:
        self.seen = 0

    def update(self, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        self.seen += len(inputs)

    def predict(self, task: Any, states: Sequence[auto_scheduler.State]) -> Any:
        assert all(s.trace for s in states)
        return np.array([s.predicted for s in states])


def test_a_model_of_ones_own_says_what_is_measured(tmp_path: Path) -> None:
    task, model, path = square(32), _Backwards(), tmp_path / "own.json"
    policy = auto_scheduler.SketchPolicy(task, model, {"eps_greedy": 0.0}, verbose=0)
    task.tune(options(4, auto_scheduler.RecordToFile(path)), search_policy=policy)
    pairs = list(auto_scheduler.load_records(path))
    assert model.seen == len(pairs)
    default, *others = [i.state.predicted for i, _ in pairs]
    assert min(others) > default


def test_models_and_policies_without_knowledge(tmp_path: Path) -> None:
    task = square(32)
    task.tune(
        options(3), auto_scheduler.SketchPolicy(task, auto_scheduler.RandomModel(), verbose=0)
    )
    path = tmp_path / "one.json"
    task.tune(options(3, auto_scheduler.RecordToFile(path)), auto_scheduler.EmptyPolicy(task))
    ((only, _),) = auto_scheduler.load_records(path)
    assert only.state.record is not None
    assert only.state.record.source == "default"


def test_rounds_by_hand_and_sketches() -> None:
    task = square(32)
    policy = auto_scheduler.SketchPolicy(task, verbose=0)
    names = {s.decision.split("(")[0] for s in policy.generate_sketches()}
    assert {"contraction", "lanes"} <= names
    assert len(policy.sample_initial_population()) == 50
    assert len(policy.evolutionary_search([task.compute_dag.init_state], 4)) == 4
    measurer = auto_scheduler.ProgramMeasurer(
        auto_scheduler.LocalBuilder(), auto_scheduler.LocalRPCMeasureContext().runner
    )
    inputs, results = policy.continue_search_one_round(3, measurer)
    assert len(inputs) == len(results) >= 2
    more, _ = policy.continue_search_one_round(2, measurer)
    fresh = [i for i in more if i.state.record and not i.state.record.confirmed]
    assert not {i.state.decision for i in inputs} & {i.state.decision for i in fresh}
    sch, args = task.compute_dag.apply_steps_from_state(policy.best_state())
    assert error_of(smelt.build(sch, args), 32) < 1e-5


def test_without_trials_the_default_is_scheduled() -> None:
    sch, args = auto_scheduler.auto_schedule(square(32))
    assert error_of(smelt.build(sch, args), 32) < 1e-5


def test_a_formula_of_ones_own_is_tuned(tmp_path: Path) -> None:
    a = te.placeholder((40, 24), name="A")
    k = te.reduce_axis((0, 24), name="k")
    far = te.compute((40,), lambda i: te.max(te.abs(a[i, k] - a[39 - i, k]), axis=k), name="far")
    dag = auto_scheduler.ComputeDAG([a, far])
    assert dag.flop_ct > 0
    task = auto_scheduler.SearchTask(compute_dag=dag, target=NATIVE)
    path = tmp_path / "far.json"
    task.tune(options(3, auto_scheduler.RecordToFile(path)))
    x, y = np.random.default_rng(1).standard_normal((40, 24), np.float32), np.zeros(40, np.float32)
    smelt.build(*task.apply_best(path), NATIVE)(x, y)
    np.testing.assert_allclose(y, np.abs(x - x[::-1]).max(axis=1), rtol=1e-6)


class _Turns(auto_scheduler.TaskSchedulerCallback):
    """Whose rounds began and ended."""

    def __init__(self) -> None:
        self.began: list[int] = []
        self.ended: list[int] = []

    def pre_tune(self, task_scheduler: auto_scheduler.TaskScheduler, task_id: int) -> None:
        self.began.append(task_id)

    def post_tune(self, task_scheduler: auto_scheduler.TaskScheduler, task_id: int) -> None:
        self.ended.append(task_id)


@pytest.mark.parametrize("strategy", ["gradient", "round-robin"])
def test_tasks_are_tuned_together(strategy: str, tmp_path: Path) -> None:
    tasks, path, turns = [square(24), square(48)], tmp_path / "both.json", _Turns()
    table = auto_scheduler.LogEstimatedLatency(tmp_path / "latency.csv")
    tuner = auto_scheduler.TaskScheduler(tasks, [1, 2], strategy=strategy, callbacks=[turns, table])
    tuner.tune(options(8, auto_scheduler.RecordToFile(path)))
    assert turns.began == turns.ended
    assert tuner.ct == sum(tuner.task_cts) > 0
    assert 0 < tuner.cur_score < float("inf")
    assert len((tmp_path / "latency.csv").read_text().splitlines()) == 1 + len(turns.ended)
    for task, n in zip(tasks, (24, 48), strict=True):
        assert error_of(smelt.build(*task.apply_best(path)), n) < 1e-5


def test_a_network_takes_its_schedules_from_a_log(tmp_path: Path) -> None:
    mod, params = network()
    tasks, weights = auto_scheduler.extract_tasks(mod["main"], params, NATIVE)
    assert len(tasks) == len(weights) == 2
    path = tmp_path / "net.json"
    for task in tasks:
        other = auto_scheduler.SketchPolicy(task, verbose=0).sample_initial_population()[0]
        pair = auto_scheduler.MeasureInput(task, other)
        auto_scheduler.save_records(path, [pair], [auto_scheduler.MeasureResult([1e-9])])
    x = np.random.default_rng(2).standard_normal((4, 32), np.float32)
    expected = np.maximum(x @ params["w"].T, 0) @ params["v"].T
    with auto_scheduler.ApplyHistoryBest(path) as history:
        assert len(history.best) == 2
        flags = {"relay.backend.use_auto_scheduler": True}
        with PassContext(opt_level=3, config=flags):
            assert auto_scheduler.is_auto_scheduler_enabled()
            tuned = relay.build(mod, NATIVE, params=params)
        plain = relay.build(mod, NATIVE, params=params)
    for lib, count in ((tuned, 2), (plain, 0)):
        run = graph_executor.GraphModule(lib["default"](smelt.cpu(0)))
        run.run(x=x)
        np.testing.assert_allclose(run.get_output(0).numpy(), expected, rtol=1e-4, atol=1e-4)
        sketches_used = [k["sketches"] for k in lib.lib.metadata["kernels"]]
        assert sketches_used.count(["tuned"]) == count


def test_a_callback_of_ones_own_and_a_database(tmp_path: Path) -> None:
    seen: list[float] = []

    class Note(auto_scheduler.PythonBasedMeasureCallback):
        def callback(self, policy: Any, inputs: Sequence[Any], results: Sequence[Any]) -> None:
            seen.extend([r.costs[0] for r in results])

    database = MemoryDatabase()
    square(16).tune(options(2, Note(), auto_scheduler.RecordToDatabase(database)))
    assert len(database.records()) == len(seen) > 1


def test_nothing_is_measured_for_another_machine() -> None:
    args = (16, 16, 16, "float32")
    arm = "llvm -mtriple=aarch64-linux-gnu"
    task = auto_scheduler.SearchTask(func=matmul_add, args=args, target=arm)
    with pytest.raises(CompileError, match="nothing can be measured here"):
        task.tune(options(2))
