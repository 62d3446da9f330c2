"""The machine's limits: what is measured is done, and beside what it is to be compared with."""

from __future__ import annotations

import ctypes

import numpy as np

import smelt
from smelt.codegen.llvm import ObjectCompiler, link_in_process, resolve
from smelt.codegen.peak import READ, STREAMS, read_text
from smelt.target import Target, machine_of


def test_every_pass_reads_every_vector() -> None:
    target = resolve(Target("llvm -mcpu=native"))
    machine = machine_of(target).replace(vector_bytes=16, vector_registers=16)
    code = ObjectCompiler(target).object(read_text(machine), READ)
    addresses, _alive = link_in_process([code], [READ])
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    read = ctypes.CFUNCTYPE(None, size, size, pointer, pointer)(addresses[READ])
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
