"""How candidates are built and run, and what is told of each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from smelt import rpc
from smelt.ir.errors import CompileError
from smelt.search.build import LocalExecutor
from smelt.search.classic_codes import CODES
from smelt.search.classic_codes import MeasureErrorNo as MeasureErrorNo
from smelt.search.record import ErrorCode, Record
from smelt.search.runner import LocalRunner as EngineRunner
from smelt.search.runner import Runner

from .dag import State

if TYPE_CHECKING:
    from .policy import SearchPolicy
    from .task import SearchTask


_CODES = {
    MeasureErrorNo.COMPILE_DEVICE: ErrorCode.COMPILE,
    MeasureErrorNo.BUILD_TIMEOUT: ErrorCode.TIMEOUT,
    MeasureErrorNo.UNKNOWN_ERROR: ErrorCode.RUNTIME,
    **{n: c for c, n in CODES.items() if c is not ErrorCode.CRASH},
}


def error_number(code: ErrorCode) -> MeasureErrorNo:
    """The classic number of an error."""
    return CODES[code]


def error_code(number: int) -> ErrorCode:
    """The error of a classic number."""
    return _CODES[MeasureErrorNo(number)]


@dataclass(frozen=True)
class MeasureInput:
    """What is measured: a way to schedule a task."""

    task: SearchTask
    state: State


@dataclass(frozen=True)
class MeasureResult:
    """What was found.

    costs      seconds of single runs; empty where it failed
    error_no   a MeasureErrorNo; error_msg: its first lines
    all_cost   seconds of the runs together
    timestamp  seconds since 1970
    """

    costs: Sequence[float]
    error_no: int = 0
    error_msg: str = ""
    all_cost: float = 0.0
    timestamp: float = field(default_factory=time.time)

    @staticmethod
    def of(record: Record) -> MeasureResult:
        """What a record says."""
        costs = () if record.error else record.seconds
        return MeasureResult(costs, int(error_number(record.error)), record.message,
                             sum(costs), record.when)  # fmt: skip


class MeasureCallback:
    """Told of everything that was measured."""

    def callback(
        self, policy: SearchPolicy, inputs: Sequence[MeasureInput],
        results: Sequence[MeasureResult],
    ) -> None:  # fmt: skip
        """Take note of some measurements."""
        raise NotImplementedError(f"{type(self).__name__} has no method callback")


class PythonBasedMeasureCallback(MeasureCallback):
    """The base of callbacks of one's own: override `callback`."""


class ProgramBuilder:
    """What builds candidates."""

    def executor(self) -> LocalExecutor:
        """The engine's."""
        raise NotImplementedError


class LocalBuilder(ProgramBuilder):
    """Builds in worker processes on this machine."""

    def __init__(
        self, timeout: float = 15, n_parallel: int | None = None, build_func: str = "default"
    ) -> None:
        """n_parallel: workers; None: one a processor. timeout is accepted: no build takes long."""
        if build_func != "default":
            raise CompileError(f"LocalBuilder: build_func is {build_func!r}; legal: 'default'")
        self.timeout, self.n_parallel = _positive("LocalBuilder", "timeout", timeout), n_parallel

    def executor(self) -> LocalExecutor:
        """The engine's."""
        return LocalExecutor(self.n_parallel)


class ProgramRunner:
    """What runs candidates.

    timeout  seconds for one of them
    """

    timeout: float = 10.0

    def runner(self) -> Runner:
        """The engine's."""
        raise NotImplementedError


class LocalRunner(ProgramRunner):
    """Runs candidates on this machine, in a process of its own.

    Each is timed in turns with the default schedule until it is clear which is faster: number,
    repeat, min_repeat_ms, cooldown_interval and enable_cpu_cache_flush are accepted, and are the
    engine's to decide.
    """

    def __init__(
        self,
        timeout: float = 10,
        number: int = 3,
        repeat: int = 1,
        min_repeat_ms: float = 100,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        device: int = 0,
    ) -> None:
        """timeout: seconds for one candidate, loading it included."""
        self.timeout = _positive("LocalRunner", "timeout", timeout)
        _positive("LocalRunner", "number", number)
        _positive("LocalRunner", "repeat", repeat)
        if device != 0:
            raise CompileError(f"LocalRunner: device is {device}; legal: 0, this machine's CPU")

    def runner(self) -> Runner:
        """The engine's."""
        return EngineRunner(self.timeout)


class LocalRPCMeasureContext:
    """Keeps a runner apart from this process, as servers of the classic stack do: `.runner`.

    The arguments are those of LocalRunner, which always measures in a process of its own.
    """

    def __init__(
        self, priority: int = 1, n_parallel: int = 1, timeout: float = 10, *args: Any, **others: Any
    ) -> None:
        """priority and n_parallel are accepted: one candidate runs at a time."""
        self.runner = LocalRunner(timeout, *args, **others)


class RPCRunner(LocalRunner):
    """Runs candidates on machines that a tracker gives."""

    def __init__(
        self,
        key: str,
        host: str,
        port: int,
        priority: int = 1,
        n_parallel: int = 1,
        timeout: float = 10,
        number: int = 3,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        device: int = 0,
    ) -> None:
        """key, host, port  of the machines, and of the tracker

        n_parallel  how many of them measure at a time

        The others are those of LocalRunner.
        """
        super().__init__(timeout, number, repeat, 1, cooldown_interval, enable_cpu_cache_flush,
                         device)  # fmt: skip
        self.key, self.host, self.port, self.priority = key, host, port, priority
        self.cooldown, self.n_parallel = cooldown_interval, n_parallel

    def runner(self) -> Runner:
        """The engine's."""
        return rpc.RPCRunner(self.key, self.host, self.port, priority=self.priority,
                             timeout=self.timeout, cooldown=self.cooldown,
                             parallel=self.n_parallel)  # fmt: skip


class ProgramMeasurer:
    """A builder, a runner, and who is told."""

    def __init__(
        self,
        builder: ProgramBuilder,
        runner: ProgramRunner,
        callbacks: Sequence[MeasureCallback] = (),
        verbose: int = 0,
        max_continuous_error: int = -1,
    ) -> None:
        """max_continuous_error is accepted: a session always goes on to its end."""
        self.builder, self.runner = builder, runner
        self.callbacks, self.verbose = tuple(callbacks or ()), verbose


def _positive(who: str, name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise CompileError(f"{who}: {name} is {value!r}; legal: a number above 0")
    return value
