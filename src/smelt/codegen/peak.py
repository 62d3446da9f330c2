"""The limits of a machine, measured: multiply-adds from registers, reading caches and memory.

Only text is made here; `load` turns it into code: it takes IR text and the name of a function in
it, and gives the function's address.
"""

import ctypes
import os
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from smelt.ir.options import Options
from smelt.runtime.errors import at_least
from smelt.runtime.limits import Bandwidth, MachineLimits
from smelt.target import Hardware, Target, hardware_of

from .llvm import ObjectCompiler, cpu_features, link_in_process, resolve

Load = Callable[[str, str], int]

FMA, READ = "smelt_peak_fma", "smelt_peak_read"
STREAMS = 8  # vectors read in one turn of the loop, each into its own sum
# Batches are as short as kernels are, so that interruptions meet both alike.
BATCH_SECONDS, BATCH_BYTES, BATCHES = 0.001, 1 << 26, 9
ALIGNMENT = 64
MEMORY = 128 * 10**6  # bytes that few caches hold
ROUNDS = 5


@dataclass(frozen=True)
class Registers:
    """The vector registers of a CPU."""

    bits: int = 512
    count: int = 32

    @property
    def lanes(self) -> int:
        """Floats in one register."""
        return self.bits // 32

    @property
    def chains(self) -> int:
        """Independent sums that hide the latency and leave registers for the operands."""
        return self.count * 3 // 4


def fma_text(registers: Registers) -> str:
    """`void fma(i64 turns, ptr vector)`: a turn is one multiply-add a chain, in registers."""
    vector, chains = f"<{registers.lanes} x float>", range(registers.chains)
    intrinsic = f"@llvm.fma.v{registers.lanes}f32"

    def splat(value: float) -> str:
        return f"<{', '.join([f'float {value}'] * registers.lanes)}>"

    sums = [
        f"  %a{c} = phi {vector} [ {splat(float(c))}, %entry ], [ %b{c}, %loop ]" for c in chains
    ]
    adds = [
        f"  %b{c} = call {vector} {intrinsic}({vector} %x, {vector} %x, {vector} %a{c})"
        for c in chains
    ]
    return "\n".join(
        [
            f"declare {vector} {intrinsic}({vector}, {vector}, {vector})",
            f"define void @{FMA}(i64 %turns, ptr %out) {{",
            "entry:",
            f"  %x = load {vector}, ptr %out, align 4",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
            *sums,
            *adds,
            "  %next = add i64 %i, 1",
            "  %more = icmp ult i64 %next, %turns",
            "  br i1 %more, label %loop, label %done",
            "done:",
            *_total(vector, registers.chains),
            "  ret void",
            "}",
            "",
        ]
    )


def read_text(registers: Registers) -> str:
    """`void read(i64 passes, i64 turns, ptr data, ptr vector)`: sums up consecutive vectors."""
    vector, streams = f"<{registers.lanes} x float>", range(STREAMS)
    step = registers.bits // 8
    outer = [
        f"  %z{c} = phi {vector} [ zeroinitializer, %entry ], [ %b{c}, %again ]" for c in streams
    ]
    sums = [f"  %a{c} = phi {vector} [ %z{c}, %pass ], [ %b{c}, %loop ]" for c in streams]
    reads = [
        line
        for c in streams
        for line in (
            f"  %p{c} = getelementptr i8, ptr %at, i64 {c * step}",
            f"  %v{c} = load {vector}, ptr %p{c}, align 4",
            f"  %b{c} = fadd {vector} %a{c}, %v{c}",
        )
    ]
    return "\n".join(
        [
            f"define void @{READ}(i64 %passes, i64 %turns, ptr %data, ptr %out) {{",
            "entry:",
            "  br label %pass",
            "pass:",
            "  %p = phi i64 [ 0, %entry ], [ %following, %again ]",
            *outer,
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %pass ], [ %next, %loop ]",
            "  %at = phi ptr [ %data, %pass ], [ %on, %loop ]",
            *sums,
            *reads,
            f"  %on = getelementptr i8, ptr %at, i64 {STREAMS * step}",
            "  %next = add i64 %i, 1",
            "  %more = icmp ult i64 %next, %turns",
            "  br i1 %more, label %loop, label %again",
            "again:",
            "  %following = add i64 %p, 1",
            "  %last = icmp uge i64 %following, %passes",
            "  br i1 %last, label %done, label %pass",
            "done:",
            *_total(vector, STREAMS),
            "  ret void",
            "}",
            "",
        ]
    )


def _total(vector: str, count: int) -> list[str]:
    """Adds %b0 … up and stores the sum, so that none of the work is dead."""
    lines = [f"  %s0 = fadd {vector} %b0, %b1"]
    lines += [f"  %s{c - 1} = fadd {vector} %s{c - 2}, %b{c}" for c in range(2, count)]
    return [*lines, f"  store {vector} %s{count - 2}, ptr %out, align 4"]


class Peak:
    """Measures, again and again, what `threads` cores can do at most."""

    def __init__(self, threads: int, load: Load, registers: Registers | None = None) -> None:
        """Make the code; `load` may come from any code generator. No two threads share a core."""
        affine = hasattr(os, "sched_setaffinity")
        self._cores = sorted(os.sched_getaffinity(0)) if affine else []
        self.threads = min(threads, len(self._cores) or os.cpu_count() or 1)
        self.registers = registers or Registers()
        self._fma = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(
            load(fma_text(self.registers), FMA)
        )
        sizes, pointers = [ctypes.c_int64] * 2, [ctypes.c_void_p] * 2
        self._read = ctypes.CFUNCTYPE(None, *sizes, *pointers)(
            load(read_text(self.registers), READ)
        )
        self._vectors = np.full((self.threads, self.registers.lanes), 0.5, np.float32)
        self._data = np.ones(0, np.float32)
        self._turns = 1 << 12
        while (seconds := self.threads / self._rate(self._multiply)) < BATCH_SECONDS:
            self._turns = int(self._turns * min(max(BATCH_SECONDS / seconds, 1.2), 16))

    def gflops(self) -> float:
        """Billions of float operations a second in short batches; a multiply-add counts two."""
        operations = 2 * self.registers.lanes * self.registers.chains * self._turns
        return operations * self._rate(self._multiply) / 1e9

    def gigabytes(self, size: int = MEMORY) -> float:
        """Billions of bytes a second, each core reading its own part of so many, again and again.

        The first pass, which is not timed, brings the bytes near.
        """
        turn = STREAMS * self.registers.bits // 8
        turns = max(1, size // (turn * self.threads))
        part = turns * turn
        if self._data.nbytes < part * self.threads + ALIGNMENT:
            self._data = np.ones((part * self.threads + ALIGNMENT) // 4, np.float32)
        start = self._data.ctypes.data + -self._data.ctypes.data % ALIGNMENT
        passes = max(1, BATCH_BYTES // part)

        def read(index: int) -> None:
            at, out = start + index * part, self._vectors[index].ctypes.data
            self._read(passes, turns, at, out)

        found = passes * part * self._rate(read) / 1e9
        self._vectors.fill(0.5)
        return found

    def _multiply(self, index: int) -> None:
        self._vectors[index] = 0.5
        self._fma(self._turns, self._vectors[index].ctypes.data)

    def _rate(self, work: Callable[[int], None]) -> float:
        """How often a second all threads together do `work(index)`, each on a core of its own.

        Of each thread the median of some batches: not more than half were interrupted, which may
        be said of the runs of a kernel, too. The first one is not counted.
        """
        barrier = threading.Barrier(self.threads)

        def run(index: int) -> float:
            if self._cores:
                os.sched_setaffinity(0, {self._cores[index]})  # 0: this thread only
            barrier.wait()
            times = [time.perf_counter()]
            for _ in range(1 + BATCHES):
                work(index)
                times.append(time.perf_counter())
            return statistics.median([b - a for a, b in pairwise(times[1:])])

        with ThreadPoolExecutor(self.threads) as pool:
            return sum([1 / median for median in pool.map(run, range(self.threads))])


def machine_limits(
    threads: int | None = None, between: Callable[[], object] | None = None, rounds: int = ROUNDS
) -> MachineLimits:
    """This machine's limits on some threads (None: all), measured now: medians of all rounds.

    Billions of float32 operations a second, and of bytes a second from each cache and from memory.

    between  called between the rounds, so that the limits are those of the time when it ran
    """
    at_least(1, "machine_limits", threads=1 if threads is None else threads, rounds=rounds)
    target = resolve(Target("llvm -mcpu=native"))
    hardware = hardware_of(target, cpu_features(target))
    compiler = ObjectCompiler(target)
    alive: list[Any] = []

    def load(text: str, symbol: str) -> int:
        addresses, keep = link_in_process([compiler.object(text, symbol)], [symbol])
        alive.append(keep)
        return addresses[symbol]

    registers = Registers(hardware.vector_bytes * 8, hardware.vector_registers)
    peak = Peak(threads or Options().cores, load, registers)
    sizes = _working_sets(hardware, peak.threads)
    rows = []
    for turn in range(rounds):
        if turn and between is not None:
            between()
            time.sleep(0.01)  # threads of what ran have stopped looking for work
        rows.append((peak.gflops(), *[peak.gigabytes(size) for size in sizes.values()]))
    gflops, *reading = [statistics.median(column) for column in zip(*rows, strict=True)]
    levels = [Bandwidth(n, b, g) for (n, b), g in zip(sizes.items(), reading, strict=True)]
    measured = tuple([(row[0], row[-1]) for row in rows])
    return MachineLimits(gflops, reading[-1], tuple(levels), measured, peak.threads)


def _working_sets(hardware: Hardware, threads: int) -> dict[str, int]:
    """Bytes that stay in each cache: half of it, of all threads' caches where each has its own."""
    caches = {"L1": hardware.l1 * threads, "L2": hardware.l2 * threads, "L3": hardware.l3}
    found: dict[str, int] = {}
    for name, size in caches.items():
        if size // 2 > max(found.values(), default=0):
            found[name] = size // 2
    return {**found, "memory": max(MEMORY, 4 * hardware.l3)}
