"""Times of the kernels of a model, taken by the native probe while it runs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from smelt.runtime import abi
from smelt.runtime.bound import BoundCall
from smelt.runtime.errors import LoadError, RuntimeFailure, at_least
from smelt.runtime.expression import evaluate
from smelt.runtime.kernel_times import KernelTime, ProfiledRun
from smelt.runtime.native import Host, Profile, library, listening
from smelt.runtime.report import ProfileReport

Times = npt.NDArray[np.float64]


class Probe:
    """A host that notes when each kernel begins and ends."""

    def __init__(self, host: Host, count: int, first: int = 0) -> None:
        """host: whose threads are used; count: of the kernels; first: the number of the first."""
        every = first + count
        self._start, self._spent, self._calls = (np.zeros(max(1, every), np.int64) for _ in "abc")
        self.sink = Profile(
            every, self._start.ctypes.data, self._spent.ctypes.data, self._calls.ctypes.data
        )
        self._own = slice(first, every)
        self.host = self.watching(host)

    def watching(self, host: Host) -> Host:
        """A host like this one that tells this probe."""
        kept = self._start, self._spent, self._calls
        return listening(host, "smelt_profile_probe", self.sink, *kept)

    def clear(self) -> None:
        """Forget what was noted."""
        self._spent[:] = 0
        self._calls[:] = 0

    @property
    def milliseconds(self) -> Times:
        """The time of each kernel since `clear`, of all its calls."""
        return self._spent[self._own] / 1e6

    @property
    def noted(self) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """The same, and when the last call of each kernel began, in nanoseconds."""
        starts = self._start[self._own]
        return tuple(self.milliseconds.tolist()), tuple(starts.tolist())

    @property
    def calls(self) -> list[int]:
        """How often each kernel was called since `clear`."""
        return [int(n) for n in self._calls[self._own]]


class Copies:
    """Copies of what each kernel of a run gives, taken when it ends: its memory is used again.

    results  by kernel, of the last run
    host     for `bind`; tells the probe, too
    """

    def __init__(self, probe: Probe) -> None:
        """probe: what notes the times."""
        self.probe = probe
        self.results: dict[int, list[npt.NDArray[Any]]] = {}
        self._note = library().smelt_profile_probe
        self._call: BoundCall | None = None
        self._error: LoadError | None = None
        self.host = listening(probe.host, self._told, probe.sink)

    def _told(self, sink: int | None, kernel: int, is_end: int) -> int:
        """See smelt_host."""
        self._note(sink, kernel, is_end)
        if is_end and self._call is not None:
            try:
                self.results[kernel] = self._call.results_of(kernel)
            except LoadError as e:
                self._error = e
                return int(abi.Status.FAILED)
        return 0

    def run(self, call: BoundCall) -> None:
        """Run a call that is bound to this host. Kernels take longer than they do without copies
        between them: threads have gone to sleep.

        Raises what a run does, and LoadError where results lie outside of the memory.
        """
        self.results, self._error = {}, None
        self.probe.clear()
        self._call = call
        try:
            call()
        except RuntimeFailure as e:
            raise self._error or e from None
        finally:
            self._call = None


class Trace:
    """A host that notes what begins and ends in a run, and when."""

    def __init__(self, host: Host) -> None:
        """host: whose threads are used."""
        self._what, self._time = (np.zeros(_MOST_EVENTS, np.int64) for _ in "ab")
        self._sink = _Sink(_MOST_EVENTS, 0, self._what.ctypes.data, self._time.ctypes.data)
        self.host = listening(host, "smelt_trace_probe", self._sink, self._what, self._time)

    def events(self) -> list[tuple[int, int, int]]:
        """What ended: its number, and when it began and ended, in nanoseconds."""
        begun: dict[int, list[int]] = {}
        found = []
        count = min(self._sink.count, _MOST_EVENTS)
        for what, at in zip(self._what[:count].tolist(), self._time[:count].tolist(), strict=True):
            stack = begun.setdefault(what // 2, [])
            if what % 2 == 0:
                stack.append(at)
            elif stack:
                found.append((what // 2, stack.pop(), at))
        return found

    @property
    def lost(self) -> int:
        """For how many there was no room."""
        return max(0, int(self._sink.count) - _MOST_EVENTS)


_MOST_EVENTS = 1 << 17


class _Sink(ctypes.Structure):
    """smelt_trace of smelt.h."""

    _fields_ = abi.TRACE.ctypes()


def measured(probe: Probe, timed: Callable[[int], float], repeat: int) -> list[ProfiledRun]:
    """Single runs, each with the times of its kernels.

    timed  gives the milliseconds of a number of runs on the probe's host
    """
    at_least(1, "profile", repeat=repeat)
    runs = []
    for _ in range(repeat):
        probe.clear()
        milliseconds = timed(1)
        runs.append(ProfiledRun(milliseconds, *probe.noted))
    return runs


def profiled(
    model: str, described: Sequence[Mapping[str, Any]], probe: Probe, call: BoundCall, repeat: int
) -> ProfileReport:
    """Medians over some runs, after one that is not timed; call: bound to the probe's host."""
    call()
    runs = measured(probe, call.time, repeat)
    return report(model, described, call.symbols, probe.calls, runs)


def report(
    model: str,
    described: Sequence[Mapping[str, Any]],
    symbols: Mapping[str, int],
    calls: Sequence[int],
    runs: Sequence[ProfiledRun],
    chosen: bool = False,
) -> ProfileReport:
    """Medians over several runs.

    described  the kernels as the metadata list them
    symbols    the sizes of the call
    chosen     only those kernels count that ran
    """
    several = chosen or any("variant" in entry for entry in described)  # of which one ran
    kept = [i for i, n in enumerate(calls) if n or not several]
    kernels = [_kernel(described[i], symbols, calls[i]) for i in kept]
    own = [
        ProfiledRun(
            r.milliseconds, tuple([r.spent[i] for i in kept]), tuple([r.starts[i] for i in kept])
        )
        for r in runs
    ]
    return ProfileReport.of(model, kernels, own)


def _kernel(entry: Mapping[str, Any], symbols: Mapping[str, int], calls: int) -> KernelTime:
    said = [entry.get(name) for name in ("flops", "bytes")]
    flops, size = [None if cost is None else evaluate(cost, symbols) for cost in said]
    ops, nodes = tuple(entry.get("ops", ())), tuple(entry.get("nodes", ()))
    seconds = entry.get("seconds")
    predicted = None if seconds is None else seconds * 1e3
    return KernelTime(entry["name"], ops, calls, 0.0, flops, size, nodes, predicted)
