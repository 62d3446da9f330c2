"""The machine's limits: what is measured is done, and beside what it is to be compared with."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import smelt
from smelt.codegen.llvm import resolve
from smelt.codegen.peak import (
    CHASE,
    LAUNCH,
    READ,
    STREAMS,
    WORDS,
    chase_text,
    launch_text,
    linked,
    measure_machine,
    read_text,
)
from smelt.runtime import native
from smelt.target import Target, machine_of
from smelt.target.machine import MEASURED


def test_every_pass_reads_every_vector() -> None:
    target = resolve(Target("llvm -mcpu=native"))
    machine = machine_of(target).replace(vector_bytes=16, vector_registers=16)
    address, _alive = linked(target, read_text(machine), READ)
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    read = ctypes.CFUNCTYPE(None, size, size, pointer, pointer)(address)
    data = np.arange(5 * STREAMS * machine.lanes(4), dtype=np.float32)
    total = np.zeros(machine.lanes(4), np.float32)
    read(3, 5, data.ctypes.data, total.ctypes.data)
    assert total.tolist() == (3 * data.reshape(-1, machine.lanes(4)).sum(0)).tolist()


def test_limits_are_measured_around_what_runs() -> None:
    calls: list[int] = []
    limits = smelt.machine_limits(1, lambda: calls.append(len(calls)), rounds=3)
    assert calls == [0, 1]
    assert (len(limits.measured), limits.threads) == (3, 1)
    assert limits.gflops in [m[0] for m in limits.measured]
    assert limits.levels[-1].level == "memory"
    assert limits.levels[-1].gbytes == limits.gbytes
    sizes = [p.bytes for p in limits.levels]
    assert sizes == sorted(set(sizes))
    assert f"{limits.gflops:.0f} GFLOP/s" in limits.text()


def test_a_chase_goes_where_memory_says() -> None:
    target = resolve(Target("llvm -mcpu=native"))
    address, _alive = linked(target, chase_text(), CHASE)
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    chase = ctypes.CFUNCTYPE(None, size, pointer, pointer)(address)
    data, last = np.array([3, 0, 1, 4, 2], np.int64), np.zeros(1, np.int64)
    seen = []
    for _ in range(5):
        chase(1, data.ctypes.data, last.ctypes.data)
        seen.append(int(last[0]))
    assert seen == [3, 4, 2, 1, 0]
    chase(7, data.ctypes.data, last.ctypes.data)
    assert last[0] == 4


@pytest.mark.parametrize("threads", [1, 2])
def test_every_task_of_a_launch_counts(threads: int) -> None:
    target = resolve(Target("llvm -mcpu=native"))
    address, _alive = linked(target, launch_text(), LAUNCH)
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    launch = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, size, size, size, pointer)(address)
    host, view = native.Host(), native.PoolView()
    native.library().smelt_host_init(ctypes.byref(host), ctypes.byref(view), threads)
    counts = np.zeros(4 * WORDS, np.int64)
    assert launch(ctypes.byref(host), 5, 3, 7, counts.ctypes.data) == 0
    assert counts[::WORDS].tolist() == [35, 35, 35, 0]
    assert counts.sum() == 3 * 35


def test_the_measured_machine_is_this_one() -> None:
    stages: list[int] = []
    found = measure_machine(lambda stage, done, total: stages.append(done), rounds=1)
    assert stages == sorted(stages)
    known = machine_of(resolve(Target("llvm -mcpu=native")), found.machine.cores)
    assert (found.one.threads, found.machine.cpu) == (1, known.cpu)
    assert [c.size for c in found.machine.caches] == [c.size for c in known.caches]
    measured = [getattr(found.machine, name) for name in MEASURED]
    assert min([*measured, *[c.bytes_per_cycle for c in found.machine.caches]]) > 0
