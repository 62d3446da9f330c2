"""Databases keep records, and answer what a program is compiled with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from smelt import meta_schedule as ms
from smelt.ir.errors import CompileError, DatabaseError
from smelt.ir.module import IRModule
from smelt.meta_schedule import database as db
from smelt.search.runner import AnalyticRunner
from smelt.tir.schedule import Schedule

from .programs import NATIVE, check, doubled, matmul_twice, total


def record(mod: Any, seconds: float, factor: int = 4) -> ms.TuningRecord:
    """A record that somebody has written: the first loop of the last block is split."""
    sch = Schedule(mod)
    sch.split(sch.get_loops(sch.get_child_blocks("root")[-1])[0], [None, factor])
    return ms.TuningRecord(sch.trace, ms.Workload(mod), [seconds, seconds], NATIVE, [])


def split_by(sch: Schedule | None) -> int:
    """The factor of such a schedule."""
    assert sch is not None
    (split,) = [i for i in sch.trace.insts if i.name == "split"]
    return int(split.args["factors"][1])


@pytest.mark.parametrize("kind", ["json", "memory", "own"])
def test_the_fastest_record_is_the_answer(kind: str, tmp_path: Path) -> None:
    made: dict[str, Any] = {
        "json": lambda: db.JSONDatabase(work_dir=tmp_path), "memory": db.MemoryDatabase, "own": Own
    }  # fmt: skip
    database, mod = made[kind](), doubled()
    assert not database.has_workload(mod)
    assert database.query_schedule(mod, NATIVE, "main") is None
    work = database.commit_workload(mod)
    assert database.has_workload(mod)
    for seconds, factor in ((3e-6, 2), (1e-6, 8), (2e-6, 16)):
        database.commit_tuning_record(record(mod, seconds, factor))
    assert [r.run_secs[0] for r in database.get_top_k(work, 2)] == [1e-6, 2e-6]
    assert split_by(database.query_schedule(mod, NATIVE)) == 8
    assert len(database.get_all_tuning_records()) == len(database) == 3
    made_mod = database.query_ir_module(mod, NATIVE)
    assert isinstance(made_mod, IRModule)
    check(made_mod, "doubled")
    assert isinstance(database.query(mod, NATIVE, kind="record"), ms.TuningRecord)
    with pytest.raises(CompileError, match="no kind 'thing'"):
        database.query(mod, NATIVE, kind="thing")
    assert database.query_schedule(mod, "llvm -mcpu=skylake") is None
    smaller = db.MemoryDatabase()
    database.dump_pruned(smaller)
    assert len(smaller) == 1


@ms.derived_object
class Own(db.PyDatabase):
    """Lists."""

    def __init__(self) -> None:
        """Empty."""
        self.works: list[ms.Workload] = []
        self.found: list[ms.TuningRecord] = []

    def has_workload(self, mod: Any) -> bool:
        """Whether it is in the list."""
        return ms.Workload(mod) in self.works

    def commit_workload(self, mod: Any) -> ms.Workload:
        """Add one."""
        self.works.append(ms.Workload(mod))
        return self.works[-1]

    def commit_tuning_record(self, record: ms.TuningRecord) -> None:
        """Add one."""
        self.found.append(record)

    def get_top_k(self, workload: ms.Workload, top_k: int) -> list[ms.TuningRecord]:
        """The fastest."""
        mine = [r for r in self.found if r.workload == workload]
        return sorted(mine, key=lambda r: min(r.run_secs or ()))[:top_k]

    def get_all_tuning_records(self) -> list[ms.TuningRecord]:
        """All."""
        return self.found


def test_a_session_writes_to_a_database_of_ones_own() -> None:
    own = Own()
    ms.tune_tir(total(), NATIVE, max_trials_global=3, database=own, runner=AnalyticRunner())
    assert len(own) >= 3
    assert {r.kept().source for r in own.found} == {"default", "meta_schedule"}


def test_unions_ask_all_or_one_after_the_other() -> None:
    mod, slow, fast = doubled(), db.MemoryDatabase(), db.MemoryDatabase()
    slow.commit_tuning_record(record(mod, 2e-6, 2))
    fast.commit_tuning_record(record(mod, 1e-6, 16))
    assert split_by(db.UnionDatabase(slow, fast).query_schedule(mod, NATIVE)) == 16
    ordered = db.OrderedUnionDatabase(db.MemoryDatabase(), slow, fast)
    assert split_by(ordered.query_schedule(mod, NATIVE)) == 2
    assert len(ordered.get_top_k(ms.Workload(mod), 5)) == 1
    assert len(db.UnionDatabase(slow, fast).get_top_k(ms.Workload(mod), 5)) == 2
    with pytest.raises(CompileError, match="is only read"):
        ordered.commit_tuning_record(record(mod, 1.0))
    with pytest.raises(CompileError, match="a union of no databases"):
        db.UnionDatabase()


def test_a_function_stands_in_place_of_records() -> None:
    def only_doubled(sch: Schedule) -> bool:
        if "B" not in sch.get_child_blocks("root"):
            return False
        sch.compute_inline("B")
        return True

    database = ms.Database.create(only_doubled)
    made = ms.compile_tir(database, doubled(), NATIVE)
    assert made is not None
    assert made.get_child_blocks("root") == ["C"]
    assert ms.compile_tir(database, matmul_twice(), NATIVE) is None
    with pytest.raises(CompileError, match="keeps no records"):
        database.commit_tuning_record(record(doubled(), 1.0))


def test_records_and_programs_are_plain_data_and_back() -> None:
    given = record(doubled(), 1e-6)
    work = ms.Workload.from_json(given.workload.as_json())
    assert work == given.workload
    again = ms.TuningRecord.from_json(given.as_json(), work)
    assert again.trace == given.trace
    assert again.run_secs == given.run_secs
    check(again.schedule(), "doubled")
    assert again.as_measure_candidate().sch.func.name == given.workload.func.name
    for read in (ms.Workload.from_json, lambda x: ms.TuningRecord.from_json(x, work)):
        with pytest.raises(DatabaseError, match="legal: what as_json gives"):
            read([1, 2])
    info = ms.arg_info.ArgInfo.from_entry_func(work.mod)
    assert [ms.arg_info.ArgInfo.from_json(a.as_json()) for a in info] == info


def test_files_that_are_missing_are_said(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match=r"database_workload\.json: no such file"):
        db.JSONDatabase(work_dir=tmp_path, allow_missing=False)
    with pytest.raises(DatabaseError, match="or work_dir"):
        db.JSONDatabase()


def test_databases_are_entered_and_left() -> None:
    one, two = db.MemoryDatabase(), db.MemoryDatabase()
    assert ms.Database.current() is None
    with one:
        with two:
            assert ms.Database.current() is two
            assert ms.is_meta_schedule_enabled()
        assert ms.Database.current() is one
    assert not ms.is_meta_schedule_enabled()
