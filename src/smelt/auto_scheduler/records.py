"""Tuning logs as the classic stack names them: inputs and results of measurements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import smelt
from smelt.codegen.llvm import resolve
from smelt.ir.errors import CompileError
from smelt.pipeline import as_target
from smelt.search.database import Database
from smelt.search.record import Record, Workload
from smelt.target import Target

from .dag import State
from .log import (
    SOURCE,
    LogLine,
    PathLike,
    append_log,
    best_line,
    grouped,
    line_text,
    parsed_line,
    read_log,
)
from .measure import MeasureCallback, MeasureInput, MeasureResult, error_code
from .task import SearchTask

if TYPE_CHECKING:
    from .policy import SearchPolicy


class RecordToFile(MeasureCallback):
    """Adds everything that is measured to a log."""

    def __init__(self, filename: PathLike) -> None:
        """filename: the log; it is made where there is none."""
        self.filename = filename

    def callback(
        self, policy: SearchPolicy, inputs: Sequence[MeasureInput],
        results: Sequence[MeasureResult],
    ) -> None:  # fmt: skip
        """Write some measurements down."""
        save_records(self.filename, inputs, results)


class RecordToDatabase(MeasureCallback):
    """Adds everything that is measured to a database of tuned schedules, which all faces share."""

    def __init__(self, database: Database) -> None:
        """database: as of smelt.search."""
        self.database = database

    def callback(
        self, policy: SearchPolicy, inputs: Sequence[MeasureInput],
        results: Sequence[MeasureResult],
    ) -> None:  # fmt: skip
        """Keep some measurements."""
        for line in map(line_of, inputs, results):
            self.database.put(line.workload, [line.record])


class RecordReader:
    """Reads a log: iterate over it, or take some lines."""

    def __init__(self, filename: PathLike) -> None:
        """filename: the log."""
        self.filename = filename

    def __iter__(self) -> Iterator[tuple[MeasureInput, MeasureResult]]:
        """Every measurement. Raises DatabaseError, with file and line."""
        return map(_pair, read_log(self.filename))

    def check_workload_key(self, inputs: Sequence[MeasureInput]) -> None:
        """Raises CompileError where a workload is not registered here."""
        for inp in inputs:
            _ = inp.task.compute_dag

    def read_lines(
        self, max_lines: int | None = None, skip_lines: int = 0
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """Inputs and results of some lines. max_lines: None or -1: all."""
        most = None if max_lines is None or max_lines < 0 else max_lines
        pairs = [_pair(x) for x in read_log(self.filename, most, skip_lines)]
        return [i for i, _ in pairs], [r for _, r in pairs]


def _pair(line: LogLine) -> tuple[MeasureInput, MeasureResult]:
    r = line.record
    state = State(r.trace, r.decision, r.body, None, r)
    return MeasureInput(SearchTask.of_line(line), state), MeasureResult.of(r)


def line_of(inp: MeasureInput, res: MeasureResult) -> LogLine:
    """A measurement as a line of a log."""
    task, state = inp.task, inp.state
    known = state.record
    if known is None or not known.workload:
        known = Record(task.engine_key, task.machine_key, str(task.resolved), state.trace,
                       state.body,
                       state.decision, SOURCE, version=smelt.__version__)  # fmt: skip
    same = known.error if MeasureResult.of(known).error_no == res.error_no else None
    record = replace(
        known, seconds=tuple(map(float, res.costs)), message=res.error_msg, when=res.timestamp,
        error=error_code(res.error_no) if same is None else same,
    )  # fmt: skip
    return LogLine(task.workload_key, task.cores, _workload(task, record.workload), record)


def _workload(task: SearchTask, key: str) -> Workload:
    try:
        program = task.compute_dag.text
    except CompileError:  # a log's, whose workload is not registered here
        program = ""
    return Workload(key, task.name, program, task.constants)


def dump_record_to_string(inp: MeasureInput, res: MeasureResult) -> str:
    """A measurement as a line of a log."""
    return line_text(line_of(inp, res))


def load_record_from_string(record: str) -> tuple[MeasureInput, MeasureResult]:
    """A measurement from a line of a log. Raises DatabaseError for a text that is none."""
    return _pair(parsed_line(record))


def load_records(filename: PathLike) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """The measurements in a log. Raises DatabaseError, with file and line."""
    return iter(RecordReader(filename))


def save_records(
    filename: PathLike, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
) -> None:
    """Add measurements to a log."""
    append_log(filename, [line_of(i, r) for i, r in zip(inputs, results, strict=True)])


def load_best_record(
    filename: PathLike,
    workload_key: str | None = None,
    target: str | Target | None = None,
    include_compatible: bool = False,
) -> tuple[MeasureInput | None, MeasureResult | None]:
    """The best measurement in a log; (None, None) where there is none.

    workload_key, target  of which; None: of any
    include_compatible    whether a target of the same kind will do
    """
    wanted = None if target is None else resolve(as_target(target))
    fit = [
        x for x in read_log(filename)
        if workload_key in (None, x.key)
        and (wanted is None or _matches(x.record.target, wanted, include_compatible))
    ]  # fmt: skip
    best = best_line(fit)
    return (None, None) if best is None else _pair(best)


def _matches(text: str, wanted: Target, compatible: bool) -> bool:
    """Whether a record's target is the one that is asked for."""
    made = Target(text)
    return made.kind is wanted.kind if compatible else str(made) == str(wanted)


def recover_measure_input(inp: MeasureInput, rebuild_state: bool = False) -> MeasureInput:
    """An input of a log with its program, which has to be registered here."""
    record = inp.state.record
    assert record is not None
    return MeasureInput(inp.task, inp.task.state_of_record(record))


def distill_record_file(in_file: PathLike, out_file: PathLike) -> None:
    """The best measurement of each task on each machine, from a log to another one."""
    found = [best_line(lines) for lines in grouped(read_log(in_file)).values()]
    append_log(out_file, [x for x in found if x is not None])


def load_into(database: Database, filename: PathLike) -> int:
    """Put a log's measurements into a database of tuned schedules; how many there were."""
    count = 0
    for line in read_log(filename):
        database.put(line.workload, [line.record])
        count += 1
    return count
