"""The limits of a machine, measured: multiply-adds from registers, reading caches and memory,
waiting for memory, starting parallel loops.

What is timed is written as tensor programs: sums in registers that loops update.
"""

import ctypes
import functools
import operator
import os
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from smelt.ir.expr import INDEX, Broadcast, Call, Expr, FloatImm, Ramp, Var, const
from smelt.ir.options import Options
from smelt.runtime import native
from smelt.runtime.errors import at_least
from smelt.runtime.limits import Bandwidth, MachineLimits
from smelt.target import Machine, Target, machine_of
from smelt.tir import nodes as tir

from .llvm import ObjectCompiler, link_in_process, resolve
from .llvm_text import emit_module

FMA, READ = "smelt_peak_fma", "smelt_peak_read"
CHASE, LAUNCH = "smelt_peak_chase", "smelt_peak_launch"
STREAMS = 8  # vectors read in one turn of the loop, each into its own sum
# Batches are as short as kernels are, so that interruptions meet both alike.
BATCH_SECONDS, BATCH_BYTES, BATCHES = 0.001, 1 << 26, 9
LINE, FLOAT = 64, 4  # bytes
PAGE = 1 << 21  # bytes: a cache's worth that lies on small and huge pages is read more slowly
MEMORY = 128 * 10**6  # bytes that few caches hold
ROUNDS = 5
STEPS = 1 << 14  # through memory, in a batch
LAUNCHES, WORK = 1 << 8, 1 << 12  # in a batch; and what a task counts to, some microseconds
WORDS = LINE // 8  # in a cache line


def _chains(machine: Machine) -> int:
    """Independent sums that hide the latency and leave registers for the operands."""
    return machine.vector_registers * 3 // 4


def fma_text(machine: Machine) -> str:
    """`fma(i64 turns, float x, ptr total)`: a turn is one multiply-add a chain, in registers."""
    turns, x = Var("turns", INDEX), Var("x", "float32")
    lanes = machine.lanes(FLOAT)
    wide = Broadcast(x, lanes)
    total = tir.Buffer("total", (const(lanes),))

    def multiply(chain: int, so_far: Expr, turn: Expr) -> Expr:
        return Call(so_far.dtype, "fma", (wide, wide, so_far))

    # Chains that begin alike would be one.
    starts = [float(c) for c in range(_chains(machine))]
    return _sums(FMA, (turns, x, total), (turns,), starts, multiply)


def read_text(machine: Machine) -> str:
    """`read(i64 passes, i64 turns, ptr data, ptr total)`: sums up consecutive vectors."""
    passes, turns, lanes = Var("passes", INDEX), Var("turns", INDEX), machine.lanes(FLOAT)
    data = tir.Buffer("data", (turns * (STREAMS * lanes),))
    total = tir.Buffer("total", (const(lanes),))

    def add(stream: int, so_far: Expr, turn: Expr) -> Expr:
        at = turn * (STREAMS * lanes) + stream * lanes
        return so_far + tir.BufferLoad(data, (Ramp(at, const(1), lanes),))

    loops = (passes, turns)
    return _sums(READ, (*loops, data, total), loops, [0.0] * STREAMS, add)


def _sums(
    name: str,
    params: tuple[tir.Buffer | Var, ...],
    loops: Sequence[Var],
    starts: Sequence[float],
    update: Callable[[int, Expr, Expr], Expr],
) -> str:
    """LLVM text of loops that update vectors in registers, as often as `loops` say together.

    params  the last one gets the total, so that none of the work is dead
    update  (which vector, its value, the innermost loop's turn) -> its next value
    """
    total = params[-1]
    assert isinstance(total, tir.Buffer)
    (lanes,) = total.fixed_shape() or ()
    sums = tir.Buffer("sums", (const(lanes * len(starts)),), scope="local")
    places = [(Ramp(const(lanes * n), const(1), lanes),) for n in range(len(starts))]
    values: list[Expr] = [tir.BufferLoad(sums, p) for p in places]
    turns = [Var(f"turn{n}", INDEX) for n in range(len(loops))]
    body = tir.seq(
        *[tir.BufferStore(sums, update(n, v, turns[-1]), places[n]) for n, v in enumerate(values)]
    )
    for turn, count in zip(reversed(turns), reversed(loops), strict=True):
        body = tir.For(turn, const(0), count, body)
    begin = [
        tir.BufferStore(sums, Broadcast(FloatImm("float32", x), lanes), p)
        for x, p in zip(starts, places, strict=True)
    ]
    end = tir.BufferStore(total, functools.reduce(operator.add, values), places[0])
    stmt = tir.Allocate(sums, tir.seq(*begin, body, end))
    return emit_module([tir.PrimFunc(params, stmt, {"name": name, "plain": True})])


class Peak:
    """Measures, again and again, what `threads` cores can do at most."""

    def __init__(self, threads: int, target: Target, machine: Machine) -> None:
        """Make the code, for a (resolved) target. No two threads share a core."""
        affine = hasattr(os, "sched_setaffinity")
        self._cores = sorted(os.sched_getaffinity(0)) if affine else []
        self.threads = min(threads, len(self._cores) or os.cpu_count() or 1)
        self.machine = machine
        compiler = ObjectCompiler(target)
        texts = {FMA: fma_text(machine), READ: read_text(machine)}
        objects = [compiler.object(text, name) for name, text in texts.items()]
        addresses, self._alive = link_in_process(objects, [FMA, READ])
        size, pointer = ctypes.c_int64, ctypes.c_void_p
        self._fma = ctypes.CFUNCTYPE(None, size, ctypes.c_float, pointer)(addresses[FMA])
        self._read = ctypes.CFUNCTYPE(None, size, size, pointer, pointer)(addresses[READ])
        self._vectors = np.empty((self.threads, machine.lanes(FLOAT)), np.float32)
        self._data = np.ones(0, np.float32)
        self._turns = 1 << 12
        while (seconds := self.threads / self._rate(self._multiply)) < BATCH_SECONDS:
            self._turns = int(self._turns * min(max(BATCH_SECONDS / seconds, 1.2), 16))

    def gflops(self) -> float:
        """Billions of float operations a second in short batches; a multiply-add counts two."""
        operations = 2 * self.machine.lanes(FLOAT) * _chains(self.machine) * self._turns
        return operations * self._rate(self._multiply) / 1e9

    def gigabytes(self, size: int = MEMORY) -> float:
        """Billions of bytes a second, each core reading its own part of so many, again and again.

        The first pass, which is not timed, brings the bytes near.
        """
        turn = STREAMS * self.machine.vector_bytes
        turns = max(1, size // (turn * self.threads))
        part = turns * turn
        if self._data.nbytes < part * self.threads + PAGE:
            self._data = np.ones((part * self.threads + PAGE) // 4, np.float32)
        start = self._data.ctypes.data + -self._data.ctypes.data % PAGE
        passes = max(1, BATCH_BYTES // part)

        def read(index: int) -> None:
            at, out = start + index * part, self._vectors[index].ctypes.data
            self._read(passes, turns, at, out)

        return passes * part * self._rate(read) / 1e9

    def _multiply(self, index: int) -> None:
        self._fma(self._turns, 0.5, self._vectors[index].ctypes.data)

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
            return _batch_seconds(functools.partial(work, index))

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
    machine = machine_of(target)
    peak = Peak(threads or Options().cores, target, machine)
    sizes = _working_sets(machine, peak.threads)
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


def _working_sets(machine: Machine, threads: int) -> dict[str, int]:
    """Bytes that stay in each cache: half of it, of all threads' caches where each has its own."""
    halves = {name: size // 2 for name, size in machine.cache_sizes(threads).items()}
    return {**halves, "memory": max([MEMORY, *[4 * c.size for c in machine.caches]])}


def chase_text() -> str:
    """`chase(i64 steps, ptr data, ptr last)`: each step goes where the one before has read."""
    steps, turn = Var("steps", INDEX), Var("turn", INDEX)
    data, last = tir.Buffer("data", (steps,), INDEX), tir.Buffer("last", (const(1),), INDEX)
    at = tir.Buffer("at", (const(1),), INDEX, scope="local")
    go = tir.BufferStore(at, data[at[0]], (const(0),))
    body = tir.seq(
        tir.BufferStore(at, last[0], (const(0),)),
        tir.For(turn, const(0), steps, go),
        tir.BufferStore(last, at[0], (const(0),)),
    )
    func = tir.PrimFunc((steps, data, last), tir.Allocate(at, body), {"name": CHASE, "plain": True})
    return emit_module([func])


def launch_text() -> str:
    """`launch(host, i64 launches, i64 tasks, i64 work, ptr counts)`: parallel loops one after the
    other, whose tasks count so far, each in a cache line of its own.
    """
    launches, tasks, work = Var("launches", INDEX), Var("tasks", INDEX), Var("work", INDEX)
    task, step = Var("task", INDEX), Var("step", INDEX)
    counts = tir.Buffer("counts", (tasks * WORDS,), INDEX)
    count = tir.BufferStore(counts, counts[task * WORDS] + 1, (task * WORDS,))
    loop = tir.For(task, const(0), tasks, tir.For(step, const(0), work, count), "parallel")
    body = tir.For(Var("turn", INDEX), const(0), launches, loop)
    return emit_module([tir.PrimFunc((launches, tasks, work, counts), body, {"name": LAUNCH})])


def memory_latency(target: Target, size: int) -> float:
    """Seconds from an address to its contents: a walk through so many bytes in random order."""
    address, _alive = linked(target, chase_text(), CHASE)
    pointer = ctypes.c_void_p
    chase = ctypes.CFUNCTYPE(None, ctypes.c_int64, pointer, pointer)(address)
    order = np.random.default_rng(0).permutation(size // LINE) * WORDS
    data, last = np.zeros(size // 8, np.int64), np.zeros(1, np.int64)
    data[order] = np.roll(order, -1)  # one circle through all lines

    def walk() -> None:
        chase(STEPS, data.ctypes.data, last.ctypes.data)

    return _batch_seconds(walk) / STEPS


def launch_seconds(target: Target, threads: int) -> float:
    """Seconds to start a parallel loop and to wait for its end, on threads that expect one.

    By how much a loop with a task for each thread takes longer than one task: with nothing to do,
    one thread would take all tasks before the others begin.
    """
    address, _alive = linked(target, launch_text(), LAUNCH)
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    launch = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, size, size, size, pointer)(address)
    host = native.host_of(threads)
    counts = np.zeros(threads * WORDS, np.int64)

    def seconds(tasks: int) -> float:
        def run() -> None:
            launch(ctypes.byref(host), LAUNCHES, tasks, WORK, counts.ctypes.data)

        return _batch_seconds(run) / LAUNCHES

    return max(seconds(threads) - seconds(1), 1e-9)


def linked(target: Target, text: str, name: str) -> tuple[int, Any]:
    """The address of a function, and what keeps it alive."""
    addresses, alive = link_in_process([ObjectCompiler(target).object(text, name)], [name])
    return addresses[name], alive


def _batch_seconds(work: Callable[[], None]) -> float:
    """The median time of some batches; the first one is not counted."""
    times = [time.perf_counter()]
    for _ in range(1 + BATCHES):
        work()
        times.append(time.perf_counter())
    return statistics.median([b - a for a, b in pairwise(times[1:])])


@dataclass(frozen=True)
class Measured:
    """What was measured of this machine.

    machine  its figures, those that were measured in place of the table's
    one      limits of one core; every: of all of them
    """

    machine: Machine
    one: MachineLimits
    every: MachineLimits


def measure_machine(progress: Callable[[str, int, int], None], rounds: int = ROUNDS) -> Measured:
    """Measure this machine: see `smelt targets --measure`. progress: (stage, done, total)."""
    target = resolve(Target("llvm -mcpu=native"))
    machine = machine_of(target, Options().cores)
    limits: list[MachineLimits] = []
    for threads in (1, machine.cores):
        progress("measuring", len(limits), 4)
        limits.append(machine_limits(threads, rounds=rounds))
    one, every = limits
    progress("measuring", 2, 4)
    latency = memory_latency(target, one.levels[-1].bytes)
    progress("measuring", 3, 4)
    launch = launch_seconds(target, machine.cores)
    progress("measuring", 4, 4)
    clock = machine.clock * every.gflops * 1e9 / (machine.cores * machine.flops)
    given = {b.level: b.gbytes * 1e9 / clock for b in one.levels}
    found = machine.replace(
        clock=clock,
        caches=tuple([c.replace(bytes_per_cycle=given.get(c.name, c.bytes_per_cycle))
                      for c in machine.caches]),
        memory=one.gbytes * 1e9,
        memory_all=every.gbytes * 1e9,
        memory_latency=latency,
        launch=launch,
    )  # fmt: skip
    return Measured(found, one, every)
