"""Tuning sessions: what is tried, kept and reported."""

import os
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster

from smelt.ir.errors import CompileError
from smelt.pipeline import LOWER
from smelt.search.build import BuildJob, build_candidate
from smelt.search.database import Database, MemoryDatabase
from smelt.search.record import ErrorCode
from smelt.search.runner import AnalyticRunner, Attempt, Outcome, Runner
from smelt.search.space import Candidate, RuleSpace
from smelt.search.timing import Protocol, Timed
from smelt.search.tune import DONE, FAILED, Session, Settings, State, Task
from smelt.tir.nodes import PrimFunc

from .programs import product, spec


class Scripted(Runner):
    """Times that a function makes up of a candidate's decisions."""

    needs_build = False

    def __init__(self, seconds: Callable[[Candidate], Any]) -> None:
        self.seconds = seconds
        self.calls: list[str] = []

    def run(self, reference: Attempt, attempt: Attempt, protocol: Protocol) -> Outcome:
        self.calls.append(attempt.candidate.text)
        found: Any = self.seconds(attempt.candidate)
        if isinstance(found, Outcome):
            return found
        rounds = 30 if protocol.decide else 5
        return Outcome(Timed((found,) * rounds, (self.seconds(reference.candidate),) * rounds))


def task(func: PrimFunc | None = None, name: str = "product", weight: float = 1.0) -> Task:
    return Task(lambda: RuleSpace(spec(func, cores=2), name), name, weight, cores=2)


def run(
    tasks: list[Task], runner: Runner, database: Database | None = None, **settings: Any
) -> tuple[State, Database]:
    database = MemoryDatabase() if database is None else database
    session = Session(tasks, database, Settings(**settings), LOWER, runner)
    for _ in session.run():
        pass
    return session.state, database


def chunks_matter(c: Candidate) -> float:
    """The default is not the best: the more tasks, the faster."""
    return 2.0 / (1 + pieces(c))


def pieces(c: Candidate) -> int:
    """Into how many tasks a candidate is divided."""
    made = dict(c.choice[0].parts[0][1].items)
    return int(made.get("chunks", made.get("tasks", 0)) or 0)


def test_the_best_is_found_confirmed_and_kept() -> None:
    state, db = run([t := task()], Scripted(chunks_matter), trials=200, per_task=200)
    assert t.default is not None
    assert t.best is not None
    assert t.default_seconds == chunks_matter(t.default)
    assert pieces(t.best) == 32
    assert t.confirmed == pytest.approx(chunks_matter(t.best) / t.default_seconds)
    assert state.after == pytest.approx(t.seconds)
    (key,) = {r.workload for r in db.records()}
    best = db.best(key, t.machine)
    assert best is not None
    assert best.confirmed
    assert best.decision == t.best.text
    assert len([r for r in db.records() if not r.confirmed]) == state.trials + 1


def test_a_session_goes_on_where_the_last_one_stopped() -> None:
    runner = Scripted(chunks_matter)
    _, db = run([task()], runner, trials=32)
    tried = set(runner.calls)
    second = Scripted(chunks_matter)
    run([t := task()], second, db, trials=32)
    assert t.best is not None
    assert t.default is not None
    assert not tried.intersection(second.calls[1:]) - {t.best.text, t.default.text}
    assert t.confirmed < 1


def test_what_was_fast_elsewhere_is_tried_first() -> None:
    """A record of another machine is a starting point, and no truth."""
    _, db = run([task()], Scripted(chunks_matter), trials=64)
    elsewhere = MemoryDatabase()
    fast = sorted([r for r in db.records() if r.relative and r.relative < 1 and not r.confirmed],
                  key=lambda r: r.relative or 1.0)  # fmt: skip
    for r in fast[::3]:
        elsewhere.put(db.workloads()[0], [replace(r, machine="another", confirmed=True)])
    runner = Scripted(lambda c: 1.0)
    run([t := task()], runner, elsewhere, trials=16)
    known = {r.decision: r.relative or 1.0 for r in fast[::3]}
    limit = sorted(known.values())[min(8, len(known)) - 1]
    assert t.default is not None
    tried = [text for text in runner.calls if text != t.default.text]
    assert max([known.get(text, 1.0) for text in tried[: min(8, len(known))]]) <= limit
    assert t.winner is None


def test_a_winner_that_is_refuted_is_not_found_again() -> None:
    session = Session([t := task()], MemoryDatabase(), Settings(trials=64), LOWER,
                      Scripted(chunks_matter))  # fmt: skip
    for _ in session.run():
        pass
    winners = []
    while t.winner is not None:
        winners.append(t.winner.text)
        session.refute(t, 1.2)
    assert winners
    assert len(set(winners)) == len(winners)
    assert (t.confirmed, t.trace) == (1.0, "")
    assert t.note == "what was faster by itself is no faster in the model"
    again = task()
    run([again], runner := Scripted(lambda c: 1.0), session.database, trials=16)
    assert not {*winners} & {*runner.calls}
    assert again.winner is None


def test_the_same_seed_tries_the_same() -> None:
    runners = [Scripted(chunks_matter) for _ in range(3)]
    for runner, seed in zip(runners, (1, 1, 2), strict=True):
        run([task()], runner, trials=48, seed=seed)
    assert runners[0].calls == runners[1].calls != runners[2].calls


def test_by_prediction_nothing_beats_the_default() -> None:
    state, db = run([t := task()], AnalyticRunner(), trials=400)
    assert t.confirmed == 1.0
    assert t.status == DONE
    assert state.message == "nothing more is to be gained"
    assert not [r for r in db.records() if r.confirmed]


def test_time_goes_where_the_model_spends_it() -> None:
    heavy, light = task(name="heavy", weight=50.0), task(product(24, 40, 33), "light")
    run([light, heavy], Scripted(lambda c: 1.0 + hash_of(c.text)), trials=64)
    assert heavy.trials > light.trials


def hash_of(text: str) -> float:
    return sum(text.encode()) % 97 / 97


def test_failures_are_results() -> None:
    def seconds(c: Candidate) -> Any:
        if pieces(c) % 3 == 1:
            return Outcome(None, ErrorCode.CRASH, "it died")
        return 1.0

    assert pieces(RuleSpace(spec(cores=2)).default()) % 3 != 1, "the default has to run"
    _, db = run([t := task()], Scripted(seconds), trials=64)
    failed = [r for r in db.records() if r.error]
    assert len(failed) == t.errors > 0
    assert {(r.error, r.message) for r in failed} == {(ErrorCode.CRASH, "it died")}


def test_a_runner_that_dies_every_time() -> None:
    dead = Scripted(lambda c: Outcome(None, ErrorCode.CRASH, "the board is gone"))
    state, _ = run([t := task()], dead, trials=64)
    assert t.status == FAILED
    assert t.note == "the default schedule: the board is gone"
    assert state.message == "no task can be tuned"
    assert len(dead.calls) == 1


def test_wrong_results_are_no_winner() -> None:
    class Wrong(Scripted):
        def run(self, reference: Attempt, attempt: Attempt, protocol: Protocol) -> Outcome:
            found = super().run(reference, attempt, protocol)
            if protocol.decide:
                return replace(found, error=ErrorCode.WRONG, message="apart")
            return found

    _, db = run([t := task()], Wrong(chunks_matter), trials=64)
    assert t.confirmed == 1.0
    assert not [r for r in db.records() if r.confirmed]


def test_any_executor_builds() -> None:
    """Of `concurrent.futures`, for one; winners were compared with the default."""
    with ProcessPoolExecutor(1) as pool:
        session = Session([t := task()], MemoryDatabase(), Settings(trials=6), LOWER,
                          executor=pool)  # fmt: skip
        for _ in session.run():
            pass
    assert t.trials == 6
    assert not t.errors
    assert np.isfinite(t.default_seconds)


def test_a_cluster_builds() -> None:
    """Dask's: its client is an executor. Of a worker that is killed nothing is lost."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        settings = Settings(trials=12, batch=4)
        session = Session([t := task()], MemoryDatabase(), settings, LOWER, executor=client)
        for n, _ in enumerate(session.run()):
            if n == 2:
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    assert t.trials == 12
    assert not t.errors


def test_a_build_that_fails_costs_one_candidate() -> None:
    class Broken:
        def result(self) -> Any:
            raise RuntimeError("the worker was killed")

    class Here:
        def __init__(self, job: BuildJob) -> None:
            self.job = job

        def result(self) -> Any:
            return build_candidate(self.job)

    class Executor:
        def __init__(self) -> None:
            self.count = 0

        def submit(self, fn: Any, /, *args: Any) -> Any:
            self.count += 1
            return Broken() if self.count == 3 else Here(*args)

    session = Session([t := task()], db := MemoryDatabase(), Settings(trials=4), LOWER,
                      executor=Executor())  # fmt: skip
    for _ in session.run():
        pass
    assert t.errors == 1
    (failed,) = [r for r in db.records() if r.error]
    assert failed.error == ErrorCode.COMPILE
    assert failed.message == "the worker was killed"


@pytest.mark.parametrize(
    ("settings", "said"),
    [({}, "tuning without an end: give trials, or seconds, or both"),
     ({"trials": 0}, "trials is 0; legal: more than 0"),
     ({"trials": 5, "batch": -1}, "batch is -1; legal: more than 0")],
)  # fmt: skip
def test_settings_that_make_no_sense(settings: Any, said: Any) -> None:
    with pytest.raises(CompileError, match=said):
        Settings(**settings)
