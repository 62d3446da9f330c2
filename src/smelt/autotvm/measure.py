"""Measuring configs: what is measured, how it ended, and who builds and runs.

The engine does it: these are its settings under their classic names.
"""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import fmean
from typing import Any, NamedTuple

from smelt import rpc
from smelt.ir.errors import CompileError, Unsupported
from smelt.search.build import BuildExecutor, BuildFuture, LocalExecutor
from smelt.search.classic_codes import CODES as CODES
from smelt.search.classic_codes import MeasureErrorNo as MeasureErrorNo
from smelt.search.runner import Attempt, Outcome, Runner
from smelt.search.runner import LocalRunner as ProcessRunner
from smelt.search.timing import Protocol


class MeasureInput(NamedTuple):
    """A config of a task, on a target."""

    target: Any
    task: Any
    config: Any


class MeasureResult(NamedTuple):
    """How a measurement ended.

    costs      seconds of runs; where it failed, the error
    error_no   a MeasureErrorNo
    all_cost   seconds that building and measuring took
    timestamp  seconds since 1970
    """

    costs: tuple[Any, ...]
    error_no: int
    all_cost: float
    timestamp: float

    @property
    def mean(self) -> float:
        """The mean of its runs; infinite where it failed."""
        return fmean(self.costs) if not self.error_no and self.costs else float("inf")


class LocalBuilder(BuildExecutor):
    """Builds in worker processes on this machine."""

    def __init__(
        self,
        timeout: float = 10,
        n_parallel: int | None = None,
        build_kwargs: Any = None,
        build_func: Any = "default",
        do_fork: bool = False,
        runtime: Any = None,
    ) -> None:
        """n_parallel  how many workers; None: one a processor

        timeout and do_fork change nothing: workers start anew where one has died.
        """
        if build_func != "default" or build_kwargs:
            raise Unsupported(
                f"LocalBuilder: build_func={build_func!r}, build_kwargs={build_kwargs!r}; "
                'legal: build_func="default", for object code of the task\'s target'
            )
        self.timeout, self.n_parallel = timeout, n_parallel
        self._executor = LocalExecutor(n_parallel)

    def submit(self, fn: Any, /, *args: Any) -> BuildFuture:
        """Call a function of a module in a worker."""
        return self._executor.submit(fn, *args)


class LocalRunner(Runner):
    """Runs candidates on this machine, in a process of its own."""

    name = "local"

    def __init__(
        self,
        timeout: float = 10,
        number: int = 4,
        repeat: int = 3,
        min_repeat_ms: int = 0,
        cooldown_interval: float = 0.1,
        enable_cpu_cache_flush: bool = False,
        module_loader: Any = None,
    ) -> None:
        """timeout  seconds of one candidate

        repeat             samples
        number             calls of a sample: as many as 0.3 ms need, whatever is asked for
        min_repeat_ms      in place of 0.3 ms; longer samples are repeated samples here
        cooldown_interval  seconds between candidates
        enable_cpu_cache_flush  changes nothing: constants are read from memory in any case
        """
        if module_loader is not None:
            raise Unsupported("LocalRunner: module_loader; legal: None, candidates are linked here")
        if repeat < 1 or number < 1 or timeout <= 0:
            raise CompileError(
                f"LocalRunner: timeout={timeout}, number={number}, repeat={repeat}; legal: more "
                "than 0"
            )
        self.timeout, self.number, self.repeat = timeout, number, repeat
        self.min_repeat_ms, self.cooldown_interval = min_repeat_ms, cooldown_interval
        self._runner: Runner = ProcessRunner(timeout)

    @property
    def parallel(self) -> int:  # type: ignore[override]
        """How many candidates are measured at a time."""
        return self._runner.parallel

    def run(self, reference: Attempt, attempt: Attempt, protocol: Protocol) -> Outcome:
        """Time a candidate in turns with a reference."""
        time.sleep(self.cooldown_interval)
        wanted = max(self.min_repeat_ms / 1e3 * self.repeat, protocol.seconds)
        rounds = max(1, round(wanted / protocol.seconds)) * self.repeat
        # of slow candidates one sample says enough, and they may be very slow
        asked = replace(protocol, least=1, seconds=wanted, rounds=rounds)
        return self._runner.run(reference, attempt, asked)

    def close(self) -> None:
        """End the process."""
        self._runner.close()


class RPCRunner(LocalRunner):
    """Runs candidates on machines that a tracker gives."""

    name = "rpc"

    def __init__(
        self,
        key: str,
        host: str,
        port: int,
        priority: int = 1,
        timeout: float = 10,
        n_parallel: int | None = None,
        number: int = 4,
        repeat: int = 3,
        min_repeat_ms: int = 0,
        cooldown_interval: float = 0.1,
        enable_cpu_cache_flush: bool = False,
        module_loader: Any = None,
    ) -> None:
        """key, host, port  of the machines, and of the tracker

        n_parallel  how many of them measure at a time; None: one

        The others are those of LocalRunner.
        """
        super().__init__(timeout, number, repeat, min_repeat_ms, cooldown_interval,
                         enable_cpu_cache_flush, module_loader)  # fmt: skip
        self._runner = rpc.RPCRunner(key, host, port, priority=priority, timeout=timeout,
                                     parallel=n_parallel or 1)  # fmt: skip


def measure_option(builder: Any, runner: Any) -> dict[str, Any]:
    """Who builds and who runs.

    builder  LocalBuilder(), "local", any executor of `concurrent.futures`
    runner   LocalRunner(), "local", any Runner of `search`
    """
    built = LocalBuilder() if builder == "local" else builder
    run = LocalRunner() if runner == "local" else runner
    if not callable(getattr(built, "submit", None)):
        raise CompileError(f"measure_option: builder is {builder!r}; legal: LocalBuilder()")
    if not isinstance(run, Runner):
        raise CompileError(f"measure_option: runner is {runner!r}; legal: LocalRunner()")
    return {"builder": built, "runner": run}
