"""What a machine can do at most, as it was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from smelt.runtime.kernel_times import KernelTime

ARITHMETIC = "arithmetic"
STEADY = 0.1
"""What repeated measurements may differ by before the machine counts as busy."""
BUSY = "the machine was busy"
"""How a note begins that says so."""


@dataclass(frozen=True)
class Bandwidth:
    """Billions of bytes a second, reading so many bytes again and again, which stay in `level`."""

    level: str
    bytes: int
    gbytes: float


@dataclass(frozen=True)
class MachineLimits:
    """What the machine can do at most, measured: billions of operations and bytes a second.

    gbytes    from memory
    levels    reading, from the nearest cache to memory; none: only memory is known
    measured  gflops and gbytes of each single measurement; the limits are their medians
    threads   how many were at work; 0: not known
    """

    gflops: float
    gbytes: float
    levels: tuple[Bandwidth, ...] = ()
    measured: tuple[tuple[float, float], ...] = ()
    threads: int = 0

    def bandwidth(self, size: int | None) -> float:
        """The limit of touching so many bytes; between two measured sizes, something between."""
        points = [(math.log(p.bytes), math.log(p.gbytes)) for p in self.levels]
        if not points or not size or size >= self.levels[-1].bytes:
            return self.gbytes
        at = max(math.log(size), points[0][0])
        for (x, y), (right, other) in pairwise(points):
            if at <= right:
                return math.exp(y + (other - y) * (at - x) / (right - x))
        return self.levels[0].gbytes

    def level(self, size: int | None) -> str:
        """Where so many bytes stay: the level whose measured size is nearest."""
        if not self.levels or not size:
            return "memory"
        return min(self.levels, key=lambda p: abs(math.log(p.bytes / size))).level

    def _shares(self, kernel: KernelTime) -> tuple[float, float]:
        arithmetic = 100 * (kernel.gflops or 0.0) / self.gflops
        return arithmetic, 100 * (kernel.gbytes or 0.0) / self.bandwidth(kernel.bytes)

    def share(self, kernel: KernelTime) -> float:
        """Percent of the nearer limit that a kernel reaches."""
        return max(self._shares(kernel))

    def bound(self, kernel: KernelTime) -> str:
        """Which limit is the nearer one: arithmetic, or reading from a cache or from memory."""
        arithmetic, reading = self._shares(kernel)
        return ARITHMETIC if arithmetic >= reading else self.level(kernel.bytes)

    def moved(self) -> list[str]:
        """That the measurements disagree, where they do."""
        found = []
        for n, unit in enumerate(("GFLOP/s", "GB/s from memory")):
            values = [m[n] for m in self.measured]
            if values and max(values) > (1 + STEADY) * min(values):
                found.append(
                    f"{BUSY}: the limit moved between {min(values):.4g} and {max(values):.4g} "
                    f"{unit} during the measurement"
                )
        return found

    def text(self) -> str:
        """The limits in a line."""
        reading = [f"{p.gbytes:.0f} GB/s from {p.level}" for p in self.levels]
        reading = reading or [f"{self.gbytes:.0f} GB/s from memory"]
        threads = {0: "", 1: " on 1 thread"}.get(self.threads, f" on {self.threads} threads")
        return f"limits, measured{threads}: {self.gflops:.0f} GFLOP/s, {', '.join(reading)}"
