"""Runners: what a candidate takes, or how its measurement ended."""

from __future__ import annotations

import pickle
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any

from smelt.codegen.frames import pack
from smelt.codegen.worker_process import WorkerDied, WorkerProcess
from smelt.ir.closing import Closing
from smelt.runtime.executable import Executable

from .build import BuildJob, BuiltCandidate, build_candidate
from .record import ErrorCode
from .space import Candidate
from .timing import MICROSECONDS, Protocol, Timed, allowed

_TIME = "smelt.search.timer:time_candidate"
_READY = "smelt.search.timer:ready"
_START = 120.0
"""Seconds in which a process has to start, on the busiest machine."""


@dataclass(frozen=True)
class Attempt:
    """A candidate, and what was built of it; None for runners that run nothing."""

    candidate: Candidate
    built: BuiltCandidate | None = None


@dataclass(frozen=True)
class Outcome:
    """How a measurement ended.

    timed  what was found; None where it failed
    """

    timed: Timed | None
    error: ErrorCode = ErrorCode.OK
    message: str = ""


class Runner(Closing):
    """Measures candidates."""

    needs_build = True
    """Whether it runs object code."""
    parallel = 1
    """How many candidates it may be asked for at a time, each by a thread."""
    build: Callable[[BuildJob], BuiltCandidate] = staticmethod(build_candidate)
    """What workers make of a candidate: a function of a module."""
    exact = False
    """Whether it counts, and compares all results: nothing is measured again to be sure."""
    whole = False
    """Whether whole models can be put where it measures, so that winners are looked at there."""
    unit = MICROSECONDS
    """What its times are told in."""

    @abstractmethod
    def run(self, reference: Attempt, attempt: Attempt, protocol: Protocol) -> Outcome:
        """Time a candidate in turns with a reference, the default schedule."""

    def models(self) -> AbstractContextManager[Callable[[Any], Executable]]:
        """What puts a model, an Artifact, where candidates run, if `whole`."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of what it holds; it can be used again."""


class LocalRunner(Runner):
    """Runs candidates on this machine, in a process of its own: what a candidate does there, crash,
    hang or write where it should not, costs that process."""

    def __init__(self, timeout: float = 10.0) -> None:
        """timeout: seconds for one candidate, loading it included. `threads`: of the process."""
        self.timeout = timeout
        self._process: WorkerProcess | None = None
        self.threads = self._number = 0

    def run(self, reference: Attempt, attempt: Attempt, protocol: Protocol) -> Outcome:
        """Time a candidate in turns with a reference."""
        assert reference.built is not None
        assert attempt.built is not None
        self._number += 1
        job = (_TIME, (reference.built, attempt.built, protocol), attempt.candidate.text)
        try:
            process = self._started(protocol.cores)
            process.send(self._number, pack(job))
            kind, value = pickle.loads(process.receive(self.timeout + protocol.seconds))
        except WorkerDied:
            return Outcome(None, ErrorCode.CRASH, self._buried())
        except TimeoutError as e:
            self._end()
            return Outcome(None, ErrorCode.TIMEOUT, f"the candidate was stopped: {e}")
        except OSError as e:
            self._end()
            return Outcome(None, ErrorCode.CRASH, f"the process that runs candidates: {e}")
        if kind != "ok":
            return Outcome(None, ErrorCode.RUNTIME, str(value).splitlines()[0])
        return judged(value, attempt.built)

    def _started(self, threads: int) -> WorkerProcess:
        """A process with so many threads, once it has imported what it needs: that is no
        candidate's time."""
        if threads != self.threads:
            self._end()
        if self._process is None:
            self._process, self.threads = WorkerProcess(threads), threads
            self._process.send(self._number, pack((_READY, (), "start")))
            self._process.receive(_START)
        return self._process

    def _buried(self) -> str:
        process, self._process = self._process, None
        if process is None:
            return "the process that runs candidates is gone"
        ending = process.bury(self._number)
        return f"the process that ran it {ending.how}{ending.last_words}"

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with suppress(OSError):
                process.bury()

    def close(self) -> None:
        """End the process."""
        self._end()


def judged(timed: Timed, built: BuiltCandidate) -> Outcome:
    """An outcome: candidates whose results are not those of the default are wrong."""
    limit = allowed(built.operands)
    if timed.difference is not None and timed.difference > limit:
        said = f"results are {timed.difference:.2e} apart from the default's; legal: {limit:g}"
        return Outcome(timed, ErrorCode.WRONG, said)
    return Outcome(timed)


class AnalyticRunner(Runner):
    """Runs nothing: a candidate takes what the closed form says. For tests, and for machines that
    are not here."""

    needs_build = False

    def run(self, reference: Attempt, attempt: Attempt, protocol: Protocol) -> Outcome:
        """What is predicted of both."""
        return Outcome(Timed((attempt.candidate.predicted,), (reference.candidate.predicted,)))
