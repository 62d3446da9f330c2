"""What a measured run says of each kernel, and runs as trace events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_NAME, _NODES = 28, 44  # characters of one name, and of all names of a kernel, in a table


@dataclass(frozen=True)
class KernelTime:
    """One kernel's share of a run. Costs are None where the model does not state them.

    nodes      the names of the model's nodes that it computes
    predicted  milliseconds of one call, as its schedule was chosen for; None if not known
    """

    name: str
    ops: tuple[str, ...]
    calls: int
    milliseconds: float
    flops: int | None
    bytes: int | None
    nodes: tuple[str, ...] = ()
    predicted: float | None = None

    @property
    def gflops(self) -> float | None:
        """Floating-point operations per nanosecond of this kernel's time."""
        return self._rate(self.flops)

    @property
    def gbytes(self) -> float | None:
        """Bytes moved per nanosecond, as the model states them."""
        return self._rate(self.bytes)

    def _rate(self, count: int | None) -> float | None:
        if count is None or self.milliseconds == 0:
            return None
        return count * self.calls / self.milliseconds / 1e6


@dataclass(frozen=True)
class ControlTimes:
    """What a program decided in a run.

    sites        turns of loops, and sides of branches: name, how often, milliseconds (medians)
    allocations  how many blocks of memory it took; most_bytes: how much it held at a time
    events       what began and ended, of one run: name, kind, begin and end in nanoseconds
    lost         how many events there was no room for
    """

    sites: tuple[tuple[str, int, float], ...]
    allocations: int
    most_bytes: int
    events: tuple[tuple[str, str, int, int], ...] = ()
    lost: int = 0

    def lines(self) -> list[str]:
        """It as a table."""
        rows = [(printable(name), calls, ms) for name, calls, ms in self.sites if calls]
        width = max([len(name) for name, _, _ in rows], default=7)
        head = [f"{'control':<{width}} {'ms':>10} {'times':>8}"] if rows else []
        listed = [f"{name:<{width}} {ms:>10.4f} {calls:>8}" for name, calls, ms in rows]
        memory = f"memory: taken {self.allocations} times, {self.most_bytes} bytes at most"
        return [*head, *listed, memory]


@dataclass(frozen=True)
class ProfiledRun:
    """One measured run.

    milliseconds  of the whole run
    spent         milliseconds of each kernel, of all its calls
    starts        when the last call of each kernel began: nanoseconds of a clock that only grows
    """

    milliseconds: float
    spent: tuple[float, ...]
    starts: tuple[int, ...]


def printable(name: str) -> str:
    """A name out of a model for a terminal: what would control it is replaced."""
    return "".join([c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name])


def short_nodes(nodes: Sequence[str]) -> str:
    """Names of nodes for a cell of a table: all, or the first, the last and how many between."""
    text = ", ".join(map(printable, nodes))
    if len(text) <= _NODES and all(len(n) <= _NAME for n in nodes):
        return text
    first, last = _shortened(printable(nodes[0])), _shortened(printable(nodes[-1]))
    match len(nodes):
        case 1:
            return first
        case 2:
            return f"{first}, {last}"
        case n:
            return f"{first} … {last} (+{n - 2})"


def _shortened(name: str) -> str:
    half = (_NAME - 1) // 2
    return name if len(name) <= _NAME else f"{name[:half]}…{name[-half:]}"


def trace_events(
    model: str,
    kernels: Sequence[KernelTime],
    runs: Sequence[ProfiledRun],
    control: ControlTimes | None = None,
) -> list[dict[str, Any]]:
    """Complete events of runs and, inside them, kernels; microseconds since the first began.

    control  of a program that decides while it runs: its events are taken instead
    """
    thread = {"pid": 1, "tid": 1}
    events: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", **thread, "args": {"name": model}},
        {"name": "thread_name", "ph": "M", **thread, "args": {"name": "calling thread"}},
    ]
    if control is not None:
        origin = min([at for _, _, at, _ in control.events], default=0)
        return events + [
            _slice(kind, name, (at - origin) / 1e3, (end - at) / 1e3, {}) | thread
            for name, kind, at, end in control.events
        ]
    ran = [i for i, k in enumerate(kernels) if k.calls]
    first = min([run.starts[i] for run in runs for i in ran], default=0)
    for n, run in enumerate(runs):
        slices = [
            (kernels[i], (run.starts[i] - first) / 1e3, 1e3 * run.spent[i] / kernels[i].calls)
            for i in ran
        ]
        begin = min([at for _, at, _ in slices], default=0.0)
        end = max([at + duration for _, at, duration in slices], default=0.0)
        about = {"milliseconds": run.milliseconds}
        events.append(_slice("run", f"run {n}", begin, end - begin, about) | thread)
        for k, at, duration in slices:
            about = {n: getattr(k, n) for n in ("nodes", "ops", "flops", "bytes", "calls")}
            events.append(_slice("kernel", k.name, at, duration, about) | thread)
    return events


def _slice(
    kind: str, name: str, at: float, duration: float, about: dict[str, Any]
) -> dict[str, Any]:
    return {"name": name, "cat": kind, "ph": "X", "ts": at, "dur": duration, "args": about}
