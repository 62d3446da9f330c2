"""Times of the kernels of a model, taken by the native probe while it runs."""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from smelt.runtime.expression import evaluate
from smelt.runtime.native import Host, Profile, library
from smelt.runtime.report import KernelTime, ProfileReport

__all__ = ["Probe", "report"]

Times = npt.NDArray[np.float64]


class Probe:
    """A host that notes when each kernel begins and ends."""

    def __init__(self, host: Host, count: int) -> None:
        """host: whose threads are used; count: of the kernels."""
        self._start, self._spent, self._calls = (np.zeros(max(1, count), np.int64) for _ in "abc")
        self._sink = Profile(
            count, self._start.ctypes.data, self._spent.ctypes.data, self._calls.ctypes.data
        )
        probe = ctypes.cast(library().smelt_profile_probe, ctypes.c_void_p)
        sink = ctypes.addressof(self._sink)
        self.host = Host(host.pool, host.parallel_for, sink, probe, host.externals)
        self.host.keep = self._sink, self._start, self._spent, self._calls
        self._count = count

    def clear(self) -> None:
        """Forget what was noted."""
        self._spent[:] = 0
        self._calls[:] = 0

    @property
    def milliseconds(self) -> Times:
        """The time of each kernel since `clear`, of all its calls."""
        return self._spent[: self._count] / 1e6

    @property
    def calls(self) -> list[int]:
        """How often each kernel was called since `clear`."""
        return [int(n) for n in self._calls[: self._count]]


def report(
    model: str,
    described: Sequence[Mapping[str, Any]],
    symbols: Mapping[str, int],
    calls: Sequence[int],
    runs: Sequence[Times],
    totals: Sequence[float],
) -> ProfileReport:
    """Medians over several runs.

    described  the kernels as the metadata list them
    symbols    the sizes of the call
    """
    times = np.median(np.asarray(runs), axis=0)
    several = any("variant" in entry for entry in described)  # of which one ran
    kernels = [
        _kernel_time(entry, symbols, n, float(t))
        for entry, n, t in zip(described, calls, times, strict=True)
        if n or not several
    ]
    return ProfileReport(model, tuple(kernels), statistics.median(totals))


def _kernel_time(
    entry: Mapping[str, Any], symbols: Mapping[str, int], calls: int, milliseconds: float
) -> KernelTime:
    flops, size = entry.get("flops"), entry.get("bytes")
    return KernelTime(
        entry["name"],
        tuple(entry.get("ops", ())),
        calls,
        milliseconds,
        None if flops is None else evaluate(flops, symbols),
        None if size is None else evaluate(size, symbols),
    )
