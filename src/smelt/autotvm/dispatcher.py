"""Contexts that give programs what was tuned: the best of a log."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Self

from smelt.ir.errors import CompileError
from smelt.search.database import MemoryDatabase
from smelt.search.lookup import Tunings
from smelt.search.record import Record, Workload
from smelt.target import Target

from .contexts import (
    ApplyConfig,
    ApplyFixedConfig,
    DispatchContext,
    FallbackContext,
    clear_fallback_cache,
)
from .contexts import Workload as Key
from .kernels import BODY, DECISION, TRACE
from .measure import MeasureInput, MeasureResult
from .record import Pair, load_from_buffer, load_from_file

__all__ = ["ApplyConfig", "ApplyFixedConfig", "ApplyGraphBest", "ApplyHistoryBest",
           "DispatchContext", "FallbackContext", "apply_graph_best", "apply_history_best",
           "clear_fallback_cache"]  # fmt: skip


class KernelDatabase(MemoryDatabase):
    """Schedules of kernels from a log, on whatever machine they were measured: its user has said
    that they are to be taken."""

    def best(self, workload: str, machine: str, confirmed: bool = True) -> Record | None:
        """The fastest record of a program."""
        found = [r for r in self.records(workload) if not r.error]
        return min(found, key=lambda r: r.time, default=None)


class ApplyHistoryBest(DispatchContext):
    """Gives every program the config that was the fastest in some logs.

    In a `with` block templates get their configs, and models that are built their kernels'
    schedules.
    """

    def __init__(self, records: Any = None) -> None:
        """records  a log's path, an open log, (MeasureInput, MeasureResult) pairs, or a list of
        these."""
        super().__init__()
        self.best_by_targetkey: dict[tuple[str, Key], Pair] = {}
        self.best_by_model: dict[tuple[str, Key], Pair] = {}
        self.database = KernelDatabase()
        self._tunings = Tunings(self.database, confirmed=False)
        if records is not None:
            self.load(records)

    def load(self, records: Any) -> None:
        """Take up more measurements."""
        for inp, result in _pairs(records):
            if result.error_no:
                continue
            for key in inp.target.keys:
                self._take(self.best_by_targetkey, (key, inp.task.workload), inp, result)
            if inp.target.model not in ("", "unknown"):
                self._take(self.best_by_model, (inp.target.model, inp.task.workload), inp, result)
            if TRACE in inp.config:
                self.database.put(*_record(inp, result))

    def _take(
        self, best: dict[Any, Pair], key: Any, inp: MeasureInput, result: MeasureResult
    ) -> None:
        if key not in best or result.mean < best[key][1].mean:
            best[key] = inp, result

    def find(self, target: Target | None, workload: Key | None) -> Any:
        """The best config of a program: of the target's model, or of its kind of processor."""
        target = Target("llvm") if target is None else target
        if workload is None:
            return None
        found = self.best_by_model.get((target.model, workload))
        for key in target.keys:
            found = found or self.best_by_targetkey.get((key, workload))
        return None if found is None else found[0].config

    def update(self, target: Target | None, workload: Key | None, cfg: Any) -> None:
        """Let a program have this config, whatever logs say."""
        target = Target("llvm") if target is None else target
        if workload is None:
            return
        pair = MeasureInput(target, None, cfg), MeasureResult((0.0,), 0, 0.0, 0.0)
        for key in target.keys:
            self.best_by_targetkey[key, workload] = pair
        self.best_by_model[target.model, workload] = pair

    def __enter__(self) -> Self:
        self._tunings.__enter__()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._tunings.__exit__(*error)


apply_history_best = ApplyHistoryBest


class ApplyGraphBest(DispatchContext):
    """Gives the configs of a log one after another, as programs ask for them."""

    def __init__(self, records: Any) -> None:
        """records  as of ApplyHistoryBest."""
        super().__init__()
        self.records = list(_pairs(records))
        self._given: dict[tuple[str, Key], Any] = {}
        self._next = 0

    def find(self, target: Target | None, workload: Key | None) -> Any:
        """The next config; that of a program which has asked before is the same again."""
        if workload is None:
            return None
        key = str(target), workload
        if key not in self._given and self._next < len(self.records):
            self._given[key] = self.records[self._next][0].config
            self._next += 1
        return self._given.get(key)

    def update(self, target: Target | None, workload: Key | None, cfg: Any) -> None:
        """Let a program have this config."""
        if workload is not None:
            self._given[str(target), workload] = cfg


apply_graph_best = ApplyGraphBest


def _pairs(records: Any) -> Iterable[Pair]:
    """Measurements, from whatever they are given as."""
    if isinstance(records, str | os.PathLike):
        yield from load_from_file(records)
    elif hasattr(records, "read"):
        yield from load_from_buffer(records)
    elif isinstance(records, tuple) and len(records) == 2 and isinstance(records[0], MeasureInput):
        yield records[0], records[1]
    elif isinstance(records, Iterable):
        for r in records:
            yield from _pairs(r)
    else:
        raise CompileError(
            f"records is a {type(records).__name__}; legal: the path of a log, an open one, pairs "
            "of MeasureInput and MeasureResult"
        )


def _record(inp: MeasureInput, result: MeasureResult) -> tuple[Workload, Sequence[Record]]:
    """A kernel's measurement as a record of the engine."""
    key = str(inp.task.args[0])
    trace, body, decision = [inp.config[n].val for n in (TRACE, BODY, DECISION)]
    record = Record(key, "", str(inp.target), str(trace), str(body), str(decision), "autotvm",
                    tuple(result.costs), when=result.timestamp)  # fmt: skip
    return Workload(key, inp.task.name, ""), [record]
