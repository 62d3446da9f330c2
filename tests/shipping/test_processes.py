"""Threads, forked processes and killed workers."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import smelt
from smelt.codegen.workers import default_pool
from smelt.ir.errors import InternalError
from smelt.runtime import Executable
from tests.models.compare import agree, compiled, run
from tests.models.net import floats
from tests.shipping.conftest import Case, Script


class Killer(threading.Thread):
    """Kills the workers that it sees, `most` of them, until it is told to stop."""

    def __init__(self, most: int) -> None:
        super().__init__(daemon=True)
        self.most, self.killed, self.enough = most, 0, threading.Event()

    def run(self) -> None:
        pool = default_pool(2)
        while self.killed < self.most and not self.enough.wait(0.005):
            for pid in pool.pids[: self.most - self.killed]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    self.killed += 1

    def __enter__(self) -> Killer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.enough.set()
        self.join()


def test_a_killed_worker_is_replaced(case: Case) -> None:
    options = smelt.Options(cache_dir="", workers=2)
    with Killer(most=1) as killer:
        exe = smelt.compile(case.model, options=options)
    assert killer.killed == 1
    agree(run(exe, {"x": case.x}), [case.y])


def test_workers_that_are_killed_again_and_again(
    cases: dict[str, Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMELT_CACHE_DIR", str(tmp_path))
    case = cases["mlp"]
    options = smelt.Options(cache_dir=str(tmp_path), workers=2)
    with Killer(most=10**6), pytest.raises(InternalError) as caught:
        smelt.compile(case.model, options=options)
    first = str(caught.value).splitlines()[0]
    assert first.startswith("fused_matmul")
    assert first.endswith(
        ": its worker process was killed twice (SIGKILL), as where memory runs out"
    )
    agree(run(smelt.compile(case.model, options=options), {"x": case.x}), [case.y])


def test_several_models_in_one_process(cases: dict[str, Case], cache: str) -> None:
    made = [(c, compiled(c.model, cache, threads)) for c in cases.values() for threads in (1, 2)]
    for _ in range(3):
        for case, exe in made:
            agree(run(exe, {"x": case.x}), [case.y])


def test_several_threads_on_one_model(case: Case, exe: Executable) -> None:
    inputs = [floats("x", *case.x.shape, seed=seed)["x"] for seed in range(8)]
    expected = [exe(x).numpy() for x in inputs]

    def work(index: int) -> bool:
        results = [exe(inputs[index]).numpy() for _ in range(20)]
        return all(np.array_equal(r, expected[index]) for r in results)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


def test_several_threads_compile(cases: dict[str, Case], tmp_path: Path) -> None:
    def work(case: Case) -> None:
        agree(run(compiled(case.model, str(tmp_path)), {"x": case.x}), [case.y])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, [*cases.values()] * 2))


FORK = """
import os, sys, numpy, smelt
model, cache, other = sys.argv[1:]
options = smelt.Options(threads=2, cache_dir=cache)
exe = smelt.compile(model, options=options)
x = numpy.random.default_rng(0).standard_normal(exe.inputs[0].shape).astype("float32")
y = exe(x).numpy()
child = os.fork()
if child == 0:
    code = 1
    try:
        same = all(numpy.array_equal(exe(x).numpy(), y) for _ in range(10))
        again = smelt.compile(model, options=smelt.Options(threads=2, cache_dir=other))
        code = 0 if same and numpy.array_equal(again(x).numpy(), y) else 3
    finally:
        os._exit(code)
assert numpy.array_equal(exe(x).numpy(), y)
status = os.waitpid(child, 0)[1]
assert status == 0, status
assert numpy.array_equal(exe(x).numpy(), y)
"""


def test_a_forked_child_runs_and_compiles(
    case: Case, cache: str, tmp_path: Path, script: Script
) -> None:
    script(FORK, case.path, cache, tmp_path)


def test_a_bound_call(case: Case, exe: Executable) -> None:
    x, y = case.x.copy(), np.empty_like(case.y)
    call = exe.bind(x, y)
    call()
    agree([y], [case.y])
    x[...] = floats("x", *x.shape, seed=9)["x"]
    call()
    np.testing.assert_array_equal(y, exe(x).numpy())


def test_what_a_call_left_in_memory_does_not_matter(case: Case, exe: Executable) -> None:
    call = exe.bind(case.x)
    memory = call._frame.workspace
    assert memory is not None
    ctypes.memset(memory.address, 0xFF, memory.size)
    call()
    agree([np.from_dlpack(call.outputs[0])], [case.y])


def test_calls_in_turns_of_two_models_share_the_pool(cases: dict[str, Case], cache: str) -> None:
    made = [(c, compiled(c.model, cache, 2)) for c in cases.values()]
    stop = time.monotonic() + 0.5

    def work(index: int) -> None:
        case, exe = made[index % 2]
        while time.monotonic() < stop:
            agree([exe(case.x).numpy()], [case.y])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
