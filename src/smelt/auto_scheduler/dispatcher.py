"""Logs as schedules: while a context is entered, models that are built take theirs from it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Never, Self

from smelt.ir.errors import CompileError
from smelt.search.database import MemoryDatabase
from smelt.search.lookup import Tunings

from .dag import ComputeDAG, State
from .log import LogLine, PathLike, best_line, grouped, read_log
from .measure import MeasureInput, MeasureResult
from .records import line_of

FLAG = "relay.backend.use_auto_scheduler"
"""The key of a PassContext's config that asks for the schedules of a log."""


class DispatchContext:
    """Where builds look for schedules."""

    def query(
        self, target: Any, workload_key: str, has_complex_op: bool = True,
        dag: ComputeDAG | None = None, func_name: str = "",
    ) -> State | None:  # fmt: skip
        """The schedule of a workload; None: the default."""
        raise NotImplementedError


class FallbackContext(DispatchContext):
    """Knows nothing: defaults hold."""

    def query(
        self, target: Any, workload_key: str, has_complex_op: bool = True,
        dag: ComputeDAG | None = None, func_name: str = "",
    ) -> None:  # fmt: skip
        """None."""
        return


class ApplyHistoryBest(DispatchContext):
    """The best schedules of a log, for models whose build is asked to use them.

    with auto_scheduler.ApplyHistoryBest(log):
        with PassContext(opt_level=3, config={"relay.backend.use_auto_scheduler": True}):
            lib = relay.build(mod, target=target, params=params)
    """

    def __init__(
        self,
        records: PathLike | Iterable[tuple[MeasureInput, MeasureResult]],
        n_lines: int | None = None,
        include_compatible: bool = False,
    ) -> None:
        """records: a log, or pairs as `load_records` gives them. Raises CompileError.

        include_compatible is refused: kernels are made for one machine.
        """
        if include_compatible:
            raise CompileError("ApplyHistoryBest: include_compatible is refused: schedules are for "
                               "the machine that they were found on")  # fmt: skip
        self.best: dict[tuple[str, str, str], LogLine] = {}
        self.database = MemoryDatabase()
        self._entered: list[Tunings] = []
        self.load(records, n_lines)

    def load(
        self, records: PathLike | Iterable[tuple[MeasureInput, MeasureResult]],
        n_lines: int | None = None,
    ) -> None:  # fmt: skip
        """Add the best of a log."""
        if isinstance(records, str | os.PathLike):
            lines: Iterable[LogLine] = read_log(records, n_lines)
        else:
            lines = [line_of(i, r) for i, r in records]
        for group, found in grouped(lines).items():
            old = [self.best[group]] if group in self.best else []
            best = best_line([*old, *found])
            if best is not None:
                self.best[group] = best
        self.database = MemoryDatabase()
        for line in self.best.values():
            self.database.put(line.workload, [line.record])

    def query(
        self, target: Any, workload_key: str, has_complex_op: bool = True,
        dag: ComputeDAG | None = None, func_name: str = "",
    ) -> State | None:  # fmt: skip
        """The best schedule of a workload for a target, as it was resolved; None where there is
        none."""
        for (key, text, _), line in self.best.items():
            if key == workload_key and text == str(target):
                r = line.record
                program = None if dag is None else dag.program
                return State(r.trace, r.decision, r.body, program, r)
        return None

    def update(self, target: Any, workload_key: str, state: State) -> None:
        """Put another schedule in place of the best."""
        if state.record is None or not state.record.workload:
            raise CompileError("ApplyHistoryBest.update: the state was not measured; legal: one of "
                               "a log, or of a policy")  # fmt: skip
        for (key, text, machine), line in self.best.items():
            if key == workload_key and text == str(target):
                made = LogLine(key, line.cores, line.workload, state.record)
                self.best[key, text, machine] = made
                self.database = MemoryDatabase()
                for x in self.best.values():
                    self.database.put(x.workload, [x.record])
                return
        raise CompileError(f"ApplyHistoryBest.update: nothing is known of {workload_key}")

    def __enter__(self) -> Self:
        """Hold for the builds inside."""
        self._entered.append(Tunings(self.database, confirmed=False, flag=FLAG).__enter__())
        return self

    def __exit__(self, *error: object) -> None:
        """Hold no more."""
        self._entered.pop().__exit__(*error)


class ApplyHistoryBestOrSample(DispatchContext):
    """Refused: what a log lacks takes the default schedule."""

    def __init__(self, *args: object, **others: object) -> Never:
        """Raise."""
        raise CompileError("ApplyHistoryBestOrSample: what a log lacks takes the default schedule, "
                           "not one at random; legal: ApplyHistoryBest(log)")  # fmt: skip
