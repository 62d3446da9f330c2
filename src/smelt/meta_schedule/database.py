"""Databases: records of programs, in the classic words. What is kept are the engine's records.

database = JSONDatabase(work_dir="tuned")
sch = database.query_schedule(mod, target, "main")     # None: nothing is known
with database: lib = relay.build(...)                  # models take their schedules from it
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Never, Self

from smelt.artifact.kernel import Tuned
from smelt.ir.errors import CompileError, DatabaseError
from smelt.ir.module import IRModule
from smelt.search import database as engine
from smelt.search.json_database import JSONDatabase as PairOfFiles
from smelt.search.lookup import Tunings
from smelt.search.record import Record, machine_key, workload_key
from smelt.search.record import Workload as Program
from smelt.target import Target
from smelt.tir.nodes import PrimFunc
from smelt.tir.parser import parse
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule, Trace
from smelt.version import VERSION

from .arg_info import ArgInfo
from .utils import SOURCE, chosen, function_of, machine_for, median_of, resolved


class Workload:
    """A program that was tuned.

    mod      the module with it; program: as the engine keeps it
    """

    def __init__(self, mod: IRModule | PrimFunc, constants: Sequence[bool] = ()) -> None:
        """constants: which of its buffers are known at compile time."""
        func = function_of("Workload", mod)
        self.mod = mod if isinstance(mod, IRModule) else IRModule({func.name: func})
        key = workload_key(func, constants)
        self.program = Program(key, func.name, script(func), tuple(constants))

    @classmethod
    def of(cls, program: Program) -> Workload:
        """The one that the engine keeps."""
        made = cls.__new__(cls)
        func = parse(program.program)
        made.mod, made.program = IRModule({func.name: func}), program
        return made

    @property
    def func(self) -> PrimFunc:
        """The program."""
        return function_of("Workload", self.mod)

    def as_json(self) -> Any:
        """As plain data: key and text."""
        return [self.program.key, self.program.program, list(self.program.constants)]

    @staticmethod
    def from_json(json_obj: Any) -> Workload:
        """What `as_json` gave. Raises DatabaseError."""
        match json_obj:
            case [str(), str(text), list(constants)]:
                return Workload(parse(text), [bool(c) for c in constants])
        raise DatabaseError(f"Workload: {json_obj!r:.60} is none; legal: what as_json gives")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Workload) and other.program.key == self.program.key

    def __hash__(self) -> int:
        return hash(self.program.key)


@dataclass
class TuningRecord:
    """A way to schedule a program, and what it took.

    record  the engine's, where it has measured it
    """

    trace: Trace
    workload: Workload
    run_secs: Sequence[float] | None = None
    target: Any = None
    args_info: Sequence[ArgInfo] | None = None
    record: Record | None = field(default=None, repr=False)

    @classmethod
    def of(cls, record: Record, workload: Workload) -> TuningRecord:
        """What the engine's says."""
        secs = [] if record.error else list(record.seconds)
        return cls(Trace.from_text(record.trace), workload, secs, Target(record.target),
                   None, record)  # fmt: skip

    def kept(self) -> Record:
        """As the engine keeps it."""
        if self.record is not None:
            return self.record
        made, text = resolved(self.target), str(self.trace)
        decision = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        secs = tuple(map(float, self.run_secs or ()))
        return Record(
            self.workload.program.key, machine_key(made, machine_for(made)), str(made), text,
            decision=decision, source=SOURCE, seconds=secs, version=VERSION, when=time.time(),
        )  # fmt: skip

    def as_measure_candidate(self) -> Any:
        """A schedule with its arguments, as cost models see it."""
        return MeasureCandidate(self.schedule(), self.args_info or ())

    def schedule(self, mod: IRModule | PrimFunc | None = None) -> Schedule:
        """The trace, carried out on the program. Raises ScheduleError where it does not fit."""
        sch = Schedule(self.workload.mod if mod is None else mod)
        self.trace.apply_to_schedule(sch)
        return sch

    def as_json(self) -> Any:
        """As plain data."""
        made = resolved(self.target)
        return [self.trace.as_json(), list(self.run_secs or ()), str(made),
                [a.as_json() for a in self.args_info or ()]]  # fmt: skip

    @staticmethod
    def from_json(json_obj: Any, workload: Workload) -> TuningRecord:
        """What `as_json` gave. Raises DatabaseError."""
        match json_obj:
            case [list(trace), list(secs), str(target), list(args)]:
                return TuningRecord(Trace.from_json(trace), workload, secs, Target(target),
                                    [ArgInfo.from_json(a) for a in args])  # fmt: skip
        raise DatabaseError(f"TuningRecord: {json_obj!r:.60} is none; legal: what as_json gives")


@dataclass
class MeasureCandidate:
    """A schedule that may be measured, and the arguments of its program."""

    sch: Schedule
    args_info: Sequence[ArgInfo]


def trusted(records: Sequence[TuningRecord]) -> TuningRecord | None:
    """The record to compile with: the best of those that have surely beaten the default and of the
    default itself; where there are none of these, the fastest; None where there are none."""
    good = [r for r in records if len(r.run_secs or ()) and not (r.record and r.record.error)]
    sure = [r for r in good if r.record and (r.record.confirmed or r.record.source == "default")]
    if sure:
        return min(sure, key=_over_default)
    return min(good, key=lambda r: median_of(r.run_secs or ()), default=None)


def _over_default(r: TuningRecord) -> float:
    known = r.record
    if known is None or known.source == "default" or known.relative is None:
        return 1.0
    return known.relative


class Database:
    """What is known of programs. The methods of the first group have to be there in a class of
    one's own (PyDatabase); the others follow from them."""

    def has_workload(self, mod: IRModule | PrimFunc) -> bool:
        """Whether a program is known."""
        raise NotImplementedError(f"{type(self).__name__} has no method has_workload")

    def commit_workload(self, mod: IRModule | PrimFunc) -> Workload:
        """Make a program known."""
        raise NotImplementedError(f"{type(self).__name__} has no method commit_workload")

    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Keep a record."""
        raise NotImplementedError(f"{type(self).__name__} has no method commit_tuning_record")

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        """The fastest records of a program, each schedule once."""
        raise NotImplementedError(f"{type(self).__name__} has no method get_top_k")

    def get_all_tuning_records(self) -> list[TuningRecord]:
        """All records, oldest first."""
        raise NotImplementedError(f"{type(self).__name__} has no method get_all_tuning_records")

    def __len__(self) -> int:
        return len(self.get_all_tuning_records())

    def __bool__(self) -> bool:
        return True

    # ------------------------------------------------------------------------------- questions

    def known(self, key: str, target: Target) -> list[TuningRecord]:
        """The records of a program, by its key, on a target as it is here."""
        return [r for r in self.get_all_tuning_records()
                if r.workload.program.key == key and _fits(r, target)]  # fmt: skip

    def query_tuning_record(
        self, mod: IRModule | PrimFunc, target: Any, workload_name: str | None = None
    ) -> TuningRecord | None:
        """The record of a program that is compiled with; None where there is none."""
        key = workload_key(function_of("query_tuning_record", mod))
        return trusted([r for r in self.known(key, resolved(target)) if not _body(r)])

    def query_schedule(
        self, mod: IRModule | PrimFunc, target: Any, workload_name: str | None = None
    ) -> Schedule | None:
        """The schedule of that record."""
        found = self.query_tuning_record(mod, target, workload_name)
        return None if found is None else found.schedule(mod)

    def query_ir_module(
        self, mod: IRModule | PrimFunc, target: Any, workload_name: str | None = None
    ) -> IRModule | None:
        """The scheduled module."""
        found = self.query_schedule(mod, target, workload_name)
        return None if found is None else found.mod

    def query(
        self,
        mod: IRModule | PrimFunc,
        target: Any,
        *,
        workload_name: str = "main",
        kind: str = "schedule",
    ) -> Schedule | IRModule | TuningRecord | None:
        """One of the three before: kind is "schedule", "ir_module" or "record"."""
        asked = {"schedule": self.query_schedule, "ir_module": self.query_ir_module,
                 "record": self.query_tuning_record}  # fmt: skip
        return chosen("Database.query", asked, kind, mod, target, workload_name)

    def kernel_record(
        self, func: PrimFunc, constants: Sequence[bool], target: Target
    ) -> TuningRecord | None:
        """The record that a kernel of a model is compiled with; None: the default schedule."""
        found = trusted(self.known(workload_key(func, constants), target))
        return found or self.query_tuning_record(IRModule({func.name: func}), target, func.name)

    def dump_pruned(self, destination: Database) -> None:
        """Copy the record of each program and target that is compiled with."""
        groups: dict[tuple[str, str], list[TuningRecord]] = {}
        for r in self.get_all_tuning_records():
            groups.setdefault((r.workload.program.key, r.kept().machine), []).append(r)
        for found in map(trusted, groups.values()):
            if found is not None:
                destination.commit_tuning_record(found)

    # --------------------------------------------------------------------------------- as context

    def __enter__(self) -> Self:
        """Programs that are compiled inside take their schedules from it."""
        tunings = KernelTunings(self).__enter__()
        _ENTERED.set((*_ENTERED.get(), (self, tunings)))
        return self

    def __exit__(self, *error: object) -> None:
        *before, (_, tunings) = _ENTERED.get()
        tunings.__exit__(*error)
        _ENTERED.set(tuple(before))

    @staticmethod
    def current() -> Database | None:
        """The database that is entered; None: there is none."""
        entered = _ENTERED.get()
        return entered[-1][0] if entered else None

    @staticmethod
    def create(kind: Any = "json", *args: Any, **keywords: Any) -> Database:
        """A database by its kind: json, memory, union, ordered_union; or a function that
        schedules."""
        if callable(kind):
            return ScheduleFnDatabase(kind, *args, **keywords)
        kinds = {"json": JSONDatabase, "memory": MemoryDatabase, "union": UnionDatabase,
                 "ordered_union": OrderedUnionDatabase}  # fmt: skip
        return chosen("Database.create", kinds, kind, *args, **keywords)


_ENTERED: ContextVar[tuple[tuple[Database, Tunings], ...]] = ContextVar(
    "smelt.meta_schedule.databases", default=()
)


def _fits(r: TuningRecord, target: Target) -> bool:
    return r.kept().machine == machine_key(target, machine_for(target))


def _body(r: TuningRecord) -> str:
    """The algorithm in place of an operator's own: only whole models can be built with it."""
    return r.record.body if r.record is not None else ""


class PyDatabase(Database):
    """The base of databases of one's own."""


class KernelTunings(Tunings):
    """A database as the compilation of models sees it."""

    def __init__(self, face: Database) -> None:
        """face: is asked for each kernel."""
        super().__init__(engine.MemoryDatabase(), confirmed=False)
        self.face = face

    def best(
        self, func: PrimFunc, constants: Sequence[bool], target: Target, cores: int
    ) -> Tuned | None:
        """The schedule of a program; None where the default stays."""
        found = self.face.kernel_record(func, constants, target)
        if found is None or not (made := found.kept()).trace:
            return None
        return Tuned(made.trace, made.body)


class StoredDatabase(Database):
    """One that stands on a database of the engine.

    store  it
    """

    def __init__(self, store: engine.Database) -> None:
        """On a database of the engine."""
        self.store = store

    def has_workload(self, mod: IRModule | PrimFunc) -> bool:
        """Whether a program is known."""
        key = workload_key(function_of("has_workload", mod))
        return self.store.workload(key) is not None

    def commit_workload(self, mod: IRModule | PrimFunc) -> Workload:
        """Make a program known."""
        made = Workload(mod)
        self.store.put(made.program)
        return made

    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Keep a record."""
        self.store.put(record.workload.program, [record.kept()])

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        """The fastest records of a program, each schedule once."""
        found = sorted(self.store.records(workload.program.key), key=lambda r: r.time)
        once = {r.trace: r for r in reversed(found) if r.seconds and not r.error and r.trace}
        kept = sorted(once.values(), key=lambda r: r.time)[:top_k]
        return [TuningRecord.of(r, workload) for r in kept]

    def get_all_tuning_records(self) -> list[TuningRecord]:
        """All records with a schedule, oldest first."""
        return self._of(self.store.records())

    def _of(self, records: Sequence[Record]) -> list[TuningRecord]:
        known = {w.key: Workload.of(w) for w in self.store.workloads()
                 if any(r.workload == w.key for r in records)}  # fmt: skip
        return [TuningRecord.of(r, known[r.workload]) for r in records if r.trace]

    def known(self, key: str, target: Target) -> list[TuningRecord]:
        """The records of a program on a target as it is here."""
        return self._of(self.store.records(key, machine_key(target, machine_for(target))))


class MemoryDatabase(StoredDatabase):
    """Records of this process alone."""

    def __init__(self, module_equality: str = "structural") -> None:
        """module_equality is accepted: programs are equal where their texts are."""
        super().__init__(engine.MemoryDatabase())


class JSONDatabase(StoredDatabase):
    """Records in two files: programs, and what was measured."""

    def __init__(
        self,
        path_workload: str | os.PathLike[str] | None = None,
        path_tuning_record: str | os.PathLike[str] | None = None,
        *,
        work_dir: str | os.PathLike[str] | None = None,
        allow_missing: bool = True,
        module_equality: str = "structural",
    ) -> None:
        """The files, or a folder with database_workload.json and database_tuning_record.json.

        allow_missing  make them where they are missing. Raises DatabaseError
        """
        folder = Path(work_dir) if work_dir is not None else None
        given: list[Path] = []
        for path, name in ((path_workload, "database_workload.json"),
                           (path_tuning_record, "database_tuning_record.json")):  # fmt: skip
            if path is None and folder is None:
                raise DatabaseError("JSONDatabase: give path_workload and path_tuning_record, or "
                                    "work_dir")  # fmt: skip
            given.append(Path(path) if path is not None else Path(folder or ".") / name)
        for path in given:
            if not path.exists() and not allow_missing:
                raise DatabaseError(f"{path}: no such file")
            path.parent.mkdir(parents=True, exist_ok=True)
        self.path_workload, self.path_tuning_record = map(str, given)
        super().__init__(PairOfFiles(given[0], given[1]))


class UnionDatabase(Database):
    """Several databases as one that is read: of all answers the best."""

    def __init__(self, *databases: Database) -> None:
        """At least one."""
        if not databases:
            raise CompileError("a union of no databases; give one at least")
        self.databases = databases

    def has_workload(self, mod: IRModule | PrimFunc) -> bool:
        """Whether one of them knows a program."""
        return any(d.has_workload(mod) for d in self.databases)

    def commit_workload(self, mod: IRModule | PrimFunc) -> Never:
        """Refused."""
        raise CompileError(f"{type(self).__name__} is only read; commit to one of its databases")

    def commit_tuning_record(self, record: TuningRecord) -> Never:
        """Refused."""
        raise CompileError(f"{type(self).__name__} is only read; commit to one of its databases")

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        """The fastest of all."""
        every = [r for d in self.databases for r in d.get_top_k(workload, top_k)]
        return sorted(every, key=lambda r: median_of(r.run_secs or ()))[:top_k]

    def get_all_tuning_records(self) -> list[TuningRecord]:
        """The records of all."""
        return [r for d in self.databases for r in d.get_all_tuning_records()]

    def query_tuning_record(
        self, mod: IRModule | PrimFunc, target: Any, workload_name: str | None = None
    ) -> TuningRecord | None:
        """The best of all answers."""
        every = (d.query_tuning_record(mod, target, workload_name) for d in self.databases)
        return self._of_answers(every)

    def kernel_record(
        self, func: PrimFunc, constants: Sequence[bool], target: Target
    ) -> TuningRecord | None:
        """The best of all answers."""
        return self._of_answers(d.kernel_record(func, constants, target) for d in self.databases)

    def _of_answers(self, every: Iterable[TuningRecord | None]) -> TuningRecord | None:
        """Which of the databases' answers counts."""
        return trusted([r for r in every if r is not None])


class OrderedUnionDatabase(UnionDatabase):
    """Several databases, each of which is asked only if those before it know nothing."""

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        """The fastest of the first that knows any."""
        every = (d.get_top_k(workload, top_k) for d in self.databases)
        return next((found for found in every if found), [])

    def _of_answers(self, every: Iterable[TuningRecord | None]) -> TuningRecord | None:
        return next((r for r in every if r is not None), None)


class ScheduleFnDatabase(Database):
    """A function that schedules, (sch) -> whether it did, in place of records."""

    NOTHING: ClassVar[tuple[float, ...]] = (0.0,)
    """Seconds of a schedule that was not measured."""

    def __init__(
        self, schedule_fn: Callable[[Schedule], bool], module_equality: str = "structural"
    ) -> None:
        """schedule_fn changes the schedule and returns True, or returns False."""
        self.schedule_fn = schedule_fn

    def has_workload(self, mod: IRModule | PrimFunc) -> bool:
        """Any may be scheduled."""
        return True

    def commit_workload(self, mod: IRModule | PrimFunc) -> Workload:
        """Nothing is kept."""
        return Workload(mod)

    def commit_tuning_record(self, record: TuningRecord) -> Never:
        """Refused."""
        raise CompileError("ScheduleFnDatabase keeps no records; legal: MemoryDatabase()")

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        """What the function makes of it."""
        found = self.query_tuning_record(workload.mod, None)
        return [] if found is None else [found][:top_k]

    def get_all_tuning_records(self) -> list[TuningRecord]:
        """None: it keeps none."""
        return []

    def query_tuning_record(
        self, mod: IRModule | PrimFunc, target: Any, workload_name: str | None = None
    ) -> TuningRecord | None:
        """What the function makes of a program; None where it returns False."""
        sch = Schedule(mod)
        if not self.schedule_fn(sch):
            return None
        return TuningRecord(sch.trace, Workload(mod), self.NOTHING, resolved(target))
