"""The limits of a machine, measured: multiply-adds from registers, and reading from memory.

Only text is made here; `load` turns it into code: it takes IR text and the name of a function in
it, and gives the function's address.
"""

import ctypes
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from smelt.ir.options import Options
from smelt.runtime.report import MachineLimits
from smelt.target import Target, hardware_of

from .llvm import ObjectCompiler, cpu_features, link_in_process, resolve

Load = Callable[[str, str], int]

FMA, READ = "smelt_peak_fma", "smelt_peak_read"
STREAMS = 8  # vectors read in one turn of the loop, each into its own sum
BATCH_SECONDS = 0.02


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
    """`void read(i64 turns, ptr data, ptr vector)`: reads consecutive vectors, sums them up."""
    vector, streams = f"<{registers.lanes} x float>", range(STREAMS)
    step = registers.bits // 8
    sums = [
        f"  %a{c} = phi {vector} [ zeroinitializer, %entry ], [ %b{c}, %loop ]" for c in streams
    ]
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
            f"define void @{READ}(i64 %turns, ptr %data, ptr %out) {{",
            "entry:",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
            "  %at = phi ptr [ %data, %entry ], [ %on, %loop ]",
            *sums,
            *reads,
            f"  %on = getelementptr i8, ptr %at, i64 {STREAMS * step}",
            "  %next = add i64 %i, 1",
            "  %more = icmp ult i64 %next, %turns",
            "  br i1 %more, label %loop, label %done",
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
        """Make the code; `load` may come from any code generator."""
        self.threads = threads
        self.registers = registers or Registers()
        self._fma = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(
            load(fma_text(self.registers), FMA)
        )
        self._read = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(
            load(read_text(self.registers), READ)
        )
        self._vectors = np.full((threads, self.registers.lanes), 0.5, np.float32)
        self._turns = 1 << 12
        while (seconds := self._seconds(self._multiply)) < BATCH_SECONDS:
            self._turns = int(self._turns * min(max(BATCH_SECONDS / seconds, 1.2), 16))

    def gflops(self) -> float:
        """Billions of float operations a second in one short batch; a multiply-add counts two."""
        operations = 2 * self.registers.lanes * self.registers.chains * self._turns * self.threads
        return operations / self._seconds(self._multiply) / 1e9

    def gigabytes(self, megabytes: int = 128) -> float:
        """Billions of bytes a second, each core reading its own part of so much memory."""
        turn = STREAMS * self.registers.bits // 8
        turns = megabytes * 10**6 // (turn * self.threads)
        data = np.ones((self.threads, turns * turn // 4), np.float32)

        def work(index: int) -> None:
            self._read(turns, data[index].ctypes.data, self._vectors[index].ctypes.data)

        best = min(self._seconds(work) for _ in range(3))
        self._vectors.fill(0.5)
        return data.nbytes / best / 1e9

    def _multiply(self, index: int) -> None:
        self._vectors[index] = 0.5
        self._fma(self._turns, self._vectors[index].ctypes.data)

    def _seconds(self, work: Callable[[int], None]) -> float:
        """From the first start to the last end of `work(index)` on every thread, each on a core."""
        spans = [(0.0, 0.0)] * self.threads
        barrier = threading.Barrier(self.threads)
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []

        def run(index: int) -> None:
            if self.threads <= len(cores):
                os.sched_setaffinity(0, {cores[index]})  # 0: this thread only
            barrier.wait()
            start = time.perf_counter()
            work(index)
            spans[index] = (start, time.perf_counter())

        workers = [threading.Thread(target=run, args=(index,)) for index in range(self.threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return max(end for _, end in spans) - min(start for start, _ in spans)


def machine_limits(threads: int | None = None) -> MachineLimits:
    """This machine's multiply-add and memory limits on some threads (None: all), measured now."""
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
    return MachineLimits(peak.gflops(), peak.gigabytes())
