"""Runners: what measures the libraries that builders made."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from smelt import rpc
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
        return chosen("Runner.create", kinds, kind, *args, **keywords)


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
    """Where a tracker of other machines is.

    tracker_host, tracker_port, tracker_key  None: what TVM_TRACKER_HOST and its like say
    """

    tracker_host: str | None = None
    tracker_port: int | str | None = None
    tracker_key: str | None = None
    session_priority: int = 1
    session_timeout_sec: int = 10

    def _known(self, name: str, given: object, usual: str | None) -> str:
        found = given if given is not None else usual
        if found is None:
            raise CompileError(f"RPCConfig: tracker_{name} is not given, and the environment "
                               f"variable TVM_TRACKER_{name.upper()} is not set")  # fmt: skip
        return str(found)

    @property
    def address(self) -> tuple[str, int]:
        """The tracker's host and port. Raises CompileError where they are not known."""
        port = self._known("port", self.tracker_port, os.environ.get("TVM_TRACKER_PORT"))
        if not port.isdigit():
            raise CompileError(f"RPCConfig: tracker_port is {port!r}; legal: a number")
        host = self._known("host", self.tracker_host, os.environ.get("TVM_TRACKER_HOST"))
        return host, int(port)

    @property
    def key(self) -> str:
        """The machines' key. Raises CompileError where it is not known."""
        return self._known("key", self.tracker_key, os.environ.get("TVM_TRACKER_KEY"))

    def connect_tracker(self) -> rpc.TrackerSession:
        """A connection with the tracker. Raises RPCError."""
        return rpc.connect_tracker(*self.address)

    def connect_server(self) -> rpc.RPCSession:
        """A session of a machine. Raises RPCError."""
        return self.connect_tracker().request(
            self.key, self.session_priority, self.session_timeout_sec
        )

    def count_num_servers(self, allow_missing: bool = True) -> int:
        """How many machines of the key the tracker knows. Raises RPCError."""
        found = self.connect_tracker().summary()["queue_info"].get(self.key, {"total": 0})
        if not found["total"] and not allow_missing:
            raise rpc.RPCError(f"the tracker knows no machine {self.key!r}")
        return int(found["total"])


class RPCRunner(Runner):
    """Runs on machines that a tracker gives.

    In a session without functions of one's own the engine measures, in turns with the default
    schedule; evaluator_config is then the engine's to decide. `run` itself runs libraries.
    """

    def __init__(
        self,
        rpc_config: RPCConfig | None = None,
        evaluator_config: EvaluatorConfig | None = None,
        cooldown_sec: float = 0.0,
        alloc_repeat: int = 1,
        f_create_session: Callable[[RPCConfig], rpc.RPCSession] | None = None,
        f_upload_module: Any = None,
        f_alloc_argument: Callable[..., Any] | None = None,
        f_run_evaluator: Callable[..., Any] | None = None,
        f_cleanup: Any = None,
        max_workers: int | None = None,
        initializer: Callable[[], None] | None = None,
    ) -> None:
        """rpc_config: where the machines are asked for; max_workers: how many of them measure at a
        time; None: one.

        Raises CompileError for f_upload_module and f_cleanup, which sessions need not.
        """
        for name, given in (("f_upload_module", f_upload_module), ("f_cleanup", f_cleanup)):
            if given is not None:
                raise CompileError(f"RPCRunner: {name}; legal: None, a session has a folder that "
                                   "ends with it")  # fmt: skip
        self.rpc_config = rpc_config or RPCConfig()
        self.evaluator_config = evaluator_config or EvaluatorConfig()
        self.cooldown_sec, self.alloc_repeat = cooldown_sec, alloc_repeat
        self.max_workers = max_workers
        self.f_create_session = f_create_session or RPCConfig.connect_server
        self.f_alloc_argument = f_alloc_argument or default_alloc_argument
        self.f_run_evaluator = f_run_evaluator or default_run_evaluator
        self.plain = f_alloc_argument is None and f_run_evaluator is None
        if initializer is not None:
            initializer()

    def engine(self) -> rpc.RPCRunner:
        """The engine's runner. Raises CompileError where the tracker is not known."""
        c = self.rpc_config
        return rpc.RPCRunner(
            c.key, *c.address, priority=c.session_priority, timeout=c.session_timeout_sec,
            cooldown=self.cooldown_sec, parallel=self.max_workers or 1,
        )  # fmt: skip

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[LocalRunnerFuture]:
        """Run libraries one after the other, each in a session of its own."""
        return [self._one(i) for i in runner_inputs]

    def _one(self, given: RunnerInput) -> LocalRunnerFuture:
        try:
            with self.f_create_session(self.rpc_config) as session:
                args = self.f_alloc_argument(session.cpu(0), given.args_info, self.alloc_repeat)
                made = session.load_module(session.upload(given.artifact_path))
                seconds = self.f_run_evaluator(made, session.cpu(0), self.evaluator_config, args)
            time.sleep(self.cooldown_sec)
            return LocalRunnerFuture([float(s) for s in seconds])
        except (SmeltError, OSError) as e:
            return LocalRunnerFuture(None, "\n".join(str(e).splitlines()[:4]))
