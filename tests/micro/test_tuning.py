"""Tuning for boards: what a candidate is there, how measurements end, and that winners are used."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

import smelt
from smelt import tuning
from smelt.cli.commands import app
from smelt.ir.errors import CompileError, TargetError
from smelt.micro import BOARDS, BoardRunner, compile_c, open_board
from smelt.micro.compile import c_target, lowering_for
from smelt.micro.tuning import BoardProgram, build_program
from smelt.runtime.errors import MicroError
from smelt.search.build import BuildJob
from smelt.search.database import MemoryDatabase
from smelt.search.record import ErrorCode
from smelt.search.runner import Attempt, Outcome
from smelt.search.timing import INSTRUCTIONS, MICROSECONDS, Protocol
from smelt.search.tune import FAILED, Task

from .test_boards import need, quantized

M4 = BOARDS["mps2-an386"]
FEW = Protocol(rounds=1, least=1)
SMALL = "fused_conv2d_add_cast_multiply_clip_round_cast_add_cast"
"""One of the kernels."""


@pytest.fixture(scope="module")
def host() -> BoardRunner:
    """This machine as a board."""
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        pytest.skip("a C compiler is missing: cc, gcc")
    return BoardRunner("host", timeout=5.0)


def changed() -> onnx.ModelProto:
    """The same kernels with another bias."""
    model = quantized()
    (bias,) = [t for t in model.graph.initializer if t.name == "b"]
    data = onnx.numpy_helper.to_array(bias) + 3000
    bias.CopyFrom(onnx.numpy_helper.from_array(data.astype(np.int32), "b"))
    return model


def default_of(model: Any, runner: BoardRunner) -> Attempt:
    """The default of the first kernel, built."""
    task = tuning.board_tasks(model, None, runner)[0]
    return Attempt(task.space.default(), built(task, runner))


def built(task: Task, runner: BoardRunner) -> BoardProgram:
    """The program of a task's default."""
    target = c_target(runner.target(None))
    source = task.space.source(task.space.default())
    return build_program(BuildJob(source, target, tuple(lowering_for(target)), 1))


def ending(runner: BoardRunner, reference: Attempt, code: bytes) -> Outcome:
    """How the measurement of something else ends that is run in place of a candidate."""
    assert reference.built is not None
    other = replace(reference.built, object=code, digest="other")
    return runner.run(reference, Attempt(reference.candidate, other), FEW)


def test_measurements_end_in_outcomes(host: BoardRunner) -> None:
    """A crash, a program that does not answer and wrong results cost a candidate, not the search;
    the reference goes on."""
    with host:
        reference = default_of(quantized(), host)
        good = host.run(reference, reference, FEW)
        assert good.error is ErrorCode.OK
        assert good.timed is not None
        assert good.timed.difference == 0
        crash = ending(host, reference, b"#!/bin/sh\nexit 3\n")
        assert crash.error is ErrorCode.CRASH
        assert "exit code 3" in crash.message
        wrong = host.run(reference, default_of(changed(), host), FEW)
        assert wrong.error is ErrorCode.WRONG
        assert "apart from the default's" in wrong.message
        host.timeout = 0.2
        late = ending(host, reference, b"#!/bin/sh\nexec sleep 60\n")
        host.timeout = 5.0
        assert late.error is ErrorCode.TIMEOUT
        assert host.run(reference, reference, FEW).error is ErrorCode.OK


def test_memory_is_not_given_for_speed_unless_it_is_allowed(host: BoardRunner) -> None:
    with host:
        reference = default_of(quantized(), host)
        assert isinstance(reference.built, BoardProgram)
        more = replace(reference.built, workspace=reference.built.workspace + 8)
        larger = Attempt(reference.candidate, more)
        refused = host.run(reference, larger, FEW)
        assert refused.error is ErrorCode.SCHEDULE
        assert f"needs {more.workspace:,} bytes to work in" in refused.message
    with BoardRunner("host", workspace=more.workspace) as other:
        assert other.run(reference, larger, FEW).error is ErrorCode.OK


def test_a_build_that_fails_is_said_of_its_kernel(host: BoardRunner) -> None:
    state = smelt.tune(quantized(), MemoryDatabase(), trials=4, kernel=SMALL,
                       runner=BoardRunner("host", flags=("-fno-such-thing",)))  # fmt: skip
    assert {t.status for t in state.tasks} == {FAILED}
    assert "cannot be compiled" in state.tasks[0].note


def test_winners_of_this_machine_are_used_for_it_alone(host: BoardRunner) -> None:
    database = MemoryDatabase()
    state = smelt.tune(quantized(), database, "c", trials=3, runner=host, kernel=SMALL)
    assert (state.unit, state.trials) == (MICROSECONDS, 3)
    (task,) = state.tasks
    assert not task.failures
    (workload,) = database.workloads()
    record = next(r for r in database.records() if r.trace and r.source != "default")
    database.put(workload, [replace(record, confirmed=True, relative=0.1)])
    plain, tuned = (compile_c(quantized(), "c", database=d).source for d in (None, database))
    assert plain != tuned
    other = "c -mcpu=cortex-m4"
    assert compile_c(quantized(), other, database=database).source == (
        compile_c(quantized(), other).source
    )


@pytest.mark.micro
def test_instructions_are_counted_once_and_are_those_of_the_model() -> None:
    need(M4)
    database, runner = MemoryDatabase(), BoardRunner(M4)
    name = tuning.board_tasks(quantized(), None, runner)[0].name
    state = smelt.tune(quantized(), database, trials=24, runner=runner, kernel=name,
                       settings=smelt.search.tune.Settings(trials=24, batch=6))  # fmt: skip
    (task,) = state.tasks
    assert state.unit is INSTRUCTIONS
    assert {len(r.seconds) for r in database.records()} == {1}
    assert task.winner is not None
    assert task.confirmed < 0.98
    x = np.random.default_rng(0).integers(-128, 128, (1, 4, 9, 9)).astype(np.int8)
    counts: list[int] = []
    results: list[Any] = []
    for kept in (None, database):
        with open_board(compile_c(quantized(), M4.target, database=kept), M4) as board:
            results += board.run(x)
            counts.append(board.steps()[0].instructions or 0)
    np.testing.assert_array_equal(*results)
    assert counts[1] / counts[0] == pytest.approx(task.confirmed, abs=0.01)
    assert abs(task.seconds * 1e9 - counts[1]) <= 120  # three ticks: other numbers are multiplied


def test_what_does_not_fit_is_refused(host: BoardRunner) -> None:
    with pytest.raises(TargetError, match="not what the board host runs; legal: c, or another"):
        smelt.tune(quantized(), MemoryDatabase(), M4.target, trials=1, runner=host)
    with pytest.raises(CompileError, match="keeps nothing from call to call"):
        smelt.tune(quantized(), MemoryDatabase(), trials=1, runner=host, state={"a": "b"})
    with pytest.raises(MicroError, match="no board 'm4'"):
        BoardRunner("m4")


def test_the_command(host: BoardRunner, tmp_path: Path) -> None:
    model, kept = tmp_path / "q.onnx", tmp_path / "q.db"
    onnx.save(quantized(), model)

    def said(*words: str) -> Any:
        return CliRunner().invoke(app, ["tune", str(model), "--trials", "1", *words])

    done = said("--board", "host", "--kernel", SMALL, "--database", str(kept), "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["before_us"] > 0
    for words, why in (
        (("--target", M4.target), "C is measured on a board; give --board"),
        (("--target", M4.target, "--board", "host"), "is not what the board host runs"),
        (("--device", "a", "--board", "host"), "measured in one place"),
    ):
        assert why in str(said(*words).exception or said(*words).output)
    wanted = ["compile", str(model), "--target", "c", "--database", str(kept)]
    assert CliRunner().invoke(app, wanted).exit_code == 0
