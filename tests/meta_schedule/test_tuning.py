"""Programs are tuned and compiled with what was found; everything is in the database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import meta_schedule as ms
from smelt.ir.errors import CompileError, ScheduleError
from smelt.search.json_database import JSONDatabase
from smelt.search.runner import AnalyticRunner
from smelt.tir.schedule import Schedule

from .programs import NATIVE, check, doubled, matmul_twice, total


def tuned(mod: Any, trials: int = 4, **others: Any) -> ms.Database:
    """A database of a short session that runs nothing."""
    given = {"runner": AnalyticRunner(), "database": "memory", "seed": 1, **others}
    return ms.tune_tir(mod, NATIVE, max_trials_global=trials, **given)


def tiled(sch: Schedule) -> None:
    """A schedule with two decisions left open."""
    i, j, _ = sch.get_loops(sch.get_block("C"))
    sch.split(i, sch.sample_perfect_tile(i, 2))
    _, inner = sch.split(j, sch.sample_perfect_tile(j, 2))
    sch.annotate(inner, "seen", sch.sample_categorical([1, 2], [0.5, 0.5]))


def test_a_program_is_tuned_and_compiled_with_what_was_found(tmp_path: Path) -> None:
    mod = matmul_twice()
    database = ms.tune_tir(mod, NATIVE, tmp_path / "tuned", 4)
    records = database.get_all_tuning_records()
    assert {r.kept().source for r in records} == {"default", "meta_schedule"}
    assert all(min(r.run_secs or ()) > 0 for r in records)
    again = ms.database.JSONDatabase(work_dir=tmp_path / "tuned", allow_missing=False)
    assert len(again) == len(records)
    made = ms.compile_tir(again, mod, NATIVE)
    assert made is not None
    assert len(made.trace) > 5
    check(made, "matmul_twice")
    pair = [tmp_path / "tuned" / f"database_{n}.json" for n in ("workload", "tuning_record")]
    assert len(JSONDatabase(pair[0], pair[1]).records()) >= len(records)


def test_a_function_that_samples_is_a_space() -> None:
    mod = matmul_twice()
    database = tuned(mod, 6, space=tiled)
    traces = {str(r.trace) for r in database.get_all_tuning_records()}
    assert len(traces) > 4
    assert all("sample_perfect_tile" in t and '"seen"' in t for t in traces)
    for r in database.get_all_tuning_records():
        check(r.schedule(), "matmul_twice")


def test_spaces_are_given_by_name_of_the_program() -> None:
    both = smelt.IRModule({"one": matmul_twice(), "two": doubled()})
    database = tuned(both, 6, special_space={"one": tiled})
    made = ms.compile_tir(database, both, NATIVE)
    assert made is not None
    text = str(made.trace)
    assert 'sch.work_on(func_name="one")' in text
    assert "sample_perfect_tile" in text
    assert {*made.mod.functions} == {"one", "two"}


@pytest.mark.parametrize("strategy", ["replay-trace", "evolutionary"])
@pytest.mark.parametrize("scheduler", ["gradient", "round-robin"])
def test_strategies_and_schedulers_spend_the_trials(strategy: str, scheduler: str) -> None:
    programs = {"one": matmul_twice(), "two": matmul_twice(16)}
    both = smelt.IRModule(programs)
    database = tuned(both, 16, num_trials_per_iter=4, space=tiled, strategy=strategy,
                     task_scheduler=scheduler)  # fmt: skip
    found = [r for r in database.get_all_tuning_records() if r.kept().source != "default"]
    each = [len([r for r in found if r.workload == ms.Workload(f) and not r.kept().confirmed])
            for f in programs.values()]  # fmt: skip
    assert sum(each) >= 16
    if scheduler == "round-robin":
        assert min(each) >= 8


class TwoOuterTiles(ms.cost_model.PyCostModel):
    """Likes nothing but schedules with two outer tiles."""

    def __init__(self) -> None:
        """Nothing was seen."""
        self.seen: list[float] = []

    def predict(self, context: ms.TuneContext, candidates: Any) -> Any:
        """0 for those, -inf for all others."""
        assert context.task_name
        firsts = [next(iter(c.sch.trace.decisions.values()))[0] for c in candidates]
        return np.array([0.0 if n == 2 else -np.inf for n in firsts])

    def update(self, context: ms.TuneContext, candidates: Any, results: Any) -> None:
        """Take note."""
        assert [c.sch.func.name for c in candidates] == [context.func.name]
        self.seen += [s for r in results for s in r.run_secs]


def test_a_model_of_ones_own_chooses_the_candidates() -> None:
    model = TwoOuterTiles()
    database = tuned(matmul_twice(), 4, space=tiled, cost_model=model)
    chosen = [r for r in database.get_all_tuning_records() if r.kept().source != "default"]
    assert chosen
    assert {next(iter(r.trace.decisions.values()))[0] for r in chosen} == {2}
    assert len(model.seen) == len(database)


def test_a_model_that_gives_no_scores_is_refused() -> None:
    class Short(ms.cost_model.PyCostModel):
        def predict(self, context: ms.TuneContext, candidates: Any) -> Any:
            return np.zeros(1)

    with pytest.raises(CompileError, match=r"Short\.predict gave 1 scores for \d+ candidates"):
        tuned(matmul_twice(), 4, space=tiled, cost_model=Short())


class Constant(ms.runner.PyRunner):
    """Says that each library that is there takes half as long as the one before."""

    def __init__(self) -> None:
        """Nothing ran."""
        self.sizes: list[int] = []

    def run(self, runner_inputs: Any) -> list[ms.runner.LocalRunnerFuture]:
        """Look at the files."""
        for given in runner_inputs:
            self.sizes.append(Path(given.artifact_path).stat().st_size)
            assert [a.shape for a in given.args_info] == [(32, 32)] * 3
        return [ms.runner.LocalRunnerFuture([0.5 ** len(self.sizes)])]


def test_a_runner_of_ones_own_measures_libraries() -> None:
    runner = Constant()
    database = tuned(matmul_twice(), 2, runner=runner)
    assert len(runner.sizes) >= 3
    assert min(runner.sizes) > 0
    best = database.query_tuning_record(matmul_twice(), NATIVE)
    assert best is not None
    assert best.kept().confirmed
    check(best.schedule(), "matmul_twice")


def test_a_builder_of_ones_own_says_what_it_cannot_build() -> None:
    class Never(ms.builder.PyBuilder):
        def build(self, build_inputs: Any) -> list[ms.builder.BuilderResult]:
            return [ms.builder.BuilderResult(None, "no compiler today") for _ in build_inputs]

    with pytest.raises(CompileError, match="no compiler today"):
        tuned(doubled(), 2, runner="local", builder=Never())


def test_a_library_runs_in_this_process() -> None:
    info = ms.arg_info.ArgInfo.from_prim_func(doubled())
    (built,) = ms.builder.LocalBuilder().build(
        [ms.builder.BuilderInput(smelt.IRModule({"main": doubled()}), smelt.Target(NATIVE))]
    )
    assert built.artifact_path is not None
    config = ms.runner.EvaluatorConfig(number=1, repeat=3, min_repeat_ms=0)
    runner = ms.runner.LocalRunner(evaluator_config=config)
    given = ms.runner.RunnerInput(built.artifact_path, "cpu", info)
    result = runner.run([given])[0].result()
    assert result.run_secs is not None
    assert len(result.run_secs) == 3
    ms.utils.remove_build_dir(built.artifact_path)
    assert runner.run([given])[0].result().error_msg


def test_callbacks_are_told_of_everything() -> None:
    told: list[tuple[int, Any]] = []

    class Note(ms.measure_callback.PyMeasureCallback):
        def apply(self, task_scheduler: Any, task_id: int, candidates: Any, built: Any,
                  ran: Any) -> None:  # fmt: skip
            told.append((task_id, ran[0].run_secs))
            assert candidates[0].sch.func.name == task_scheduler.tasks[task_id].func.name

    database = tuned(total(), 3, measure_callbacks=[Note()])
    assert len(told) >= 3
    assert len(database) == 0  # nothing asked for AddToDatabase


def test_what_cannot_be_tuned_is_said(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="give work_dir"):
        ms.tune_tir(doubled(), NATIVE, max_trials_global=2)
    with pytest.raises(CompileError, match="tuning without an end"):
        ms.tune_tir(doubled(), NATIVE, tmp_path)
    with pytest.raises(CompileError, match="space is 'bags'"):
        tuned(doubled(), space="bags")
    with pytest.raises(ScheduleError, match="main has no block 'Z'"):
        tuned(doubled(), space=lambda sch: sch.get_block("Z"))
    with pytest.raises(CompileError, match="no kind 'fast'"):
        tuned(doubled(), strategy="fast")
    with pytest.raises(CompileError, match="tracker_key is not given"):
        tuned(doubled(), runner=ms.runner.RPCRunner(ms.runner.RPCConfig("host", 9190)))
    with pytest.raises(CompileError, match="tracker_port is 'x'; legal: a number"):
        tuned(doubled(), runner=ms.runner.RPCRunner(ms.runner.RPCConfig("host", "x", "board")))
    with pytest.raises(CompileError, match="f_cleanup; legal: None"):
        ms.runner.RPCRunner(f_cleanup=print)
    with pytest.raises(CompileError, match="the search is the engine's"):
        ms.TuneContext(doubled(), target=NATIVE).pre_tuning(4)
    with pytest.raises(CompileError, match="legal: XGBModel"):
        ms.cost_model.MLPModel()


def test_the_profiler_knows_how_long_it_took() -> None:
    with ms.Profiler() as profiler:
        tuned(total(), 2)
        with ms.Profiler.timeit("mine"):
            pass
    assert {*profiler.get()} == {"Tuning", "mine", "Total"}
    assert "Tuning" in profiler.table()
    assert ms.Profiler.current() is None
