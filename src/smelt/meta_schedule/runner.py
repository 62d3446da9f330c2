"""Runners: what measures the libraries that builders made."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Never, Protocol

import numpy as np

from smelt.ir.errors import CompileError, SmeltError
from smelt.runtime import cpu
from smelt.runtime.module import load_module

from .arg_info import ArgInfo, TensorInfo
from .utils import chosen


@dataclass
class RunnerInput:
    """What is to be run: a library, on what kind of device, with what arguments."""

    artifact_path: str
    device_type: str
    args_info: Sequence[ArgInfo]


@dataclass
class RunnerResult:
    """Seconds of runs, or why there are none."""

    run_secs: Sequence[float] | None
    error_msg: str | None = None


class RunnerFuture:
    """A result that may not be there yet."""

    def __init__(
        self, f_done: Callable[[], bool] | None = None,
        f_result: Callable[[], RunnerResult] | None = None,
    ) -> None:  # fmt: skip
        """f_done: whether it is there; f_result: waits for it."""
        self._done, self._result = f_done, f_result

    def done(self) -> bool:
        """Whether it is there."""
        return True if self._done is None else self._done()

    def result(self) -> RunnerResult:
        """Wait for it."""
        if self._result is None:
            raise NotImplementedError(f"{type(self).__name__} has no method result")
        return self._result()


class PyRunnerFuture(RunnerFuture):
    """The base of futures of one's own: override `done` and `result`."""


class LocalRunnerFuture(RunnerFuture):
    """A result that is there."""

    def __init__(
        self, res: Sequence[float] | None = None, error_message: str | None = None
    ) -> None:
        """res: seconds of runs."""
        super().__init__(None, lambda: RunnerResult(res, error_message))


@dataclass
class EvaluatorConfig:
    """How often a program is run: `number` runs a sample, `repeat` samples, each at least so many
    milliseconds long."""

    number: int = 3
    repeat: int = 1
    min_repeat_ms: int = 100
    enable_cpu_cache_flush: bool = False


class Future(Protocol):
    """What runners give."""

    def result(self) -> RunnerResult:
        """Wait for it."""


class Runner:
    """Measures libraries."""

    def run(self, runner_inputs: Sequence[RunnerInput]) -> Sequence[Future]:
        """A future for each."""
        raise NotImplementedError(f"{type(self).__name__} has no method run")

    @staticmethod
    def create(kind: str = "local", *args: Any, **keywords: Any) -> Runner:
        """A runner by its kind: local, rpc."""
        kinds = {"local": LocalRunner, "rpc": RPCRunner}
        made: Runner = chosen("Runner.create", kinds, kind, *args, **keywords)
        return made


class PyRunner(Runner):
    """The base of runners of one's own: override `run`."""


def default_alloc_argument(
    device: Any, args_info: Sequence[ArgInfo], alloc_repeat: int = 1
) -> list[list[Any]]:
    """Arrays of random numbers for the arguments, so many times."""
    rng = np.random.default_rng(0)

    def one(a: ArgInfo) -> Any:
        if not isinstance(a, TensorInfo):
            raise CompileError(f"{a!r} is no TensorInfo: no array can be made for it")
        if a.dtype.startswith("float"):
            return rng.random(a.shape).astype(a.dtype)
        return np.zeros(a.shape, a.dtype)

    return [[one(a) for a in args_info] for _ in range(alloc_repeat)]


def default_run_evaluator(
    rt_mod: Any, device: Any, evaluator_config: EvaluatorConfig,
    repeated_args: Sequence[Sequence[Any]],
) -> list[float]:  # fmt: skip
    """Seconds of samples."""
    c = evaluator_config
    timed = rt_mod.time_evaluator(rt_mod.entry_name, device, number=c.number, repeat=c.repeat,
                                  min_repeat_ms=c.min_repeat_ms)  # fmt: skip
    return [float(s) for args in repeated_args for s in timed(*args).results]


def default_cleanup() -> None:
    """Nothing is left behind."""


class LocalRunner(Runner):
    """Runs on this machine.

    In a session without functions of one's own the engine measures, in a process of its own and in
    turns with the default schedule; evaluator_config is then the engine's to decide. `run` itself
    runs libraries in this process.
    """

    def __init__(
        self,
        timeout_sec: float = 30,
        evaluator_config: EvaluatorConfig | None = None,
        cooldown_sec: float = 0.0,
        alloc_repeat: int = 1,
        f_alloc_argument: Callable[..., Any] | None = None,
        f_run_evaluator: Callable[..., Any] | None = None,
        f_cleanup: Callable[[], None] | None = None,
        initializer: Callable[[], None] | None = None,
    ) -> None:
        """timeout_sec: of one candidate, in a session of the engine."""
        if not timeout_sec > 0:
            raise CompileError(f"LocalRunner: timeout_sec is {timeout_sec!r}; legal: more than 0")
        self.timeout_sec, self.cooldown_sec = timeout_sec, cooldown_sec
        self.evaluator_config = evaluator_config or EvaluatorConfig()
        self.alloc_repeat = alloc_repeat
        self.f_alloc_argument = f_alloc_argument or default_alloc_argument
        self.f_run_evaluator = f_run_evaluator or default_run_evaluator
        self.f_cleanup = f_cleanup or default_cleanup
        self.plain = f_alloc_argument is None and f_run_evaluator is None and f_cleanup is None
        if initializer is not None:
            initializer()

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[LocalRunnerFuture]:
        """Run one after the other, in this process."""
        return [self._one(i) for i in runner_inputs]

    def _one(self, given: RunnerInput) -> LocalRunnerFuture:
        try:
            args = self.f_alloc_argument(cpu(), given.args_info, self.alloc_repeat)
            made = load_module(given.artifact_path)
            seconds = self.f_run_evaluator(made, cpu(), self.evaluator_config, args)
            time.sleep(self.cooldown_sec)
            return LocalRunnerFuture([float(s) for s in seconds])
        except (SmeltError, OSError) as e:
            return LocalRunnerFuture(None, "\n".join(str(e).splitlines()[:4]))
        finally:
            self.f_cleanup()


@dataclass
class RPCConfig:
    """Where a tracker of other machines is."""

    tracker_host: str | None = None
    tracker_port: int | str | None = None
    tracker_key: str | None = None
    session_priority: int = 1
    session_timeout_sec: int = 10

    def connect_tracker(self) -> Never:
        """Refused."""
        raise _no_rpc("RPCConfig.connect_tracker")

    def connect_server(self) -> Never:
        """Refused."""
        raise _no_rpc("RPCConfig.connect_server")

    def count_num_servers(self, allow_missing: bool = True) -> Never:
        """Refused."""
        raise _no_rpc("RPCConfig.count_num_servers")


def _no_rpc(who: str) -> CompileError:
    return CompileError(f"{who}: programs cannot be run on other machines yet; legal: "
                        "LocalRunner(), or a PyRunner of your own that reaches them")  # fmt: skip


class RPCRunner(Runner):
    """A runner on other machines: it can be described, and refuses to run."""

    def __init__(
        self,
        rpc_config: RPCConfig | None = None,
        evaluator_config: EvaluatorConfig | None = None,
        cooldown_sec: float = 0.0,
        alloc_repeat: int = 1,
        f_create_session: Any = None,
        f_upload_module: Any = None,
        f_alloc_argument: Any = None,
        f_run_evaluator: Any = None,
        f_cleanup: Any = None,
        max_workers: int | None = None,
        initializer: Callable[[], None] | None = None,
    ) -> None:
        """rpc_config: where the machines are asked for; max_workers: how many at once."""
        self.rpc_config = rpc_config or RPCConfig()
        self.evaluator_config = evaluator_config or EvaluatorConfig()
        self.cooldown_sec, self.alloc_repeat = cooldown_sec, alloc_repeat
        self.max_workers = max_workers

    def run(self, runner_inputs: Sequence[RunnerInput]) -> Never:
        """Refused."""
        c = self.rpc_config
        raise _no_rpc(f"RPCRunner to {c.tracker_host}:{c.tracker_port}, {c.tracker_key}")
