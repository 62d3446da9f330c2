"""Repeated timing, as the classic time evaluators do it."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from smelt.runtime.bound import BoundCall
from smelt.runtime.device import Device
from smelt.runtime.errors import InputError, at_least
from smelt.runtime.report import BenchmarkResult, TimeEvaluation

_LONGEST = 1 << 24  # runs of one measurement


def evaluate_times(
    what: str,
    timed: Callable[[int], float],
    number: int = 10,
    repeat: int = 1,
    min_repeat_ms: float | None = None,
    limit_zero_time_iterations: int = 100,
    cooldown_interval_ms: float = 0,
    repeats_to_cooldown: int = 1,
    cache_flush_bytes: int = 0,
) -> TimeEvaluation:
    """Seconds per run.

    what                        who asks, for messages
    timed                       runs so many times, and gives the milliseconds of one
    number                      runs that make one measurement
    repeat                      measurements
    min_repeat_ms               take more runs where a measurement is shorter
    limit_zero_time_iterations  there for the signature: our clock tells every run
    cooldown_interval_ms        sleep after every `repeats_to_cooldown` measurements
    cache_flush_bytes           bytes to write before each measurement, so that it starts cold
    """
    at_least(1, what, number=number, repeat=repeat, repeats_to_cooldown=repeats_to_cooldown)
    at_least(0, what, cache_flush_bytes=cache_flush_bytes)
    at_least(0, what, False, min_repeat_ms=0 if min_repeat_ms is None else min_repeat_ms,
             cooldown_interval_ms=cooldown_interval_ms)  # fmt: skip
    while min_repeat_ms and number < _LONGEST and timed(number) * number < min_repeat_ms:
        number *= 2
    results = []
    for i in range(repeat):
        if cooldown_interval_ms and i and i % repeats_to_cooldown == 0:
            time.sleep(cooldown_interval_ms / 1e3)
        if cache_flush_bytes:
            np.ones(cache_flush_bytes, np.uint8).sum()
        results.append(timed(number) / 1e3)
    return TimeEvaluation(tuple(results))


class Timed(ABC):
    """What can time its functions, as classic modules do."""

    @abstractmethod
    def bound_for(self, func_name: str, dev: Device | None) -> Callable[..., BoundCall]:
        """What fixes a function's arguments. Raises InputError for an unknown name or device."""

    def time_evaluator(
        self,
        func_name: str = "run",
        dev: Device | None = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: str = "",
    ) -> Callable[..., TimeEvaluation]:
        """A function of a function's arguments that times it, in seconds; see `evaluate_times`.

        One run before the measurements is not timed. On the `.module` of a GraphModule the inputs
        are left out: those that were set count.
        """
        bind = self.bound_for(func_name, dev)
        no_preparation(f_preproc)

        def evaluate(*args: Any) -> TimeEvaluation:
            call = bind(*args)
            call()
            return evaluate_times(
                "time_evaluator", call.time, number, repeat, min_repeat_ms,
                limit_zero_time_iterations, cooldown_interval_ms, repeats_to_cooldown,
                cache_flush_bytes,
            )  # fmt: skip

        return evaluate


def wall_clock(run: Callable[[], object]) -> Callable[[int], float]:
    """What runs so many times, and gives the milliseconds of one by the clock on the wall."""

    def timed(number: int) -> float:
        start = time.perf_counter()
        for _ in range(number):
            run()
        return (time.perf_counter() - start) * 1e3 / number

    return timed


def timed_runs(timed: Callable[[int], float], repeat: int, number: int | None) -> BenchmarkResult:
    """Milliseconds per run: `repeat` times the mean of `number` runs; None: so many as take 5.

    One run before is not timed.
    """
    at_least(1, "benchmark", repeat=repeat, number=1 if number is None else number)
    timed(1)
    if number is None:
        number = max(1, min(100_000, math.ceil(5.0 / max(1e-6, timed(3)))))
    return BenchmarkResult(tuple([timed(number) for _ in range(repeat)]), number)


def no_preparation(f_preproc: str) -> None:
    """Refuse a function to be called before each measurement."""
    if f_preproc:
        raise InputError(
            f"time_evaluator: f_preproc={f_preproc!r}: there are no registered functions; "
            "cache_flush_bytes=... makes measurements start cold"
        )
