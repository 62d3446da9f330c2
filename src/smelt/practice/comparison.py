"""A hand-written schedule beside the naive one, the processor's limit and a vendor's library."""

from __future__ import annotations

import importlib
import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

from smelt.codegen.peak import machine_limits
from smelt.pipeline import build
from smelt.runtime import num_threads

from . import schedules
from .report import Array, check, operands

NATIVE = "llvm -mcpu=native"
TURN = 5
"""Runs that are timed in a row."""


class Comparison(NamedTuple):
    """What the schedules of one product take.

    seconds  median of a run by name; "naive" went through LLVM's own optimiser at its highest level
    limit    GFLOP/s of multiply-adds alone, on as many threads
    """

    size: int
    threads: int
    seconds: dict[str, float]
    limit: float

    def speed(self, name: str) -> float:
        """GFLOP/s."""
        return 2 * self.size**3 / self.seconds[name] / 1e9

    def share(self, name: str) -> float:
        """Part of the limit."""
        return self.speed(name) / self.limit


def compare(n: int, rounds: int = 15) -> Comparison:
    """Time a product of size n; all take turns, so that the machine's moods meet all of them."""
    a, b, c = operands(n)
    runs = {
        "parallel": _runner(schedules.parallel(n), a, b, c, NATIVE),
        "packed": _runner(schedules.packed(n), a, b, c, NATIVE),
    }
    if importlib.util.find_spec("torch") is not None:
        runs["oneDNN"] = _onednn(a, b)
    naive = _runner(schedules.naive(n), a, b, c, NATIVE + " -opt-level=3")
    found: dict[str, list[float]] = {name: [] for name in runs}
    limits = []
    for turn in range(rounds):
        if turn % 3 == 0:
            limits.append(machine_limits(rounds=1).gflops)
        for name, run in runs.items():
            run()  # not timed: threads of the one before may still be spinning
            found[name] += [run() for _ in range(TURN)]
    medians = {name: statistics.median(times) for name, times in found.items()}
    slow = statistics.median([naive() for _ in range(3)])
    return Comparison(n, num_threads(), {"naive": slow, **medians}, max(limits))


def _runner(
    made: schedules.Scheduled, a: Array, b: Array, c: Array, target: str
) -> Callable[[], float]:
    """Compile, compare with numpy, and give a function that times one run in seconds."""
    mod = build(*made, target)
    error = check(mod, len(a))
    if not error < 1e-5:
        raise AssertionError(f"{target}: the product is wrong by {error:.1e}")
    call = mod[mod.entry_name].bind(a, b, c)
    return lambda: call.time(1) / 1e3


def _onednn(a: Array, b: Array) -> Callable[[], float]:
    """The same product by PyTorch, which calls oneDNN (or MKL)."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(num_threads())
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    out = torch.empty(len(a), len(a))

    def run() -> float:
        start = time.perf_counter()
        torch.mm(x, y, out=out)
        return time.perf_counter() - start

    run()
    return run
