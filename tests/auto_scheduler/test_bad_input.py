"""What is wrong with a task, an option or a log is said, with the place."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import smelt
from smelt import auto_scheduler, te
from smelt.ir.errors import CompileError, DatabaseError, SmeltError

from .workloads import NATIVE, matmul_add, square


def line(n: int = 16, target: str = "") -> str:
    """A line of a log, as if the default had been measured; target: in place of its own."""
    task = square(n)
    state = auto_scheduler.SketchPolicy(task).best_state()
    assert state.record is not None
    if target:
        state = replace(state, record=replace(state.record, target=target, machine="another"))
    made = auto_scheduler.MeasureInput(task, state)
    return auto_scheduler.dump_record_to_string(made, auto_scheduler.MeasureResult([1e-3]))


def test_unknown_workloads_name_the_nearest() -> None:
    with pytest.raises(CompileError, match=r"unknown workload 'tests.matmul_ad'.*tests.matmul_add"):
        auto_scheduler.SearchTask(func="tests.matmul_ad", args=(1,), target=NATIVE)
    with pytest.raises(CompileError, match="is no registered workload"):
        auto_scheduler.make_workload_key(list, ())
    with pytest.raises(CompileError, match="is no workload key"):
        auto_scheduler.workload_key_to_tensors("matmul")
    with pytest.raises(CompileError, match="registered already"):
        auto_scheduler.register_workload("tests.matmul_add", list)
    with pytest.raises(CompileError, match="give func and args, workload_key, or compute_dag"):
        auto_scheduler.SearchTask(target=NATIVE)


def test_keys_are_the_classic_ones_and_do_not_change_with_the_process() -> None:
    task = square(16)
    assert json.loads(task.workload_key) == ["tests.matmul_add", 16, 16, 16, "float32"]
    again = auto_scheduler.SearchTask(workload_key=task.workload_key, target=NATIVE)
    assert again.engine_key == task.engine_key
    assert "0x" not in str(task.compute_dag)  # no object's address
    assert task.compute_dag == auto_scheduler.ComputeDAG(matmul_add(16, 16, 16, "float32"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[1]", "no record of a tuning log"),
        ('{"i": [["[]", "llvm", []], [[], []]], "r": [[1.0], 0, 1, 1], "v": "v0.6"}',
         "TVM's auto_scheduler"),
        ('{"i": 1, "r": 2, "v": "smelt-1", "e": {}}', "no record of a tuning log"),
    ],
)  # fmt: skip
def test_a_corrupt_line_is_said_with_its_place(text: str, said: str, tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    log.write_text(f"{line()}\n\n{text}\n")
    with pytest.raises(DatabaseError, match=said) as caught:
        list(auto_scheduler.load_records(log))
    assert f"{log}:3" in str(caught.value)


def _with(change: Callable[[Any], object]) -> str:
    data = json.loads(line())
    change(data)
    return json.dumps(data)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["r"].__setitem__(0, ["fast"]), "seconds"),
        (lambda d: d["i"][0].__setitem__(1, "llvm -mcpi=x"), "mcpi"),
        (lambda d: d["i"][0].__setitem__(2, [0]), "no record"),
        (lambda d: d["i"][1].__setitem__(1, [1]), "no record"),
        (lambda d: d["e"]["record"].__setitem__("error", 77), "error"),
        (lambda d: d["e"]["record"].__setitem__("extra", 1), "extra"),
    ],
)  # fmt: skip
def test_fields_are_checked(change: Callable[[Any], object], said: str) -> None:
    with pytest.raises(DatabaseError, match=said):
        auto_scheduler.load_record_from_string(_with(change))


def test_steps_of_a_log_are_never_executed_as_python(tmp_path: Path) -> None:
    evil, made = tmp_path / "made", tmp_path / "log.json"
    step = f"open({str(evil)!r}, 'w')"
    made.write_text(_with(lambda d: d["i"][1].__setitem__(1, [step])) + "\n")
    with pytest.raises(SmeltError):
        square(16).apply_best(made)
    assert not evil.exists()


def test_logs_of_other_tasks_and_machines(tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    with pytest.raises(DatabaseError, match="cannot be read"):
        square(16).apply_best(log)
    log.write_text(line(32) + "\n")
    with pytest.raises(CompileError, match="it has none of this task"):
        square(16).apply_best(log)
    log.write_text(line(target="llvm -mcpu=cortex-a72 -mtriple=aarch64-linux-gnu") + "\n")
    with pytest.raises(CompileError, match="its records of this task are for: llvm -mcpu=cortex"):
        square(16).apply_best(log)
    assert square(16).apply_best(log, include_compatible=True)
    assert auto_scheduler.load_best_record(log, target=NATIVE) == (None, None)


def test_a_line_that_was_cut_off_costs_that_line_only(tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    log.write_text(line()[:100])
    pair = auto_scheduler.load_record_from_string(line())
    auto_scheduler.save_records(log, [pair[0]], [pair[1]])
    inputs, _ = auto_scheduler.RecordReader(log).read_lines(skip_lines=1)
    assert len(inputs) == 1
    with pytest.raises(DatabaseError, match=r"log\.json:1"):
        list(auto_scheduler.load_records(log))


FACE: Any = auto_scheduler
"""For arguments that the type checker refuses, too."""


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: auto_scheduler.TuningOptions(-1), "num_measure_trials is -1"),
        (lambda: auto_scheduler.TuningOptions(1, runner="rpc"), "runner is 'rpc'"),
        (lambda: FACE.TuningOptions(1, measure_callbacks=[print]), "no MeasureCallback"),
        (lambda: auto_scheduler.RPCRunner("key", "host", 9190, repeat=0), "repeat is 0"),
        (lambda: auto_scheduler.LocalRunner(timeout=0), "timeout is 0"),
        (lambda: auto_scheduler.LocalBuilder(build_func="ndk"), "build_func is 'ndk'"),
        (lambda: FACE.SketchPolicy(square(16), "xgb"), "program_cost_model is 'xgb'"),
        (lambda: auto_scheduler.SketchPolicy(square(16), None, {"eps": 1}), "eps_greedy"),
        (lambda: auto_scheduler.PreloadCustomSketchRule(print, print, "mine"), "'mine' works on"),
        (lambda: auto_scheduler.TaskScheduler([]), "no tasks"),
        (lambda: auto_scheduler.TaskScheduler([square(16)], [1, 2]), "2 weights for 1 tasks"),
        (lambda: auto_scheduler.TaskScheduler([square(16)], strategy="best"), "'gradient'"),
        (lambda: auto_scheduler.HardwareParams(num_cores=0), "num_cores is 0"),
        (lambda: FACE.ComputeDAG(3), "3 is a int"),
        (lambda: square(16).print_best("log", "cuda"), "print_mode is 'cuda'"),
    ],
)  # fmt: skip
def test_options_are_checked(make: Callable[[], object], said: str) -> None:
    with pytest.raises(CompileError, match=said):
        make()


def test_hardware_that_the_target_contradicts_is_refused() -> None:
    made = auto_scheduler.HardwareParams(num_cores=1)
    args = (16, 16, 16, "float32")
    task = auto_scheduler.SearchTask(matmul_add, args, target=NATIVE, hardware_params=made)
    assert task.cores == task.machine.cores == 1
    wide = auto_scheduler.HardwareParams(vector_unit_bytes=3)
    with pytest.raises(CompileError, match="vector_unit_bytes is 3; the target's is"):
        auto_scheduler.SearchTask(matmul_add, args, target=NATIVE, hardware_params=wide)


def test_args_of_a_schedule_have_to_be_its_programs() -> None:
    state = auto_scheduler.SketchPolicy(square(16)).best_state()
    sch, args = square(16).compute_dag.apply_steps_from_state(state)
    with pytest.raises(CompileError, match="the schedule's program has"):
        smelt.build(sch, [*args, te.placeholder((3,), name="X")])
