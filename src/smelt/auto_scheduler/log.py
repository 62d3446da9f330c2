"""Lines of a tuning log: one measurement each, as JSON in the form of the classic stack.

    {"i": [[workload key, target, [cores, ...]], [decision, [steps]]],
     "r": [[seconds, ...], error, seconds of all, time], "v": "smelt-1",
     "e": {the rest of a Record}}

Steps are the lines of a trace. A log is somebody's file: it is checked, nothing in it is executed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from smelt.ir.errors import DatabaseError, TargetError
from smelt.runtime.errors import system_errors
from smelt.search.record import Record, Workload
from smelt.search.record_text import parse, record_from, record_json, workload_from, workload_json
from smelt.target import Target

from .measure import error_number

FORM = "smelt-1"
"""What a line says of its form; TVM's say v0.1 to v0.6."""
SOURCE = "auto_scheduler"

PathLike: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class LogLine:
    """A measurement.

    key       the workload key of the classic stack
    cores     threads that it ran on
    workload  the program; record: how it was scheduled, and what that took
    """

    key: str
    cores: int
    workload: Workload
    record: Record


def line_text(line: LogLine) -> str:
    """A measurement as a line, without its end."""
    r = line.record
    rest = record_json(r)
    for name in _ELSEWHERE:
        del rest[name]
    made = {
        "i": [[line.key, r.target, [line.cores]], [r.decision, r.trace.splitlines()]],
        "r": [list(r.seconds), int(error_number(r.error)), sum(r.seconds), r.when],
        "v": FORM,
        "e": {"workload": workload_json(line.workload), "record": rest},
    }
    return json.dumps(made, allow_nan=False)


_ELSEWHERE = ("workload", "target", "trace", "decision", "seconds", "when")
"""Fields of a record that stand in other places of a line."""


def parsed_line(text: str, where: str = "the record") -> LogLine:
    """A measurement from a line. Raises DatabaseError for a text that is none.

    where  it stands, for messages: `tuned.json:7`
    """
    data = parse(text, where)
    form = data.get("v", "") if isinstance(data, dict) else ""
    if isinstance(form, str) and form.startswith("v"):
        raise DatabaseError(
            f"{where}: its form is {form!r}, of TVM's auto_scheduler, whose steps are for its own "
            "schedules; legal: logs that smelt has written; tune anew"
        )
    match data:
        case {
            "i": [[str(key), target, [int(cores), *_]], [decision, list(steps)]],
            "r": [list(seconds), int(), _, when],
            "v": str(),
            "e": {"workload": workload, "record": dict(rest)},
        } if 0 < cores <= _MOST_CORES and all(isinstance(s, str) for s in steps):
            made = workload_from(workload, where)
            fields = {"workload": made.key, "target": target, "trace": "\n".join(steps),
                      "decision": decision, "seconds": seconds, "when": when}  # fmt: skip
            record = record_from({**rest, **fields}, where)
            return LogLine(key, cores, made, replace(record, target=_target(record.target, where)))
    raise DatabaseError(
        f"{where}: no record of a tuning log: {_short(text)}\n  legal: a line as RecordToFile "
        "writes it"
    )


_MOST_CORES = 1 << 16


def _target(text: str, where: str) -> str:
    """A target's text, which has to be that of one."""
    try:
        return str(Target(text))
    except TargetError as e:
        raise DatabaseError(f"{where}: {str(e).splitlines()[0]}") from None


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


# ------------------------------------------------------------------------------------------ files


def read_log(path: PathLike, n_lines: int | None = None, skipped: int = 0) -> Iterator[LogLine]:
    """The lines of a log, in order. Raises DatabaseError, with file and line.

    n_lines  how many, at most; skipped: how many are left out before
    """
    last = None if n_lines is None else skipped + n_lines
    with (
        system_errors(DatabaseError, f"{os.fspath(path)}: the log cannot be read"),
        Path(path).open(encoding="utf-8", errors="replace") as file,
    ):
        filled = ((n, text) for n, text in enumerate(file, start=1) if text.strip())
        for number, text in islice(filled, skipped, last):
            yield parsed_line(text, f"{os.fspath(path)}:{number}")


def append_log(path: PathLike, lines: Iterable[LogLine]) -> None:
    """Add lines to a log; a line that was cut off is ended first."""
    text = "".join([line_text(x) + "\n" for x in lines])
    refused = system_errors(DatabaseError, f"{os.fspath(path)}: the log cannot be written")
    with refused, Path(path).open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            text = text if file.read(1) == b"\n" else "\n" + text
        file.write(text.encode())


def best_line(lines: Iterable[LogLine]) -> LogLine | None:
    """The measurement to trust: the fastest of those that have surely beaten the default, and of
    the default itself; where there are none of these, the fastest of all."""
    good = [x for x in lines if x.record.seconds and not x.record.error]
    sure = [x for x in good if x.record.confirmed or x.record.source == "default"]
    if sure:
        return min(sure, key=lambda x: _relative(x.record))
    return min(good, key=lambda x: x.record.time, default=None)


def _relative(r: Record) -> float:
    return 1.0 if r.source == "default" or r.relative is None else r.relative


def grouped(lines: Iterable[LogLine]) -> dict[tuple[str, str, str], list[LogLine]]:
    """Lines by workload key, target, and machine."""
    found: dict[tuple[str, str, str], list[LogLine]] = {}
    for x in lines:
        found.setdefault((x.key, x.record.target, x.record.machine), []).append(x)
    return found


def targets_of(lines: Sequence[LogLine]) -> str:
    """The targets that lines are for, for messages."""
    return "; ".join(dict.fromkeys([x.record.target for x in lines])) or "none"
