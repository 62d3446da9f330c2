"""Callbacks of tuners: logs, databases, what is shown meanwhile."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from smelt.ir.errors import CompileError
from smelt.search.stores import open_database

from .measure import MeasureInput, MeasureResult
from .record import encode

Callback: TypeAlias = Callable[[Any, Sequence[MeasureInput], Sequence[MeasureResult]], None]

_PREFIXES = {"Y": 1e24, "Z": 1e21, "E": 1e18, "P": 1e15, "T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3,
             "": 1.0}  # fmt: skip


def log_to_file(file_out: Any, protocol: str = "json") -> Callback:
    """Add measurements to a log.

    file_out  the path of a file, or an open one
    """

    def written(_: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        lines = [encode(i, r, protocol) + "\n" for i, r in zip(inputs, results, strict=True)]
        if isinstance(file_out, str | os.PathLike):
            with Path(file_out).open("a", encoding="utf-8") as file:
                file.writelines(lines)
        else:
            file_out.writelines(lines)

    return written


def log_to_database(db: Any) -> Callback:
    """Keep measurements as records in a database of smelt's.

    db  a path, a URL, or a `search` Database
    """
    database = open_database(db)

    def kept(tuner: Any, inputs: Sequence[MeasureInput], _: Sequence[MeasureResult]) -> None:
        for workload, record in tuner.records(inputs):
            database.put(workload, [record])

    return kept


class Monitor:
    """Keeps what every trial reached, and when."""

    def __init__(self) -> None:
        """Nothing so far."""
        self.scores: list[float] = []
        self.timestamps: list[float] = []

    def __call__(
        self, tuner: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
    ) -> None:
        """Take a batch."""
        self.scores += [tuner.task.flop / r.mean for r in results]
        self.timestamps += [r.timestamp for r in results]

    def reset(self) -> None:
        """Forget everything."""
        self.scores, self.timestamps = [], []

    def trial_scores(self) -> list[float]:
        """FLOPS of each trial; 0 where it failed."""
        return list(self.scores)

    def trial_timestamps(self) -> list[float]:
        """Seconds since 1970 of each trial."""
        return list(self.timestamps)


def progress_bar(total: int, prefix: str = "", si_prefix: str = "G") -> Callback:
    """Show, in one line, the speed of the last batch and the best one, and how far it is.

    total  trials; prefix: in front of the line; si_prefix: of FLOPS
    """
    if si_prefix not in _PREFIXES:
        raise CompileError(f"si_prefix {si_prefix!r}; legal: {', '.join(_PREFIXES)}")
    unit, start, seen = _PREFIXES[si_prefix], time.time(), [0, 0.0]

    def shown(tuner: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        now = max([tuner.task.flop / r.mean for r in results], default=0.0)
        seen[0] += len(results)
        seen[1] = max(seen[1], now)
        sys.stdout.write(
            f"\r{prefix} Current/Best: {now / unit:7.2f}/{seen[1] / unit:7.2f} {si_prefix}FLOPS | "
            f"Progress: ({seen[0]:.0f}/{total}) | {time.time() - start:.2f} s"
        )
        done = seen[0] >= total or (tuner.ttl is not None and tuner.ttl <= 0)
        sys.stdout.write(" Done.\n" if done else "")
        sys.stdout.flush()

    return shown
