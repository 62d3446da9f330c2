"""Workloads and records as JSON, and back: what is read is untrusted, so all of it is checked.

A file of records has one JSON value a line: a first line that says what it is,

    {"format": "smelt tuning records", "version": 1}

then `{"workload": {...}}` and `{"record": {...}}` with the fields of the two classes; a workload
stands above its records.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from smelt.ir.errors import DatabaseError
from smelt.runtime.errors import kind_of, unknown
from smelt.search.record import ErrorCode, Record, Workload

FORMAT = "smelt tuning records"
VERSION = 1

MAX_LINE = 1 << 28
"""Bytes of one value of text, in a file or in a database: far above what smelt writes."""
_KEY, _LINES, _SOURCE = 256, 1 << 20, 1 << 26
_MAX_TEXT = {
    "key": _KEY, "name": _LINES, "program": _SOURCE, "workload": _KEY, "machine": _KEY,
    "target": _LINES, "trace": _SOURCE, "body": _SOURCE, "decision": _LINES, "source": _KEY,
    "message": _LINES, "version": _KEY,
}  # fmt: skip
"""Field -> the characters that it may have."""
_MAX_NUMBERS = 1 << 20

_WORKLOAD_FIELDS = tuple(f.name for f in fields(Workload))
_RECORD_FIELDS = tuple(f.name for f in fields(Record))
_NEEDED = {"key", "name", "program", "workload", "machine", "target", "trace"}


def workload_json(workload: Workload) -> dict[str, object]:
    """The fields of a workload, as JSON has them."""
    return {**asdict(workload), "constants": list(workload.constants)}


def record_json(record: Record) -> dict[str, object]:
    """The fields of a record, as JSON has them."""
    lists = {"seconds": list(record.seconds), "features": list(record.features)}
    return {**asdict(record), **lists, "error": int(record.error)}


def workload_from(value: object, where: str) -> Workload:
    """A workload from its fields; DatabaseError, with `where` in front, for any other value."""
    got = _object(value, "workload", _WORKLOAD_FIELDS, where)
    marks = got.pop("constants", [])
    if not isinstance(marks, list | tuple) or not all(isinstance(m, bool) for m in marks):
        raise _wrong(where, "constants", marks, "a list of true and false")
    texts = {name: _text(name, v, where) for name, v in got.items()}
    return Workload(**texts, constants=tuple(marks))


def record_from(value: object, where: str) -> Record:
    """A record from its fields; DatabaseError, with `where` in front, for any other value."""
    got = _object(value, "record", _RECORD_FIELDS, where)
    read: dict[str, Any] = {n: _READ.get(n, _text)(n, v, where) for n, v in got.items()}
    return Record(**read)


def checked(workload: Workload, records: Sequence[Record]) -> tuple[Workload, list[Record]]:
    """The same with plain Python numbers; DatabaseError where one of them cannot be kept."""
    workload = workload_from({n: getattr(workload, n) for n in _WORKLOAD_FIELDS}, "put")
    kept = []
    for i, r in enumerate(records):
        where = f"put: record {i}"
        if r.workload != workload.key:
            raise _wrong(where, "workload", r.workload, f"the workload's key, {workload.key!r}")
        kept.append(record_from({n: getattr(r, n) for n in _RECORD_FIELDS}, where))
    return workload, kept


def _object(value: object, what: str, names: Sequence[str], where: str) -> dict[str, object]:
    """The fields that a value gives, all of them known, the needed ones among them."""
    if not isinstance(value, Mapping):
        raise DatabaseError(f"{where}: a {what} is an object, not {kind_of(value)}")
    if strange := [n for n in value if n not in names]:
        raise DatabaseError(f"{where}: {unknown('field', strange[0], names)}")
    if missing := [n for n in names if n in _NEEDED and n not in value]:
        raise DatabaseError(f"{where}: the {what} has no {missing[0]!r}")
    return dict(value)


def _wrong(where: str, name: str, value: object, legal: str) -> DatabaseError:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:60]}…"
    return DatabaseError(f"{where}: {name} is {shown}; legal: {legal}")


def _text(name: str, value: object, where: str) -> str:
    if not isinstance(value, str):
        raise _wrong(where, name, value, "a text")
    if len(value) > _MAX_TEXT[name]:
        count = f"{len(value)} characters"
        raise DatabaseError(f"{where}: {name} has {count}; legal: {_MAX_TEXT[name]} at most")
    # What no database keeps as text: PostgreSQL has no NUL, UTF-8 no half of a pair.
    if "\0" in value or (not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value)):
        raise _wrong(where, name, value, "text without NUL and without surrogates")
    return value


def _number(name: str, value: object, where: str) -> float:
    if not isinstance(value, bool) and isinstance(value, Real):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise _wrong(where, name, value, "a finite number")


def _time(name: str, value: object, where: str) -> float:
    number = _number(name, value, where)
    if number < 0:
        raise _wrong(where, name, value, "numbers from 0")
    return number


def _optional_time(name: str, value: object, where: str) -> float | None:
    return None if value is None else _time(name, value, where)


def _many(one: Callable[[str, object, str], float]) -> Callable[..., tuple[float, ...]]:
    def read(name: str, value: object, where: str) -> tuple[float, ...]:
        if not isinstance(value, list | tuple) or len(value) > _MAX_NUMBERS:
            raise _wrong(where, name, value, f"a list of up to {_MAX_NUMBERS} numbers")
        return tuple(one(name, v, where) for v in value)

    return read


def _truth(name: str, value: object, where: str) -> bool:
    if not isinstance(value, bool | np.bool_):  # the latter is what comparing arrays gives
        raise _wrong(where, name, value, "true or false")
    return bool(value)


def _code(name: str, value: object, where: str) -> ErrorCode:
    if not isinstance(value, int) or isinstance(value, bool) or value not in list(ErrorCode):
        raise _wrong(where, name, value, ", ".join(f"{int(c)} ({c.name})" for c in ErrorCode))
    return ErrorCode(value)


_READ: dict[str, Callable[[str, object, str], Any]] = {
    "seconds": _many(_time), "features": _many(_number), "relative": _optional_time,
    "confirmed": _truth, "predicted": _time, "when": _number, "error": _code,
}  # fmt: skip
"""How fields that are no text are read."""


def parse(text: str | bytes, where: str) -> object:
    """A JSON value; DatabaseError where the text is none, or one that no JSON of ours is."""
    if len(text) > MAX_LINE:
        raise DatabaseError(f"{where}: {len(text)} bytes in one value; legal: {MAX_LINE} at most")
    try:
        # Bytes are decoded here: the parser would take some for UTF-16.
        decoded = text.decode() if isinstance(text, bytes) else text
        return json.loads(decoded, parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise DatabaseError(f"{where}: not UTF-8 text: {error.reason}") from error
    except json.JSONDecodeError as error:
        place = f"{error.msg.lower()} (column {error.colno})"
        raise DatabaseError(f"{where}: not JSON: {place}") from error
    except ValueError as error:
        raise DatabaseError(f"{where}: not JSON: {error}") from error
    except RecursionError as error:
        raise DatabaseError(f"{where}: brackets are nested too deep") from error


def _refuse(name: str) -> object:
    raise ValueError(f"{name} is no number of JSON")


def line(value: object) -> str:
    """A value as one line of a file."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"


def to_lines(workloads: Sequence[Workload], records: Sequence[Record]) -> Iterator[str]:
    """The lines of a file of records."""
    yield line({"format": FORMAT, "version": VERSION})
    for w in workloads:
        yield line({"workload": workload_json(w)})
    for r in records:
        yield line({"record": record_json(r)})


def read_lines(path: str | Path) -> tuple[list[Workload], list[Record]]:
    """What a file of records holds; DatabaseError names the line that is none of it."""
    workloads: dict[str, Workload] = {}
    records = []
    try:
        with open(path, "rb") as file:
            for number, text in enumerate(file, 1):
                where = f"{path}:{number}"
                value = parse(text, where)
                if number == 1:
                    _check_head(value, where)
                    continue
                match value:
                    case {"workload": fields_, **rest} if not rest:
                        w = workload_from(fields_, where)
                        workloads.setdefault(w.key, w)
                    case {"record": fields_, **rest} if not rest:
                        records.append(record_from(fields_, where))
                        if records[-1].workload not in workloads:
                            key = records[-1].workload
                            raise DatabaseError(f"{where}: no workload {key!r} stands above it")
                    case _:
                        legal = '{"workload": {...}} and {"record": {...}}'
                        raise DatabaseError(f"{where}: legal lines: {legal}")
            if not file.tell():
                raise DatabaseError(f"{path}: the file is empty")
    except OSError as error:
        raise DatabaseError(f"{path}: cannot be read: {error.strerror}") from error
    return list(workloads.values()), records


def _check_head(value: object, where: str) -> None:
    head = value if isinstance(value, dict) else {}
    if head.get("format") != FORMAT:
        raise DatabaseError(f"{where}: not a file of {FORMAT}: the first line does not say so")
    if (version := head.get("version")) != VERSION:
        newer = isinstance(version, int) and version > VERSION
        raise DatabaseError(
            f"{where}: version {version!r} of the format; legal: {VERSION}"
            f"{'; a newer smelt wrote it' if newer else ''}"
        )
