"""Records in the classic pair of files, one JSON value a line.

    workloads   [key, program, {"name": ..., "constants": [...]}]
    records     [number of the workload's line from 0, [trace, run times, target, argument info,
                {...}]]

The object at the end of a line holds what the classic form has no place for: the other fields of
`Workload` and `Record`. Argument info is null: the program says it. Lines are only appended,
whole, and are on the disk before `put` returns. A lock on the file of workloads, which is never
replaced, keeps processes apart.
"""

from __future__ import annotations

import fcntl
import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

from smelt.ir.errors import DatabaseError
from smelt.runtime.errors import ExportError, kind_of
from smelt.runtime.files import write_file
from smelt.search.database import Database, prune_rows, select, survivors
from smelt.search.record import Record, Workload
from smelt.search.record_text import (
    checked,
    line,
    parse,
    record_from,
    record_json,
    workload_from,
    workload_json,
)

_T = TypeVar("_T")
_START = rb'\[(\d|"|$)'
"""How a line of ours begins, however short it was torn."""


class JSONDatabase(Database):
    """Records in the classic pair of files, which are made if they are missing.

    skip_broken  leave out lines that cannot be read, in place of an error that names the first
    """

    def __init__(
        self,
        path_workload: str | os.PathLike[str],
        path_tuning_record: str | os.PathLike[str],
        skip_broken: bool = False,
    ) -> None:
        self._workloads = _File(Path(path_workload), _workload, skip_broken)
        self._records = _File(Path(path_tuning_record), self._record, skip_broken)
        for path in (self._workloads.path, self._records.path):
            if path.is_dir():
                raise DatabaseError(f"{path}: is a folder, not a file of records")
            if not path.parent.is_dir():
                raise DatabaseError(f"{path}: the folder {path.parent} does not exist")
        records = self._records.path
        if not self._workloads.path.exists() and records.exists() and records.stat().st_size:
            raise DatabaseError(
                f"{self._workloads.path}: no such file; {records} has records of the programs in it"
            )
        with self._locked():
            pass  # a file that is none of records is refused here, not at the first use

    def put(self, workload: Workload, records: Sequence[Record] = ()) -> None:
        """Add records of one program."""
        workload, records = checked(workload, records)
        with self._locked():
            keys = [w and w.key for w in self._workloads.entries]
            if workload.key not in keys:
                keys.append(workload.key)
                self._workloads.append([(_workload_line(workload), workload)])
            index = keys.index(workload.key)
            self._records.append([(_record_line(index, r), r) for r in records])

    def workloads(self) -> list[Workload]:
        """The programs, oldest first."""
        found: dict[str, Workload] = {}
        with self._locked():
            for w in self._workloads.entries:
                if w is not None:
                    found.setdefault(w.key, w)
        return list(found.values())

    def records(self, workload: str | None = None, machine: str | None = None) -> list[Record]:
        """The records, oldest first: those of a program, of a machine, or of both."""
        with self._locked():
            return select((r for r in self._records.entries if r is not None), workload, machine)

    def prune(self, keep: int) -> int:
        """Keep the `keep` fastest records of each program and machine, and all confirmed ones.

        Lines that `skip_broken` leaves out stay in the file.
        """
        with self._locked():
            entries = self._records.entries
            stays = iter(survivors(prune_rows(r for r in entries if r is not None), keep))
            stay = [r is None or next(stays) for r in entries]
            if not all(stay):
                self._records.keep(stay)
            return stay.count(False)

    def close(self) -> None:
        """Let go of the files; the next call opens them again."""
        self._workloads.close()
        self._records.close()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone with the files, and all of them read."""
        path = self._workloads.path
        try:
            with open(path, "ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # let go of when the file is closed
                for file in (self._workloads, self._records):
                    path = file.path
                    file.refresh()
                yield
        except OSError as error:
            raise DatabaseError(
                f"{error.filename or path}: cannot be written, and holds what it held before "
                f"({error.strerror})"
            ) from error

    def _record(self, value: object, where: str) -> Record:
        """A line of the file of records."""
        match value:
            case [int(index), [trace, seconds, target, _, *more]] if len(more) < 2:
                known = self._workloads.entries
                if isinstance(index, bool) or not 0 <= index < len(known):
                    raise DatabaseError(
                        f"{where}: workload {index!r}; legal: 0 to {len(known) - 1}, the lines of "
                        f"{self._workloads.path}"
                    )
                if (workload := known[index]) is None:
                    broken = f"{self._workloads.path}:{index + 1}"
                    raise DatabaseError(f"{where}: its workload, {broken}, cannot be read")
                own = {"trace": trace, "seconds": seconds, "target": target}
                rest = {**_extra(more, where), "workload": workload.key}
                # Records that other compilers wrote say nothing of their machine.
                return record_from({"machine": "", **rest, **own}, where)
        legal = "[workload, [trace, run times, target, argument info, {...}]]"
        raise DatabaseError(f"{where}: not a record; legal: {legal}")


def _workload(value: object, where: str) -> Workload:
    """A line of the file of workloads."""
    match value:
        case [key, program, *more] if len(more) < 2:
            extra = {"name": "", **_extra(more, where)}
            return workload_from({**extra, "key": key, "program": program}, where)
    raise DatabaseError(f"{where}: not a workload; legal: [key, program, {{...}}]")


def _extra(more: Sequence[object], where: str) -> dict[str, object]:
    """The object at the end of a line; a line of another compiler has none."""
    extra = more[0] if more else {}
    if not isinstance(extra, dict):
        raise DatabaseError(f"{where}: the last value is {kind_of(extra)}; legal: an object")
    return extra


def _workload_line(workload: Workload) -> str:
    more = workload_json(workload)
    del more["key"], more["program"]
    return line([workload.key, workload.program, more])


def _record_line(index: int, record: Record) -> str:
    more = record_json(record)
    trace, seconds, target = more.pop("trace"), more.pop("seconds"), more.pop("target")
    del more["workload"]
    return line([index, [trace, seconds, target, None, more]])


class _File(Generic[_T]):
    """A file of lines, read as far as it went when it was last looked at.

    entries  what its lines mean; None: a line that is left out
    """

    def __init__(self, path: Path, read: Callable[[object, str], _T], skip_broken: bool) -> None:
        self.path = path
        self.entries: list[_T | None] = []
        self._read, self._skip = read, skip_broken
        # It stays open, so that no file that takes its place has the same number.
        self._file: BinaryIO | None = None
        self._size = 0

    def close(self) -> None:
        """Forget what was read."""
        if self._file is not None:
            self._file.close()
        self._file, self._size, self.entries = None, 0, []

    def refresh(self) -> None:
        """Read what other processes wrote since; to be called with the lock.

        A last line without its end was torn when a process was killed, since all writers hold the
        lock: it is cut off, with a warning, unless it only lacks the end.
        """
        if self._file is not None and not os.path.exists(self.path):
            self.close()
        if self._file is not None:
            own, there = os.fstat(self._file.fileno()), os.stat(self.path)
            if not os.path.samestat(own, there) or there.st_size < self._size:
                self.close()  # it was pruned
        if self._file is None:
            self._file = open(self.path, "a+b", buffering=0)  # noqa: SIM115
        self._file.seek(self._size)
        *lines, torn = self._file.read().split(b"\n")
        for text in lines:
            self._add(text)
        if torn:
            self._mend(self._file.fileno(), torn)

    def _add(self, text: bytes) -> None:
        """One line more; after an error the next look begins with it again."""
        where = f"{self.path}:{len(self.entries) + 1}"
        try:
            self.entries.append(self._read(parse(text, where), where))
        except DatabaseError:
            if not self._skip:
                raise
            self.entries.append(None)
        self._size += len(text) + 1

    def _mend(self, file: int, torn: bytes) -> None:
        """See to a last line without its end."""
        where = f"{self.path}:{len(self.entries) + 1}"
        if re.match(_START, torn) and not _parses(torn):
            os.ftruncate(file, self._size)
            warnings.warn(
                f"{where}: the last line was torn, by a process that was killed while it wrote; "
                f"its {len(torn)} bytes are cut off",
                RuntimeWarning,
                stacklevel=2,
            )
            return
        if not self._skip:  # what is somebody else's stays as it is
            self._read(parse(torn, where), where)
        _append(file, b"\n")
        self._add(torn)

    def append(self, lines: Sequence[tuple[str, _T]]) -> None:
        """Add lines and what they mean, all or none; to be called when the file has been read."""
        if lines and self._file is not None:
            data = "".join(text for text, _ in lines).encode()
            _append(self._file.fileno(), data)
            self._size += len(data)
            self.entries += [entry for _, entry in lines]

    def keep(self, stay: Sequence[bool]) -> None:
        """Put a file with only these lines in its place."""
        lines = self.path.read_bytes().split(b"\n")[:-1]
        left = b"".join(text + b"\n" for text, s in zip(lines, stay, strict=True) if s)
        mode = os.stat(self.path).st_mode & 0o777
        try:
            write_file(self.path, lambda file: file.write(left), mode)
        except ExportError as error:
            raise DatabaseError(str(error)) from error
        self.refresh()


def _parses(text: bytes) -> bool:
    try:
        parse(text, "")
    except DatabaseError:
        return False
    return True


def _append(file: int, data: bytes) -> None:
    """Write at the end of a file and to the disk; what cannot be written whole is taken back."""
    before = os.fstat(file).st_size
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    except OSError:
        os.ftruncate(file, before)
        raise
