"""What measuring a model gives: times of whole runs, and of its kernels."""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

__all__ = [
    "BenchmarkResult",
    "KernelTime",
    "MachineLimits",
    "MemoryInfo",
    "ProfileReport",
    "TimeEvaluation",
    "node_names",
]


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
class MemoryInfo:
    """Bytes a model needs besides its inputs and outputs; None where that depends on sizes."""

    weights: int
    workspace: int | None
    live: int | None


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


@dataclass(frozen=True)
class KernelTime:
    """One kernel's share of a run. Costs are None where the model does not state them."""

    name: str
    ops: tuple[str, ...]
    calls: int
    milliseconds: float
    flops: int | None
    bytes: int | None

    @property
    def gflops(self) -> float | None:
        """Floating-point operations per nanosecond of this kernel's time."""
        if self.flops is None or self.milliseconds == 0:
            return None
        return self.flops * self.calls / self.milliseconds / 1e6

    @property
    def gbytes(self) -> float | None:
        """Bytes moved per nanosecond, as the model states them."""
        if self.bytes is None or self.milliseconds == 0:
            return None
        return self.bytes * self.calls / self.milliseconds / 1e6


@dataclass(frozen=True)
class MachineLimits:
    """What the machine can do at most, measured: billions of operations and bytes a second."""

    gflops: float
    gbytes: float

    def share(self, kernel: KernelTime) -> float:
        """Percent of the nearer limit that a kernel reaches."""
        arithmetic = 100 * (kernel.gflops or 0.0) / self.gflops
        memory = 100 * (kernel.gbytes or 0.0) / self.gbytes
        return max(arithmetic, memory)


@dataclass(frozen=True)
class ProfileReport:
    """Times of the kernels of one run (medians over several), in the order of the model."""

    model: str
    kernels: tuple[KernelTime, ...]
    total: float

    def table(self, top: int | None = None, limits: MachineLimits | None = None) -> str:
        """The kernels that take longest first; `top` limits how many.

        limits  adds a column: percent of the machine's arithmetic or memory limit, the nearer one
                (over 100 for what stays in the caches)
        """
        rows = sorted(self.kernels, key=lambda k: -k.milliseconds)[:top]
        spent = sum(k.milliseconds for k in self.kernels)
        width = max([len(k.name) for k in rows] + [len("(between kernels)")])
        lines = [f"{'kernel':<{width}} {'ms':>10} {'%':>6} {'calls':>6} {'GFLOP/s':>9} {'GB/s':>8}"]
        lines += [self._row(k.name, k, width) for k in rows]
        if limits is not None:
            lines[0] += f" {'limit %':>8}"
            lines[1:] = [
                f"{line} {limits.share(k):>8.1f}" for line, k in zip(lines[1:], rows, strict=True)
            ]
        if len(rows) < len(self.kernels):
            rest = spent - sum(k.milliseconds for k in rows)
            lines.append(self._short(f"({len(self.kernels) - len(rows)} more)", rest, width))
        lines.append(self._short("(between kernels)", max(0.0, self.total - spent), width))
        lines.append(self._short("run", self.total, width))
        return "\n".join(lines)

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
            }
            for k in self.kernels
        ]
        return json.dumps({"model": self.model, "total_ms": self.total, "kernels": kernels})

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
