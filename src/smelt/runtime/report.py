"""What measuring a model gives: times of whole runs, and of its kernels."""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from smelt.runtime.errors import InputError
from smelt.runtime.kernel_times import (
    ControlTimes,
    KernelTime,
    ProfiledRun,
    printable,
    short_nodes,
    trace_events,
)
from smelt.runtime.limits import ARITHMETIC, BUSY, STEADY, MachineLimits


def node_names(names: Sequence[str]) -> list[str]:
    """A name of its own for each kernel of a model: what runs again gets a number, relu_1."""
    taken, found = set(names), []
    used: set[str] = set()
    for name in names:
        shown, n = name, 0
        while shown in used or (n and shown in taken):
            n += 1
            shown = f"{name}_{n}"
        used.add(shown)
        found.append(shown)
    return found


@dataclass(frozen=True)
class CallMemory:
    """Bytes that a call needs, known before it runs.

    outputs    those that get memory of their own: no input that the call updates
    workspace  its scratch memory; state: what the executable keeps from call to call
    """

    inputs: int
    outputs: int
    workspace: int
    weights: int
    state: int = 0

    @property
    def total(self) -> int:
        """All together."""
        return self.inputs + self.outputs + self.workspace + self.weights + self.state


@dataclass(frozen=True)
class MemoryInfo:
    """Bytes a model needs besides its inputs and outputs; None where that depends on sizes.

    `exe.memory(x)` says what the call exe(x) needs. It raises InputError where the inputs do not
    fit, or where the model decides while it runs.

    weights    its constants
    workspace  scratch memory of one call
    live       the most that is alive in it at once: no plan can need less
    of_call    what tells it of a call
    """

    weights: int
    workspace: int | None
    live: int | None
    of_call: Callable[..., CallMemory] | None = field(default=None, repr=False, compare=False)

    def __call__(self, *args: Any, **named: Any) -> CallMemory:
        """The bytes that a call with these inputs needs."""
        if self.of_call is None:
            raise InputError("memory: these numbers are of no executable")
        return self.of_call(*args, **named)


@dataclass(frozen=True)
class _Times:
    """Times of one run: one entry per repetition."""

    results: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median."""
        return statistics.median(self.results)

    @property
    def mean(self) -> float:
        """The mean."""
        return statistics.fmean(self.results)

    @property
    def std(self) -> float:
        """The standard deviation."""
        return statistics.pstdev(self.results)

    @property
    def min(self) -> float:
        """The fastest repetition."""
        return min(self.results)

    @property
    def max(self) -> float:
        """The slowest repetition."""
        return max(self.results)


@dataclass(frozen=True)
class BenchmarkResult(_Times):
    """Times of one run in milliseconds: one entry per repetition, each a mean over `number`."""

    number: int

    def __str__(self) -> str:
        """A table of one row."""
        names = ("median", "mean", "std", "min", "max")
        head = "".join(f"{name + ' (ms)':>14}" for name in names)
        digits = 4 if self.median >= 0.1 else 6
        row = "".join(f"{getattr(self, name):14.{digits}f}" for name in names)
        return f"{head}\n{row}"


@dataclass(frozen=True)
class TimeEvaluation(_Times):
    """Times of one run in seconds, as classic programs expect; `str` is a table in ms."""

    def __str__(self) -> str:
        return str(BenchmarkResult(tuple([1e3 * r for r in self.results]), 1))


_OVER_ARITHMETIC = (
    "* above the limit, which is that of float32 multiply-adds: a kernel exceeds it where it does "
    "less than is counted (fast convolution, zeros left out), computes with narrower numbers, or "
    "ran while the machine was faster than at the measurements of the limit"
)
_OVER_MEMORY = (
    "* above the limit of reading: data stood in a nearer cache than its size says, not all of it "
    "was touched, or the machine was faster than at the measurements of the limit"
)
_CONTROL_TRACE = (
    "Slices are calls of kernels, turns of loops and sides of branches of one run, each with its "
    "own times, all on the thread that called the model."
)
_TRACE = (
    "Slices are kernels, with the times at which they really began. All are on the thread that "
    "called the model: which others helped is not recorded. A kernel called several times in a run "
    "is one slice, at its last call, of the mean duration."
)


@dataclass(frozen=True)
class ProfileReport:
    """Times in ms of the kernels of one run (medians over several), in the order of the model.

    The sum of two reports of one model is the report of the runs of both.

    control  of a program that decides while it runs in native code: what it decided
    """

    model: str
    kernels: tuple[KernelTime, ...]
    total: float
    runs: tuple[ProfiledRun, ...] = ()
    control: ControlTimes | None = None

    def __add__(self, other: ProfileReport) -> ProfileReport:
        if [k.name for k in self.kernels] != [k.name for k in other.kernels]:
            raise InputError(f"{self.model}: profiles of different kernels cannot be added")
        made = ProfileReport.of(self.model, self.kernels, self.runs + other.runs)
        return replace(made, control=other.control)

    @classmethod
    def of(
        cls, model: str, kernels: Sequence[KernelTime], runs: Sequence[ProfiledRun]
    ) -> ProfileReport:
        """The medians of some runs; the kernels' own times do not matter."""
        times = [statistics.median(column) for column in zip(*[r.spent for r in runs], strict=True)]
        timed = [replace(k, milliseconds=t) for k, t in zip(kernels, times, strict=True)]
        total = statistics.median([r.milliseconds for r in runs])
        return cls(model, tuple(timed), total, tuple(runs))

    @property
    def between(self) -> float:
        """Milliseconds of a run outside of its kernels."""
        rest = [r.milliseconds - sum(r.spent) for r in self.runs]
        found = statistics.median(rest) if rest else self.total - self._spent
        return min(max(0.0, found), max(0.0, self.total - self._spent))

    @property
    def _spent(self) -> float:
        return sum(k.milliseconds for k in self.kernels)

    def notes(self, limits: MachineLimits | None = None) -> list[str]:
        """What makes these times, or their shares of the limits, less certain than they look."""
        found = [] if limits is None else limits.moved()
        totals = [r.milliseconds for r in self.runs]
        if len(totals) >= 4:
            low, _, high = statistics.quantiles(totals, n=4)
            if high > (1 + STEADY) * low:
                found.append(
                    f"{BUSY}: half of the {len(totals)} runs took less than {low:.4g} ms or more "
                    f"than {high:.4g} ms"
                )
        if limits is None:
            return found
        over = {limits.bound(k) for k in self.kernels if limits.share(k) > 100}
        if ARITHMETIC in over:
            found.append(_OVER_ARITHMETIC)
        if over - {ARITHMETIC}:
            found.append(_OVER_MEMORY)
        return found

    def table(self, top: int | None = None, limits: MachineLimits | None = None) -> str:
        """The kernels that take longest first; `top` limits how many.

        limits  adds two columns: percent of the machine's limit that is nearer, and which that is:
                arithmetic, or reading from a cache or from memory, by the bytes that are touched

        Predicted are the milliseconds that a kernel's schedule was chosen for.
        """
        rows = sorted(self.kernels, key=lambda k: -k.milliseconds)[:top]
        names = {id(k): printable(k.name) for k in rows}
        width = max(map(len, [*names.values(), "(varying from run to run)"]))
        lines = [f"{'kernel':<{width}} {'ms':>10} {'%':>6} {'calls':>6} {'GFLOP/s':>9} {'GB/s':>8}"]
        lines += [self._row(names[id(k)], k, width) for k in rows]
        if limits is not None:
            lines[0] += f" {'limit %':>8}  {'of':<10}"
            for n, k in enumerate(rows, 1):
                share = limits.share(k)
                mark = "*" if share > 100 else " "
                lines[n] += f" {share:>8.1f}{mark} {limits.bound(k):<10}"
        if any(k.predicted is not None for k in rows):
            lines[0] += f" {'predicted':>10}"
            for n, k in enumerate(rows, 1):
                told = "" if k.predicted is None else f"{k.predicted * k.calls:.4f}"
                lines[n] += f" {told:>10}"
        if any(k.nodes for k in rows):
            lines[0] += "  nodes"
            for n, k in enumerate(rows, 1):
                lines[n] += f"  {short_nodes(k.nodes)}"
        if len(rows) < len(self.kernels):
            rest = self._spent - sum(k.milliseconds for k in rows)
            lines.append(self._short(f"({len(self.kernels) - len(rows)} more)", rest, width))
        varying = max(0.0, self.total - self._spent - self.between)
        lines.append(self._short("(between kernels)", self.between, width))
        if varying > 0.01 * self.total:
            lines.append(self._short("(varying from run to run)", varying, width))
        lines.append(self._short("run", self.total, width))
        lines += [] if self.control is None else self.control.lines()
        lines += [] if limits is None else [limits.text()]
        lines += self.notes(limits)
        return "\n".join([line.rstrip() for line in lines])

    def _share(self, milliseconds: float) -> float:
        return 100 * milliseconds / self.total if self.total else 0.0

    def _row(self, name: str, kernel: KernelTime, width: int) -> str:
        gflops = "" if kernel.gflops is None else f"{kernel.gflops:.1f}"
        gbytes = "" if kernel.gbytes is None else f"{kernel.gbytes:.1f}"
        start = self._short(name, kernel.milliseconds, width)
        return f"{start} {kernel.calls:>6} {gflops:>9} {gbytes:>8}"

    def _short(self, name: str, milliseconds: float, width: int) -> str:
        return f"{name:<{width}} {milliseconds:>10.4f} {self._share(milliseconds):>6.1f}"

    def json(self, limits: MachineLimits | None = None) -> str:
        """The same for programs."""
        kernels: Sequence[dict[str, object]] = [
            {
                **asdict(k),
                "gflops": k.gflops,
                "gbytes": k.gbytes,
                "limit_percent": None if limits is None else limits.share(k),
                "limit": None if limits is None else limits.bound(k),
            }
            for k in self.kernels
        ]
        notes = self.notes(limits)
        return json.dumps(
            {
                "model": self.model,
                "total_ms": self.total,
                "between_ms": self.between,
                "kernels": kernels,
                "runs_ms": [r.milliseconds for r in self.runs],
                "control": self._control(),
                "limits": None if limits is None else asdict(limits),
                "busy": any(n.startswith(BUSY) for n in notes),
                "notes": notes,
            }
        )

    def _control(self) -> dict[str, object] | None:
        """What a program decided, for programs."""
        c = self.control
        if c is None:
            return None
        sites = [{"name": n, "times": calls, "milliseconds": ms} for n, calls, ms in c.sites]
        return {"sites": sites, "allocations": c.allocations, "most_bytes": c.most_bytes}

    def trace(self) -> str:
        """The measured runs as trace events (JSON), for ui.perfetto.dev and chrome://tracing."""
        about = _TRACE if self.control is None else _CONTROL_TRACE
        if self.control is not None and self.control.lost:
            about += f" {self.control.lost} events at its end are left out."
        return json.dumps(
            {
                "traceEvents": trace_events(self.model, self.kernels, self.runs, self.control),
                "displayTimeUnit": "ns",
                "otherData": {"model": self.model, "about": about},
            }
        )

    def csv(self) -> str:
        """The same as comma-separated values with a head, in the order of the model."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(["kernel", "ops", "calls", "ms", "percent", "gflops", "gbytes"])
        for k in self.kernels:
            share = self._share(k.milliseconds)
            shown = ["" if x is None else f"{x:.3f}" for x in (k.gflops, k.gbytes)]
            cells = [k.name, " ".join(k.ops), k.calls, f"{k.milliseconds:.6f}", f"{share:.2f}"]
            rows.writerow([*cells, *shown])
        return text.getvalue()

    def __str__(self) -> str:
        """The table."""
        return self.table()
