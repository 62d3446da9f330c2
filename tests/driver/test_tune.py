"""`tvmc tune`: what was measured is in a log, goes on from one, and is what is compiled."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt.driver import tvmc as api
from smelt.driver.tvmc import TVMCModel
from smelt.driver.tvmc.autotuner import filtered

from .conftest import Array, Command

FAST = "--trials 4 --repeat 1 --tasks 0"


def lines(path: str) -> list[Any]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def tuned(package: str) -> int:
    """How many kernels of a package are scheduled as a log says."""
    kernels = smelt.runtime.read_metadata(package)["kernels"]
    return sum(["tuned" in k.get("sketches", ()) for k in kernels])


def decisions(path: str) -> Counter[str]:
    """The decisions of AutoTVM's log, but for the defaults, which are measured anew each time."""
    rows = [(r["input"][1], r["config"]["entity"][0][2]) for r in lines(path)]
    firsts = dict(reversed(rows))
    return Counter([f"{n} {d}" for n, d in rows if firsts[n] != d])


@pytest.mark.parametrize("tuner", ["xgb_rank_knob", "random", "gridsearch"])
def test_a_log_is_what_is_compiled(
    tvmc: Command, tuner: str, image: Array, expected: Array
) -> None:
    said = tvmc(f"tune net.onnx -o log.json --tuner {tuner} {FAST}")
    assert "[Task  1/ 1]" in said
    assert "Progress: (4/4)" in said
    assert len(lines("log.json")) == 4
    tvmc("compile net.onnx -o net.so --tuning-records log.json")
    assert tuned("net.so") >= 1
    np.testing.assert_allclose(smelt.load("net.so")(image), expected, rtol=1e-4, atol=1e-5)


def test_the_other_tuner(tvmc: Command, image: Array, expected: Array) -> None:
    words = "tune net.onnx --trials 4 --enable-autoscheduler --tasks 0 --num-cores 1"
    said = tvmc(f"{words} -o log.json --log-estimated-latency --include-simple-tasks")
    assert "| ID | task |" in said
    assert Path("total_latency.tsv").read_text().startswith("ElapsedTime(s),")
    tvmc("compile net.onnx -o net.so --tuning-records log.json --pass-config smelt.threads=1")
    assert tuned("net.so") >= 1
    np.testing.assert_allclose(smelt.load("net.so")(image), expected, rtol=1e-4, atol=1e-5)
    before = {line["i"][1][0] for line in lines("log.json")}
    tvmc(f"{words} -o more.json --tuning-records log.json")
    again = [line for line in lines("more.json") if line["e"]["record"]["source"] != "default"]
    assert again
    assert not [d for d in again if d["i"][1][0] in before]


def test_the_same_command_goes_on(tvmc: Command) -> None:
    for _ in range(2):
        tvmc(f"tune net.onnx -o log.json {FAST}")
    tvmc(f"tune net.onnx -o other.json {FAST} --tuning-records log.json")
    assert len(lines("log.json")) == 8
    known = decisions("log.json")
    assert set(known.values()) == {1}
    assert not known.keys() & decisions("other.json").keys()


def test_tasks_are_listed_and_chosen(tvmc: Command) -> None:
    said = tvmc("tune net.onnx -o log.json --tasks list").splitlines()
    assert said[0] == "Available Tasks for tuning:"
    assert said[1].startswith("  0. Task(func_name=fused_conv2d_add_relu, args=(")
    assert not Path("log.json").exists()
    every = [*"abcdefgh"]
    assert filtered(every, "all") == [*range(8)]
    assert filtered(every, "5-7, 0,6") == [5, 6, 7, 0]


def test_tuning_from_python(model: TVMCModel, image: Array, expected: Array) -> None:
    log = api.tune(model, trials=4, repeat=1, tasks_filter="0", early_stopping=2)
    assert log == model.default_tuning_records_path()
    again = api.tune(model, tuning_records=log, trials=2, repeat=1, tasks_filter="0")
    assert again == log
    package = api.compile(model, tuning_records=log)
    result = api.run(package, inputs={"input": image})
    np.testing.assert_allclose(result.get_output("output_0"), expected, rtol=1e-4, atol=1e-5)


def test_ctrl_c_loses_nothing(tvmc: Command, folder: Path) -> None:
    words = [sys.executable, "-m", "smelt.driver.tvmc", "tune", "net.onnx", "-o", "log.json"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    log = Path("log.json")
    while not log.exists() or not log.read_text():
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert said.endswith(
        "\ninterrupted; log.json has what was measured: the same command goes on\n"
    )
    assert lines("log.json")
    tvmc("compile net.onnx -o net.so --tuning-records log.json")
    assert tuned("net.so")
