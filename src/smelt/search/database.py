"""Where tuning keeps its records: the interface, and the stores that need no file."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence

from smelt.ir.closing import Closing
from smelt.ir.errors import DatabaseError as DatabaseError
from smelt.runtime.errors import at_least
from smelt.search.record import REFUTED, Record, Workload
from smelt.search.record_text import checked


class Database(Closing):
    """Programs that were tuned, and the records of each; several processes may use one at once.

    When `put` returns, what it was given is kept. Whatever cannot be done is a DatabaseError,
    after which the database holds what it held before.
    """

    @abstractmethod
    def put(self, workload: Workload, records: Sequence[Record] = ()) -> None:
        """Add records of one program, all of them or none; a program is kept once.

        Errors   DatabaseError where a record is of another program, or has a value that no
                 database keeps, such as a time that is not finite
        """

    @abstractmethod
    def workloads(self) -> list[Workload]:
        """The programs, oldest first."""

    @abstractmethod
    def records(self, workload: str | None = None, machine: str | None = None) -> list[Record]:
        """The records, oldest first: those of a program, of a machine, or of both."""

    @abstractmethod
    def prune(self, keep: int) -> int:
        """Of every program on every machine, keep the `keep` fastest records and all that confirm
        or refute; the number of records that went."""

    def workload(self, key: str) -> Workload | None:
        """The program with a key."""
        return next((w for w in self.workloads() if w.key == key), None)

    def best(self, workload: str, machine: str, confirmed: bool = True) -> Record | None:
        """The best record of a program on a machine; None where there is none.

        confirmed  the least `relative` of those that were confirmed and not refuted; False: the
                   least `time` of those that ran without an error
        """
        return best_of(self.records(workload, machine), confirmed)

    def close(self) -> None:
        """Let go of the file or the connection; what was put is kept anyway."""


def best_of(records: Iterable[Record], confirmed: bool) -> Record | None:
    """The best of some records, as `Database.best` says; the oldest of equal ones."""
    ran = [r for r in records if r.time < math.inf]
    if not confirmed:
        return min(ran, key=lambda r: r.time, default=None)
    refuted = {r.decision for r in ran if r.source == REFUTED}
    proved = [
        (r.relative, r.time, i)
        for i, r in enumerate(ran)
        if r.confirmed and r.relative is not None and r.decision not in refuted
    ]
    return ran[min(proved)[2]] if proved else None


def survivors(rows: Sequence[tuple[str, str, bool, float]], keep: int) -> list[bool]:
    """Which rows (workload, machine, verdict, time) stay when a database is pruned.

    verdict  whether it confirms a schedule or refutes one
    """
    at_least(0, "prune", keep=keep)
    groups: dict[tuple[str, str], list[int]] = {}
    for i, (workload, machine, _, time) in enumerate(rows):
        if time < math.inf:
            groups.setdefault((workload, machine), []).append(i)
    fast = {i for g in groups.values() for i in sorted(g, key=lambda i: rows[i][3])[:keep]}
    return [verdict or i in fast for i, (_, _, verdict, _) in enumerate(rows)]


def prune_rows(records: Iterable[Record]) -> list[tuple[str, str, bool, float]]:
    """What `survivors` looks at."""
    return [(r.workload, r.machine, r.confirmed or r.source == REFUTED, r.time) for r in records]


def copy_records(source: Database, into: Database) -> int:
    """Add what a database holds and another does not; the number of records that were new."""
    return add_records(source.workloads(), source.records(), into)


def add_records(workloads: Sequence[Workload], records: Sequence[Record], into: Database) -> int:
    """Add those records that a database does not hold yet; their number."""
    known = set(into.records())
    fresh = [r for r in dict.fromkeys(records) if r not in known]
    for w in workloads:
        into.put(w, [r for r in fresh if r.workload == w.key])
    return len(fresh)


class MemoryDatabase(Database):
    """Records of this process alone, gone when it ends."""

    def __init__(self) -> None:
        self._workloads: dict[str, Workload] = {}
        self._records: list[Record] = []

    def put(self, workload: Workload, records: Sequence[Record] = ()) -> None:
        """Add records of one program."""
        workload, records = checked(workload, records)
        self._workloads.setdefault(workload.key, workload)
        self._records += records

    def workloads(self) -> list[Workload]:
        """The programs, oldest first."""
        return list(self._workloads.values())

    def workload(self, key: str) -> Workload | None:
        """The program with a key."""
        return self._workloads.get(key)

    def records(self, workload: str | None = None, machine: str | None = None) -> list[Record]:
        """The records, oldest first: those of a program, of a machine, or of both."""
        return select(self._records, workload, machine)

    def prune(self, keep: int) -> int:
        """Keep the `keep` fastest records of each program and machine, and all confirmed ones."""
        stay = survivors(prune_rows(self._records), keep)
        self._records = [r for r, s in zip(self._records, stay, strict=True) if s]
        return stay.count(False)


def select(records: Iterable[Record], workload: str | None, machine: str | None) -> list[Record]:
    """The records of a program, of a machine, or of both."""
    return [r for r in records if workload in (None, r.workload) and machine in (None, r.machine)]


class UnionDatabase(Database):
    """Several databases as one: all are read, the best is that of all; the first is written."""

    def __init__(self, *others: Database) -> None:
        if not others:
            raise DatabaseError("a union of no databases; give one at least")
        self.databases = others

    def put(self, workload: Workload, records: Sequence[Record] = ()) -> None:
        """Add records to the first."""
        self.databases[0].put(workload, records)

    def workloads(self) -> list[Workload]:
        """The programs of all, each once."""
        found: dict[str, Workload] = {}
        for w in (w for d in self.databases for w in d.workloads()):
            found.setdefault(w.key, w)
        return list(found.values())

    def workload(self, key: str) -> Workload | None:
        """The program with a key, from the first that has it."""
        return next((w for d in self.databases if (w := d.workload(key)) is not None), None)

    def records(self, workload: str | None = None, machine: str | None = None) -> list[Record]:
        """The records of the first, then those of the others."""
        return [r for d in self.databases for r in d.records(workload, machine)]

    def best(self, workload: str, machine: str, confirmed: bool = True) -> Record | None:
        """The best of all."""
        each = (d.best(workload, machine, confirmed) for d in self.databases)
        return best_of((r for r in each if r is not None), confirmed)

    def prune(self, keep: int) -> int:
        """Prune the first: the others are only read."""
        return self.databases[0].prune(keep)

    def close(self) -> None:
        """Close all."""
        for d in self.databases:
            d.close()


class OrderedUnionDatabase(UnionDatabase):
    """Several databases, each of which is asked for the best only if those before it have none."""

    def best(self, workload: str, machine: str, confirmed: bool = True) -> Record | None:
        """The best of the first that has one."""
        each = (d.best(workload, machine, confirmed) for d in self.databases)
        return next((r for r in each if r is not None), None)
