"""What every store does."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smelt.ir.errors import DatabaseError
from smelt.runtime.errors import InputError, SmeltError
from smelt.search.database import (
    Database,
    MemoryDatabase,
    OrderedUnionDatabase,
    UnionDatabase,
    copy_records,
)
from smelt.search.json_database import JSONDatabase
from smelt.search.record import REFUTED, ErrorCode, Workload
from smelt.search.record_text import read_lines, to_lines
from smelt.search.sql_database import SQLDatabase
from smelt.search.stores import open_database
from tests.bad_input.conftest import message
from tests.search.samples import OTHER, W, record, records, texts

Make = Callable[[], Database]


def test_what_was_put_is_there_in_order(db: Database) -> None:
    first, second = record(when=2.0), record(machine="m2", when=1.0)
    third = record(OTHER)
    db.put(W, [first, second])
    db.put(OTHER, [third])
    db.put(W, [first])
    assert db.workloads() == [W, OTHER]
    assert db.workload(OTHER.key) == OTHER
    assert db.workload("none") is None
    assert db.records() == [first, second, third, first]
    assert db.records(W.key) == [first, second, first]
    assert db.records(W.key, "m2") == [second]
    assert db.records(machine="m1") == [first, third, first]
    assert db.records("none") == []


def test_a_program_is_kept_without_records(db: Database) -> None:
    db.put(W)
    db.put(replace(W, name="later"))
    assert db.workloads() == [W]
    assert db.records() == []


@pytest.mark.parametrize("make", ["sqlite", "json", "postgres"], indirect=True)
def test_it_is_there_when_opened_again(make: Make) -> None:
    with make() as db:
        db.put(W, [record(relative=0.5, error=ErrorCode.CRASH, message="died\nof it")])
        kept = db.records()
    with make() as again:
        assert again.records() == kept
        assert again.workloads() == [W]
        assert isinstance(again.records()[0].error, ErrorCode)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_record_comes_back_as_it_was(data: st.DataObject, make: Make) -> None:
    marks = tuple(data.draw(st.lists(st.booleans(), max_size=5)))
    w = Workload(uuid.uuid4().hex, data.draw(texts), data.draw(texts), marks)
    given_ = data.draw(st.lists(records(w.key), max_size=3))
    with make() as db:
        db.put(w, given_)
        assert db.workload(w.key) == w
        back = db.records(w.key)
    assert back == given_
    assert repr(back) == repr(given_)  # the sign of zero, and the types


@pytest.mark.parametrize("confirmed", [True, False])
def test_the_best_one(db: Database, confirmed: bool) -> None:
    fast = record(seconds=(1e-6,), relative=0.1)
    proved = record(seconds=(9e-6,), relative=0.5, confirmed=True)
    given_ = [
        record(seconds=(5e-6,), relative=0.9, confirmed=True),
        proved,
        replace(proved, when=7.0),  # as good, and later
        fast,
        record(seconds=(1e-9,), relative=0.01, confirmed=True, error=ErrorCode.WRONG),
        record(seconds=(), relative=0.01, confirmed=True),
        record(seconds=(1e-9,), confirmed=False, error=ErrorCode.TIMEOUT),
        record(machine="m2", seconds=(1e-9,), relative=0.01, confirmed=True),
    ]
    db.put(W, given_)
    assert db.best(W.key, "m1", confirmed) == (proved if confirmed else fast)
    assert db.best(OTHER.key, "m1", confirmed) is None
    assert db.best(W.key, "m3", confirmed) is None


def test_the_best_of_records_without_comparison_is_none(db: Database) -> None:
    db.put(W, [record(confirmed=True), record(relative=0.5)])
    assert db.best(W.key, "m1") is None


def test_what_was_refuted_is_not_the_best(db: Database) -> None:
    first = record(decision="a", relative=0.5, confirmed=True)
    second = record(decision="b", relative=0.7, confirmed=True)
    db.put(W, [first, second, record(machine="m2", decision="b", source=REFUTED, relative=1.1)])
    assert db.best(W.key, "m1") == first
    taken_back = record(decision="a", source=REFUTED, relative=1.1)
    db.put(W, [taken_back])
    assert db.best(W.key, "m1") == second
    assert db.best(W.key, "m1", confirmed=False) == first
    db.prune(0)
    assert taken_back in db.records()
    assert db.best(W.key, "m1") == second


def test_pruning_keeps_the_fastest_and_the_confirmed(db: Database) -> None:
    slow = record(seconds=(9.0,), confirmed=True, relative=1.0)
    given_ = [record(seconds=(t,)) for t in (3.0, 1.0, 4.0, 2.0)]
    failed = record(seconds=(), error=ErrorCode.COMPILE)
    elsewhere = record(machine="m2", seconds=(8.0,))
    db.put(W, [slow, *given_, failed, elsewhere])
    db.put(OTHER, [record(OTHER, seconds=(7.0,))])
    assert db.prune(2) == 3
    assert db.records(W.key) == [slow, given_[1], given_[3], elsewhere]
    assert db.prune(2) == 0
    assert db.prune(0) == 4
    assert db.records() == [slow]
    db.put(W, [failed])
    assert db.records() == [slow, failed]
    text = "prune: keep is -1; legal: whole numbers from 0"
    assert message(InputError, lambda: db.prune(-1)) == text


def test_numbers_of_numpy_become_plain(db: Database) -> None:
    made = record(
        seconds=tuple(np.array([0.5, 0.25])),
        features=tuple(np.array([1.5], np.float32)),
        confirmed=np.bool_(True),
        relative=np.float64(0.5),
        when=3,
    )
    db.put(W, [made])
    (back,) = db.records()
    assert back == made
    assert [type(v) for v in (*back.seconds, *back.features, back.relative)] == [float] * 4
    assert back.confirmed is True


BAD: dict[str, tuple[dict[str, object], str]] = {
    "nan": ({"seconds": (float("nan"),)}, "seconds is nan; legal: a finite number"),
    "infinite": ({"features": (float("inf"),)}, "features is inf; legal: a finite number"),
    "negative": ({"seconds": (-1.0,)}, "seconds is -1.0; legal: numbers from 0"),
    "text": ({"relative": "0.5"}, "relative is '0.5'; legal: a finite number"),
    "huge": ({"when": 10**400}, "when is 1" + "0" * 59 + "…; legal: a finite number"),
    "truth": ({"confirmed": 1}, "confirmed is 1; legal: true or false"),
    "number": ({"predicted": True}, "predicted is True; legal: a finite number"),
    "code": (
        {"error": 9},
        "error is 9; legal: 0 (OK), 1 (SCHEDULE), 2 (COMPILE), 3 (CRASH), 4 (TIMEOUT), "
        "5 (RUNTIME), 6 (WRONG)",
    ),
    "list": ({"seconds": 1.0}, "seconds is 1.0; legal: a list of up to 1048576 numbers"),
    "bytes": ({"message": b"x"}, "message is b'x'; legal: a text"),
    "nul": (
        {"message": "a\0"},
        "message is 'a\\x00'; legal: text without NUL and without surrogates",
    ),
    "half": (
        {"decision": "\ud800"},
        "decision is '\\ud800'; legal: text without NUL and without surrogates",
    ),
    "long": ({"source": "s" * 257}, "source has 257 characters; legal: 256 at most"),
    "other": ({"workload": "x"}, f"workload is 'x'; legal: the workload's key, {W.key!r}"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_cannot_be_kept_is_refused(kind: str, db: Database) -> None:
    fields, text = BAD[kind]
    bad = replace(record(), **fields)  # type: ignore[arg-type]
    said = message(DatabaseError, lambda: db.put(W, [record(), bad]))
    assert said == f"put: record 1: {text}"
    assert db.records() == []
    assert db.workloads() == []


def test_a_bad_workload_is_refused(db: Database) -> None:
    bad = replace(W, constants=(1, 0))  # type: ignore[arg-type]
    text = "put: constants is (1, 0); legal: a list of true and false"
    assert message(DatabaseError, lambda: db.put(bad)) == text


def test_a_union_reads_all_and_writes_the_first() -> None:
    near, far = MemoryDatabase(), MemoryDatabase()
    better = record(relative=0.5, confirmed=True)
    good = record(relative=0.7, confirmed=True, seconds=(1e-6,))
    far.put(OTHER)
    far.put(W, [better])
    union = UnionDatabase(near, far)
    ordered = OrderedUnionDatabase(near, far)
    assert union.best(W.key, "m1") == ordered.best(W.key, "m1") == better
    union.put(W, [good])
    assert near.records() == [good]
    assert far.records() == [better]
    assert union.records() == ordered.records() == [good, better]
    assert union.workloads() == [W, OTHER]
    assert union.workload(OTHER.key) == OTHER
    assert union.best(W.key, "m1") == better
    assert union.best(W.key, "m1", confirmed=False) == good
    assert ordered.best(W.key, "m1") == good
    near.put(W, [record()])
    assert union.prune(0) == 1
    assert far.records() == [better]
    assert message(DatabaseError, UnionDatabase) == "a union of no databases; give one at least"


def test_records_are_copied_once(make: Make) -> None:
    source = MemoryDatabase()
    source.put(OTHER)
    source.put(W, [record(), record(when=1.0), record()])
    with make() as db:
        db.put(W, [record(when=1.0)])
        assert copy_records(source, db) == 1
        assert copy_records(source, db) == 0
        assert db.records() == [record(when=1.0), record()]
        assert db.workloads() == [W, OTHER]


@given(data=st.data())
def test_a_file_of_records_reads_as_it_was_written(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    given_ = data.draw(st.lists(records(W.key), max_size=3))
    path = tmp_path_factory.mktemp("lines") / "r.jsonl"
    path.write_text("".join(to_lines([W, OTHER], given_)), encoding="utf-8")
    assert read_lines(path) == ([W, OTHER], given_)


HEAD = '{"format":"smelt tuning records","version":1}\n'
LINES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", ": the file is empty"),
    "foreign": (b"[1]\n", ":1: not a file of smelt tuning records: the first line does not say so"),
    "newer": (
        HEAD.replace("1", "2").encode(),
        ":1: version 2 of the format; legal: 1; a newer smelt wrote it",
    ),
    "torn": (HEAD.encode() + b'{"wor', ":2: not JSON: unterminated string starting at (column 2)"),
    "binary": (HEAD.encode() + b"\xff\n", ":2: not UTF-8 text: invalid start byte"),
    "deep": (HEAD.encode() + b"[" * 100000, ":2: brackets are nested too deep"),
    "nan": (HEAD.encode() + b'{"record":{"when":NaN}}\n', ":2: not JSON: NaN is no number of JSON"),
    "kind": (HEAD.encode() + b"{}\n", ':2: legal lines: {"workload": {...}} and {"record": {...}}'),
    "needed": (HEAD.encode() + b'{"workload":{"key":"k"}}\n', ":2: the workload has no 'name'"),
    "unknown": (
        HEAD.encode() + b'{"workload":{"keys":"k"}}\n',
        ":2: no field 'keys'; nearest: key; fields: key, name, program, constants",
    ),
    "object": (HEAD.encode() + b'{"record":3}\n', ":2: a record is an object, not an int"),
    "orphan": (
        HEAD.encode() + b'{"record":{"workload":"k","machine":"","target":"","trace":""}}\n',
        ":2: no workload 'k' stands above it",
    ),
}


@pytest.mark.parametrize("kind", LINES)
def test_bad_files_of_records(kind: str, tmp_path: Path) -> None:
    data, text = LINES[kind]
    path = tmp_path / "r.jsonl"
    path.write_bytes(data)
    assert message(DatabaseError, lambda: read_lines(path)) == f"{path}{text}"
    none = tmp_path / "none"
    said = message(DatabaseError, lambda: read_lines(none))
    assert said == f"{none}: cannot be read: No such file or directory"


def test_a_path_says_what_store_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    memory = open_database(":memory:")
    assert isinstance(memory, MemoryDatabase)
    assert open_database(memory) is memory
    for name in ("a.db", "a.sqlite", f"sqlite:///{tmp_path}/b.db"):
        with open_database(name) as sql:
            assert isinstance(sql, SQLDatabase)
    (tmp_path / "folder").mkdir()
    for where in (tmp_path / "c.json", "folder"):
        with open_database(where) as pair:
            assert isinstance(pair, JSONDatabase)
            pair.put(W, [record()])
    found = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.*")}
    assert found == {
        "a.db", "a.sqlite", "b.db", "c.json", "c.workloads.json",
        "folder/database_workload.json", "folder/database_tuning_record.json",
    }  # fmt: skip


@pytest.mark.parametrize("where", ["x.txt", "x", 3])
def test_no_store_at_all(where: object) -> None:
    said = message(DatabaseError, lambda: open_database(where))  # type: ignore[arg-type]
    what = "3 is no database" if where == 3 else f"{where}: no kind of database"
    assert said.startswith(f"{what}; legal: a file of SQLite (NAME.db, NAME.sqlite), of JSON")


@pytest.mark.parametrize("name", ["x.db", "x.json", "folder"])
def test_nothing_is_made_where_it_should_be_there(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(SmeltError, match="no such file"):
        open_database(tmp_path / name, make=False)
    assert [p.name for p in tmp_path.rglob("*")] == ["folder"]
