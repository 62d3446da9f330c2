"""Tuning templates: every tuner, logs, contexts, records."""

from __future__ import annotations

import io
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import autotvm
from smelt.search.database import MemoryDatabase
from smelt.search.runner import AnalyticRunner
from smelt.target import Target

from .templates import matmul_template

SIZE = 64
TUNERS = ["RandomTuner", "GridSearchTuner", "GATuner", "XGBTuner", "DropletTuner"]


def analytic() -> dict[str, Any]:
    """Measures nothing: what is predicted counts."""
    return autotvm.measure_option("local", AnalyticRunner())


def measured() -> dict[str, Any]:
    return autotvm.measure_option("local", autotvm.LocalRunner(cooldown_interval=0))


def task(size: int = SIZE) -> Any:
    return autotvm.task.create("test/matmul", (size, size, size, "float32"), "llvm -mcpu=native")


def right(s: Any, args: list[Any], size: int) -> bool:
    """Whether a schedule gives the product."""
    rng = np.random.default_rng(0)
    a, b = [rng.standard_normal((size, size)).astype("float32") for _ in range(2)]
    c = smelt.nd.array(np.zeros((size, size), "float32"))
    smelt.build(s, args)(smelt.nd.array(a), smelt.nd.array(b), c)
    return bool(np.allclose(c.numpy(), a @ b, atol=1e-2))


def test_the_introduction(tmp_path: Path) -> None:
    log = tmp_path / "matmul.log"
    job = task(512)
    assert len(job.config_space) == 100
    assert job.flop == 2 * 512**3
    tuner = autotvm.tuner.XGBTuner(job, seed=0)
    tuner.tune(20, measured(), callbacks=[autotvm.callback.log_to_file(log)])
    pairs = list(autotvm.record.load_from_file(log))
    assert len(pairs) == 20
    assert len({i.config.index for i, _ in pairs}) == 20
    best = min(pairs, key=lambda p: p[1].mean)
    assert best[0].config == tuner.best_config
    with autotvm.apply_history_best(log), Target("llvm"):
        s, args = matmul_template(512, 512, 512, "float32")
    wanted, _ = job.instantiate(tuner.best_config)
    assert smelt.lower(s, args)["main"].script() == smelt.lower(wanted, _)["main"].script()
    assert right(s, args, 512)


@pytest.mark.parametrize("name", TUNERS)
def test_every_tuner_finds_something(name: str) -> None:
    seen: list[int] = []

    def told(tuner: Any, inputs: Any, results: Any) -> None:
        assert len(inputs) == len(results)
        seen.extend([i.config.index for i in inputs])

    monitor = autotvm.callback.Monitor()
    job = task()
    tuner = getattr(autotvm.tuner, name)(job, seed=3)
    tuner.tune(12, analytic(), callbacks=[told, monitor])
    assert 3 <= len(seen) <= 12
    assert len(seen) == len(set(seen)) == len(monitor.trial_scores())
    assert tuner.best_config.index in seen
    assert tuner.best_flops == max(monitor.trial_scores()) > 0
    if name != "DropletTuner":
        assert len(seen) == 12
    if name == "GridSearchTuner":
        assert seen == list(range(12))


def test_a_seed_says_everything() -> None:
    def order(seed: int) -> list[int]:
        tuner = autotvm.tuner.RandomTuner(task(), seed=seed)
        return [c.index for c in tuner.next_batch(8)]

    assert order(1) == order(1) != order(2)


def test_everything_is_measured_once() -> None:
    job = task(4)
    tuner = autotvm.tuner.RandomTuner(job, seed=0)
    tuner.tune(1000, analytic())
    assert len(tuner.job.measured) == len(job.config_space) == 9
    assert not tuner.has_next()


def test_a_range_of_indices() -> None:
    tuner = autotvm.tuner.GridSearchTuner(task(), range_idx=(5, 8))
    assert [c.index for c in tuner.next_batch(10)] == [5, 6, 7, 8]


def test_early_stopping() -> None:
    job = task()
    tuner = autotvm.tuner.GridSearchTuner(job)
    tuner.tune(49, analytic(), early_stopping=8)
    assert len(tuner.job.measured) <= tuner.best_iter + 8 + 4


def test_step_by_step_and_history() -> None:
    job = task()
    measure = autotvm.create_measure_batch(job, analytic())
    tuner = autotvm.tuner.XGBTuner(job, seed=0)
    pairs = []
    for _ in range(3):
        configs = tuner.next_batch(4)
        inputs = [autotvm.MeasureInput(job.target, job, c) for c in configs]
        results = measure(inputs)
        tuner.update(inputs, results)
        pairs += list(zip(inputs, results, strict=True))
    assert len({i.config.index for i, _ in pairs}) == 12
    later = autotvm.tuner.XGBTuner(job, seed=0)
    later.load_history(pairs)
    known = {i.config.index for i, _ in pairs}
    assert not known & {c.index for c in later.next_batch(12)}


def test_configs_that_a_template_refuses_are_errors() -> None:
    job = task()
    strange = autotvm.ConfigEntity(0, None, {})
    measure = autotvm.create_measure_batch(job, analytic())
    (result,) = measure([autotvm.MeasureInput(job.target, job, strange)])
    assert result.error_no == autotvm.MeasureErrorNo.INSTANTIATION_ERROR
    line = autotvm.record.encode(autotvm.MeasureInput(job.target, job, strange), result)
    assert json.loads(line)["result"][:2] == [[1e9], 1]


def test_filtered_configs_are_not_measured() -> None:
    job = task()
    job.config_space.multi_filter(lambda c: c["tile_x"].size[1] == 16)
    tuner = autotvm.tuner.RandomTuner(job, seed=0)
    tuner.tune(100, analytic())
    assert len(tuner.job.measured) == len(job.config_space) == 7


def test_measurements_are_records_of_the_engine() -> None:
    database = MemoryDatabase()
    job = task(32)
    tuner = autotvm.tuner.RandomTuner(job, seed=0)
    tuner.tune(4, measured(), callbacks=[autotvm.callback.log_to_database(database)])
    records = database.records()
    assert len(records) == 4
    assert [r.source for r in records] == ["default", *["autotvm"] * 3]
    assert all(r.seconds and r.trace and not r.body for r in records)


def test_other_computations_say_whose_they_are() -> None:
    job = autotvm.task.create("test/cached", (32,), "llvm -mcpu=native")
    database = MemoryDatabase()
    tuner = autotvm.tuner.RandomTuner(job, seed=0)
    tuner.tune(3, measured(), callbacks=[autotvm.callback.log_to_database(database)])
    assert {(r.trace, r.body) for r in database.records()} == {("", "template test/cached")}
    s, args = job.instantiate(tuner.best_config)
    assert right(s, args, 32)


def test_logs_are_read_as_they_were_written(tmp_path: Path) -> None:
    log, out = tmp_path / "a.log", io.StringIO()
    for size in (32, 64):
        tuner = autotvm.tuner.RandomTuner(task(size), seed=0)
        tuner.tune(5, analytic(), callbacks=[autotvm.callback.log_to_file(log)])
    lines = log.read_text().splitlines()
    pairs = list(autotvm.record.load_from_file(log))
    assert [json.loads(autotvm.record.encode(*p)) for p in pairs] == [json.loads(x) for x in lines]
    autotvm.record.pick_best(log, out)
    assert len(out.getvalue().splitlines()) == 2
    first, second = autotvm.record.split_workload(log)
    for path, size in ((first, 32), (second, 64)):
        read = list(autotvm.record.load_from_file(path))
        assert {i.task.args[0] for i, _ in read} == {size}
        means = [r.mean for _, r in read]
        assert means == sorted(means)


def row(size: int, x: int, seconds: float) -> str:
    """A line of a log as another program writes it."""
    entity = [["tile_y", "sp", [-1, 4]], ["tile_x", "sp", [-1, x]]]
    args = [size, size, size, "float32"]
    return json.dumps({"input": ["llvm -keys=cpu", "test/matmul", args, {}],
                       "config": {"index": 30, "code_hash": None, "entity": entity},
                       "result": [[seconds], 0, 0.2, 1700000000.0], "version": 0.2,
                       "tvm_version": "0.10.0"})  # fmt: skip


def taken(context: Any, size: int = 32) -> list[int]:
    """The split of x that the template gets in a context."""
    with context:
        workload = autotvm.args_to_workload((size, size, size, "float32"), "test/matmul")
        found = autotvm.DispatchContext.current.query(Target("llvm"), workload)
    return list(found["tile_x"].size)


def test_contexts() -> None:
    rows = [row(32, 8, 2.0), row(32, 16, 1.0), row(64, 32, 1.0)]
    pairs = [p for p in map(autotvm.record.decode, rows) if p is not None]
    best = autotvm.apply_history_best(pairs)
    assert taken(best) == [-1, 16]
    with autotvm.apply_history_best([pairs[0]]):
        assert taken(autotvm.apply_history_best([pairs[2]])) == [-1, 8]  # the outer one knows it
    graph = autotvm.ApplyGraphBest(pairs)
    assert taken(graph) == [-1, 8]
    assert taken(graph) == [-1, 8]
    assert taken(graph, 64) == [-1, 16]
    fixed = autotvm.ApplyFixedConfig([task(32)], "test/matmul")
    assert taken(fixed) == [-1, 1]
    workload = pairs[0][0].task.workload
    best.update(Target("llvm"), workload, pairs[0][0].config)
    assert taken(best) == [-1, 8]


def test_a_fallback_is_said_once() -> None:
    with pytest.warns(UserWarning, match="Cannot find config .*'test/matmul', 20, 20, 20"):
        s, args = matmul_template(20, 20, 20, "float32")
    assert right(s, args, 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        matmul_template(20, 20, 20, "float32")


def test_the_progress_bar(capsys: pytest.CaptureFixture[str]) -> None:
    bar = autotvm.callback.progress_bar(6, prefix="[task 1]")
    autotvm.tuner.RandomTuner(task(), seed=0).tune(6, analytic(), callbacks=[bar])
    shown = capsys.readouterr().out
    assert "[task 1] Current/Best:" in shown
    assert "GFLOPS | Progress: (6/6)" in shown
    assert shown.endswith("Done.\n")
