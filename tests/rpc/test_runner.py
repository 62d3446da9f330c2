"""Tuning on other machines: the engine's runner, and those of the three faces."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from benchmarks.rpc_servers import SECRET
from smelt import auto_scheduler, autotvm, relay, te, tuning
from smelt import meta_schedule as ms
from smelt.codegen.llvm import object_code, resolve
from smelt.pipeline import LOWER
from smelt.rpc import RPCError, RPCRunner, Tracker
from smelt.rpc.executable import RemoteExecutable
from smelt.search.build import BuildJob, BuiltCandidate, build_candidate
from smelt.search.database import MemoryDatabase
from smelt.search.record import REFUTED, ErrorCode
from smelt.search.runner import Attempt
from smelt.search.space import RuleSpace
from smelt.search.timing import Protocol
from smelt.search.tune import Session, Settings, Task
from smelt.target import Target
from tests.cli.sessions import ONE, MadeUp, network
from tests.search.programs import product, spec

from .conftest import Serve
from .servers import Served

PROTOCOL = Protocol(cores=1, cold=1 << 16)


@pytest.fixture
def tracker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tracker]:
    """A tracker; programs have its token."""
    monkeypatch.setenv("SMELT_RPC_TOKEN", SECRET.token)
    with Tracker(port=0, security=SECRET) as made:
        yield made


@pytest.fixture
def address(tracker: Tracker, serve: Serve) -> tuple[str, int]:
    """A tracker with a board, whose server is in Python, or in C."""
    serve("board", tracker.port)
    return "127.0.0.1", tracker.port


def attempts(count: int = 2) -> list[Attempt]:
    """The default of a product, and others, built."""
    space = RuleSpace(spec(product()), "product")
    algorithm = space.algorithms[0]
    rows = range(count - 1)
    candidates = [
        space.default(),
        *[algorithm.candidate([n, *algorithm.cheapest[1:]]) for n in rows],
    ]
    return [Attempt(c, build_candidate(BuildJob(space.source(c), space.target, LOWER, 1, True)))
            for c in candidates]  # fmt: skip


def test_candidates_are_timed_and_compared_there(address: tuple[str, int]) -> None:
    first, *others = attempts(3)
    with RPCRunner("board", *address) as runner:
        for attempt in others:
            found = runner.run(first, attempt, PROTOCOL)
            assert not found.error, found.message
            assert found.timed is not None
            assert min(found.timed.seconds) > 0
            assert found.timed.difference is None or found.timed.difference < 1e-3


def test_a_candidate_that_crashes_or_hangs_costs_that_candidate(address: tuple[str, int]) -> None:
    first, second = attempts()
    assert second.built is not None
    broken = Attempt(second.candidate, with_code(second.built, "call void @abort()"))
    hangs = Attempt(second.candidate, with_code(second.built, "br label %again"))
    with RPCRunner("board", *address, timeout=3.0) as runner:
        found = runner.run(first, broken, PROTOCOL)
        assert found.error == ErrorCode.CRASH
        assert "the process of this session was ended by SIGABRT" in found.message
        assert not runner.run(first, second, PROTOCOL).error
        assert runner.run(first, hangs, PROTOCOL).error == ErrorCode.TIMEOUT
        assert not runner.run(first, second, PROTOCOL).error


def with_code(built: BuiltCandidate, code: str) -> BuiltCandidate:
    """A candidate that does something else."""
    target = resolve(Target("llvm -mcpu=native"))
    end = "" if code.startswith("br") else "ret i32 0"
    text = f"""declare void @abort()
    define i32 @smelt_entry() {{
    entry:
      br label %again
    again:
      {code}
      {end}
    }}"""
    code_of = object_code(target, text, "a candidate")
    return replace(built, object=code_of, digest=code, compared=False)


def tuned(runner: RPCRunner, after: Callable[[int], object]) -> Task:
    """The task of a session with twelve trials of a product; after: is told of every batch."""
    task = Task(lambda: RuleSpace(spec(product()), "product"), "product")
    settings = Settings(trials=12, batch=4)
    for n, _ in enumerate(Session([task], MemoryDatabase(), settings, LOWER, runner).run()):
        after(n)
    assert task.trials == 12
    return task


def end_one(boards: Sequence[Served], n: int) -> None:
    """After the first batch end a server that has a session."""
    if n == 1:
        next(b for b in boards if b.workers()).terminate()


def test_a_board_that_is_lost_costs_one_candidate(tracker: Tracker, serve: Serve) -> None:
    boards = [serve("board", tracker.port) for _ in range(2)]
    task = tuned(RPCRunner("board", "127.0.0.1", tracker.port), partial(end_one, boards))
    assert task.errors <= 1
    assert len(task.measured) >= 10


def test_boards_of_a_key_measure_at_a_time(tracker: Tracker, serve: Serve) -> None:
    boards = [serve("board", tracker.port) for _ in range(2)]
    runner = RPCRunner("board", "127.0.0.1", tracker.port, parallel=2)
    busy: list[int] = []
    task = tuned(runner, lambda n: busy.append(sum([len(b.workers()) for b in boards])))
    assert (task.errors, max(busy), runner.parallel) == (0, 2, 2)


def test_one_of_them_is_lost(tracker: Tracker, serve: Serve) -> None:
    boards = [serve("board", tracker.port) for _ in range(2)]
    runner = RPCRunner("board", "127.0.0.1", tracker.port, parallel=2)
    with pytest.warns(UserWarning, match="no further machine 'board': 1 measure at a time"):
        task = tuned(runner, partial(end_one, boards))
    assert task.errors <= 1
    assert runner.parallel == 1


def test_more_than_one_at_a_time_are_of_a_key() -> None:
    with pytest.raises(RPCError, match="parallel=2; legal: 1, or more of a key at a tracker"):
        RPCRunner("", "127.0.0.1", 9091, parallel=2)


def test_nobody_is_there() -> None:
    first, second = attempts()
    with pytest.raises(RPCError, match=r"the tracker at 127\.0\.0\.1:1 cannot be reached"):
        RPCRunner("board", "127.0.0.1", 1).run(first, second, PROTOCOL)


def test_a_model_is_tuned_there(address: tuple[str, int], tmp_path: Path) -> None:
    x = relay.var("x", shape=(16, 64), dtype="float32")
    w = relay.const(np.ones((48, 64), "float32"))
    mod = smelt.IRModule.from_expr(relay.nn.relu(relay.nn.dense(x, w)))
    state = smelt.tune(mod, str(tmp_path / "t.db"), trials=6, runner=RPCRunner("board", *address))
    assert state.trials == 6
    assert not sum([t.errors for t in state.tasks])


class There(MadeUp):
    """Times that are made up, for a model that is there."""

    whole = True

    def __init__(self, runner: RPCRunner) -> None:
        super().__init__()
        self.models = runner.models  # type: ignore[method-assign]


def test_winners_are_looked_at_in_the_model_there(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What takes longer there than the default is no winner."""
    seen: list[tuple[bool, set[str]]] = []
    measured = tuning.compared

    def noted(*models: Any) -> Any:
        ratios, both = measured(*models)
        seen.append((all(isinstance(m, RemoteExecutable) for m in models[:2]), {*ratios}))
        return dict.fromkeys(ratios, 0.5 if len(seen) > 1 else 1.5), (both[0], both[0] / 2)

    monkeypatch.setattr(tuning, "compared", noted)
    runner = There(RPCRunner("board", *address))
    kept = MemoryDatabase()
    state = tuning.tune(network(), kept, trials=100, options=ONE, runner=runner)
    assert all(there for there, _ in seen)
    assert {t.name for t in state.tasks} <= seen[0][1]
    assert "not looked at" not in state.message
    assert [r for r in kept.records() if r.source == REFUTED]


def test_a_machine_that_is_lost_before_its_model_loses_no_winner() -> None:
    runner = There(RPCRunner("board", "127.0.0.1", 1))
    kept = MemoryDatabase()
    state = tuning.tune(network(), kept, trials=60, options=ONE, runner=runner)
    assert "; not looked at in the model: the tracker at 127.0.0.1:1 cannot" in state.message
    assert [t for t in state.tasks if t.winner is not None]
    assert not [r for r in kept.records() if r.source == REFUTED]


@autotvm.template("test/rpc_sum")
def rows(n: int) -> Any:
    """Sums of rows, split."""
    a = te.placeholder((n, n), name="a")
    k = te.reduce_axis((0, n), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="b")
    s = te.create_schedule(b.op)
    cfg = autotvm.get_config()
    cfg.define_split("tile", b.op.axis[0], num_outputs=2)
    outer, inner = cfg["tile"].apply(s, b, b.op.axis[0])
    s[b].reorder(outer, k, inner)
    return s, [a, b]


def test_autotvm(address: tuple[str, int], tmp_path: Path) -> None:
    task = autotvm.task.create("test/rpc_sum", args=(32,), target="llvm")
    tuner = autotvm.tuner.RandomTuner(task)
    log = tmp_path / "log.json"
    option = autotvm.measure_option(
        autotvm.LocalBuilder(),
        autotvm.RPCRunner("board", *address, number=1, repeat=1, cooldown_interval=0),
    )
    tuner.tune(n_trial=4, measure_option=option,
               callbacks=[autotvm.callback.log_to_file(str(log))])  # fmt: skip
    results = [r for _, r in autotvm.record.load_from_file(str(log))]
    assert len(results) >= 3
    assert all(r.error_no == 0 for r in results)


@auto_scheduler.register_workload
def square(n: int) -> list[te.Tensor]:
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    return [a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")]


def test_auto_scheduler(address: tuple[str, int], tmp_path: Path) -> None:
    task = auto_scheduler.SearchTask(func=square, args=(32,), target="llvm -mcpu=native")
    log = str(tmp_path / "log.json")
    task.tune(auto_scheduler.TuningOptions(
        num_measure_trials=4, runner=auto_scheduler.RPCRunner("board", *address),
        measure_callbacks=[auto_scheduler.RecordToFile(log)], verbose=0,
    ))  # fmt: skip
    sch, args = task.apply_best(log)
    assert smelt.build(sch, args)


def test_meta_schedule(address: tuple[str, int], tmp_path: Path) -> None:
    """The document's program, with fewer trials."""
    x = relay.var("x", shape=(1, 64), dtype="float32")
    w = relay.const(np.ones((10, 64), "float32"))
    mod = smelt.IRModule.from_expr(relay.nn.softmax(relay.nn.dense(x, w)))
    host, port = address
    database = ms.tune_tvm(
        mod=mod,
        target=smelt.target.Target("llvm -mcpu=native -num-cores=1"),
        config=ms.TuneConfig(
            strategy="evolutionary", num_trials_per_iter=4, max_trials_per_task=4
        ),
        runner=ms.runner.RPCRunner(
            rpc_config=ms.runner.RPCConfig(tracker_host=host, tracker_port=port,
                                           tracker_key="board", session_timeout_sec=60),
            max_workers=1,
        ),
        work_dir=tmp_path / "tune_rpi4",
    )  # fmt: skip
    assert len(database) >= 1
    assert (tmp_path / "tune_rpi4").is_dir()


def test_libraries_run_by_the_runner_itself(address: tuple[str, int], libraries: Path) -> None:
    host, port = address
    config = ms.runner.RPCConfig(host, port, "board")
    while not config.count_num_servers():  # until it has told the tracker of itself
        time.sleep(0.05)
    runner = ms.runner.RPCRunner(config)
    info = [ms.arg_info.TensorInfo("float32", (8,)) for _ in range(3)]
    good, bad = (
        f.result() for f in runner.run([
            ms.runner.RunnerInput(str(libraries / "add.so"), "cpu", info),
            ms.runner.RunnerInput(str(libraries / "none.so"), "cpu", info),
        ])
    )  # fmt: skip
    assert good.run_secs
    assert bad.run_secs is None
    assert "No such file" in str(bad.error_msg)
