"""Files of SQLite and PostgreSQL servers: what is refused, and what is not lost."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from smelt.ir.errors import DatabaseError
from smelt.search import sql_database
from smelt.search.sql_database import SQLDatabase
from tests.bad_input.conftest import ROOT, message
from tests.search.samples import OTHER, W, opens, record

NOBODY = 65534


def refused(where: object, make: bool = True) -> str:
    return message(DatabaseError, lambda: SQLDatabase(where, make))  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with a record."""
    path = tmp_path / "t.db"
    with SQLDatabase(path) as db:
        db.put(W, [record()])
    return path


def change(path: Path, *statements: str) -> None:
    """Carry out statements as another program could."""
    connection = sqlite3.connect(path)
    with connection:
        for s in statements:
            connection.execute(s)
    connection.close()


def test_places_where_no_database_can_be(tmp_path: Path) -> None:
    folder = f"{tmp_path}: is a folder, not a database; give a file, {tmp_path}/records.db"
    assert refused(tmp_path) == folder
    assert refused(tmp_path / "no" / "t.db") == (
        f"{tmp_path}/no/t.db: the folder {tmp_path}/no does not exist"
    )
    assert refused(tmp_path / "t.db", make=False) == f"{tmp_path}/t.db: no such file"
    assert list(tmp_path.iterdir()) == []


LEGAL = "legal: the path of a file, sqlite:///FILE or postgresql://USER@HOST/DATABASE"
URLS = {
    "mysql://me:secret@host/db": f"mysql://me:***@host/db: cannot hold records; {LEGAL}",
    "sqlite://": f"sqlite://: cannot hold records; {LEGAL}",
    "sqlite:///:memory:": f"sqlite:///:memory:: cannot hold records; {LEGAL}",
    "://": f"not the URL of a database; {LEGAL}",
    "postgresql://h:port/x": f"not the URL of a database; {LEGAL}",
}


@pytest.mark.parametrize("url", URLS)
def test_bad_urls(url: str) -> None:
    assert refused(url) == URLS[url]


def test_no_text_at_all() -> None:
    assert refused(3) == f"3 names no database; {LEGAL}"


@pytest.mark.parametrize("data", [b"hello, this is no database\n" * 40, bytes(range(256)) * 8])
def test_a_file_of_something_else(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    path.write_bytes(data)
    assert refused(path) == (
        f"{path}: not an SQLite database, or a damaged one (file is not a database)"
    )
    assert path.read_bytes() == data
    assert list(tmp_path.iterdir()) == [path]


def test_a_database_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    change(path, "CREATE TABLE songs (title)", "CREATE TABLE bands (name)")
    before = path.read_bytes()
    assert refused(path) == (
        f"{path}: an SQLite database of something else (tables: bands, songs), not one of tuning "
        "records"
    )
    assert path.read_bytes() == before


def test_a_damaged_database(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)  # all pages but the first
    path.write_bytes(data)
    assert refused(path) == f"{path}: the database is damaged (database disk image is malformed)"


def test_a_truncated_database(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4096])
    said = message(DatabaseError, lambda: SQLDatabase(path).records())
    assert said == f"{path}: the database is damaged (database disk image is malformed)"


VERSIONS = {
    "UPDATE smelt_schema SET version = 2": "2 of the tables; legal: 1; a newer smelt wrote it: "
    "update this one",
    "UPDATE smelt_schema SET version = 'x'": "'x' of the tables; legal: 1; it is damaged",
    "DELETE FROM smelt_schema": "none of the tables; legal: 1; it is damaged",
}


@pytest.mark.parametrize("statement", VERSIONS)
def test_tables_of_another_version(statement: str, path: Path) -> None:
    change(path, statement)
    assert refused(path) == f"{path}: version {VERSIONS[statement]}"


ROWS = {
    "confirmed = 7": "confirmed is 7; legal: true or false",
    "seconds = 3": "seconds is '3'; legal: a list of up to 1048576 numbers",
    "seconds = '[1'": "seconds: not JSON: expecting ',' delimiter (column 3)",
    "seconds = x'80'": "seconds is b'\\x80'; legal: a list in JSON",
    "features = '[\"a\"]'": "features is 'a'; legal: a finite number",
    "relative = 'much'": "relative is 'much'; legal: a finite number",
    "predicted = 9e999": "predicted is inf; legal: a finite number",
    "error = 99": "error is 99; legal: 0 (OK), 1 (SCHEDULE), 2 (COMPILE), 3 (CRASH), 4 (TIMEOUT), "
    "5 (RUNTIME), 6 (WRONG)",
    "trace = x'80'": "trace is b'\\x80'; legal: a text",
    "machine = printf('%.300c', 'm')": "machine has 300 characters; legal: 256 at most",
}


@pytest.mark.parametrize("what", ROWS)
def test_what_a_row_says_is_checked(what: str, path: Path) -> None:
    change(path, f"UPDATE smelt_records SET {what}")
    with SQLDatabase(path) as db:
        said = message(DatabaseError, db.records)
    text = ROWS[what]
    if text.startswith("seconds is '3'"):
        text = "seconds is 3; legal: a list of up to 1048576 numbers"
    assert said == f"{path}: record 1: {text}"


def test_what_a_workload_says_is_checked(path: Path) -> None:
    change(path, "UPDATE smelt_workloads SET constants = 'cx'")
    with SQLDatabase(path) as db:
        said = message(DatabaseError, db.workloads)
    assert said == f"{path}: workload 1: constants is 'cx'; legal: a text of c and v"


def test_text_that_is_none(path: Path) -> None:
    change(path, "UPDATE smelt_records SET trace = CAST(x'ff' AS TEXT)")
    with SQLDatabase(path) as db:
        said = message(DatabaseError, db.records)
    assert said.startswith(f"{path}: Could not decode to UTF-8 column 'trace'")


@pytest.fixture
def closed_folder() -> Iterator[Path]:
    """A folder with a database in it, neither of which this process may write."""
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to all but their user
    with SQLDatabase(folder / "t.db") as db:
        db.put(W, [record()])
    (folder / "t.db").chmod(0o444)
    folder.chmod(0o555)
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield folder
    finally:
        os.seteuid(user)
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_places_without_permission(closed_folder: Path) -> None:
    fresh = closed_folder / "new.db"
    assert refused(fresh) == (
        f"{fresh}: cannot be opened: no permission for the file or its folder "
        "(unable to open database file)"
    )
    said = message(DatabaseError, lambda: SQLDatabase(closed_folder / "t.db").put(OTHER))
    assert said.startswith(f"{closed_folder}/t.db: cannot be ")
    assert "no permission for the file or its folder" in said


FULL = """
import resource, sys
from smelt.ir.errors import DatabaseError
from tests.search.samples import W, opens, record
db = opens(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
count = 0
try:
    while True:
        db.put(W, [record(when=float(count), trace="x" * 5000)] * 3)
        count += 1
except DatabaseError as error:
    print(count)
    print(error)
"""


@pytest.mark.parametrize("name", ["t.db", "t.json"])
def test_a_full_disk_loses_nothing(name: str, tmp_path: Path) -> None:
    """The limit of a file's size stands for the disk: writing ends in the middle of a put."""
    path = tmp_path / name
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )
    assert done.returncode == 0, done.stderr
    count, said = done.stdout.splitlines()
    assert said.startswith(f"{path}: cannot be ")
    assert "and holds what it held before" in said
    with opens(str(path)) as db:
        kept = db.records()
        assert [r.when for r in kept] == [float(i // 3) for i in range(3 * int(count))]
        assert len(kept) > 3
        db.put(OTHER, [record(OTHER)])
        assert db.records(OTHER.key) == [record(OTHER)]


def test_a_database_that_stays_locked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_database, "_WAIT", 0.05)
    other = sqlite3.connect(path, isolation_level=None)
    with SQLDatabase(path) as db:
        other.execute("BEGIN IMMEDIATE")
        assert db.records() == [record()]  # readers do not wait
        said = message(DatabaseError, lambda: db.put(W))
        other.execute("ROLLBACK")
        db.put(W, [record()])
        assert len(db.records()) == 2
    other.close()
    assert said.startswith(f"{path}: another process has kept it busy for ")


def test_a_forked_child_has_its_own_connection(path: Path) -> None:
    with SQLDatabase(path) as db:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                db.put(OTHER, [record(OTHER)])
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert db.records() == [record(), record(OTHER)]


@pytest.mark.parametrize("package", ["sqlalchemy", "psycopg"])
def test_missing_packages(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def without(name: str) -> object:
        return None if name == package else find(name)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    url = "postgresql://me:secret@localhost/x"
    if package == "sqlalchemy":
        text = 'databases of records need SQLAlchemy: pip install "smelt[tune]"'
        assert refused(tmp_path / "t.db") == text
    else:
        assert refused(url) == (
            "postgresql+psycopg://me:***@localhost/x: PostgreSQL needs the driver psycopg: "
            'pip install "smelt[team]"'
        )


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    said = refused(f"postgresql://me:secret@/x?host={tmp_path}")
    assert said.startswith("postgresql+psycopg://me:***@/x?host=")
    assert "the server says: connection " in said
    assert "No such file or directory" in said
    assert "secret" not in said


def test_tables_of_another_version_on_a_server(postgres: str) -> None:
    SQLDatabase(postgres).close()
    plain = postgres.replace("+psycopg", "")
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute("UPDATE smelt_schema SET version = 3")
    assert refused(plain).endswith(
        ": version 3 of the tables; legal: 1; a newer smelt wrote it: update this one"
    )
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute("DROP TABLE smelt_schema, smelt_records, smelt_workloads")
        connection.execute("CREATE TABLE songs (title TEXT)")  # servers hold other things, too
    assert refused(plain, make=False).endswith(": there are no records yet")
    with SQLDatabase(plain) as db:
        db.put(W, [record()])
        assert db.records() == [record()]


def test_a_file_that_cannot_be_written_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "read only.db"
    proved = record(relative=0.5, confirmed=True)
    with SQLDatabase(path) as db:
        db.put(W, [proved])
    monkeypatch.setattr("smelt.search.sql_database.os.access", lambda *_: False)
    with SQLDatabase(path, make=False) as db:
        assert db.best(W.key, "m1") == proved
        assert "cannot be written" in message(DatabaseError, lambda: db.put(W, [proved]))
    log = path.with_name("read only.db-wal")
    log.write_bytes(b"x")
    text = f"{path}: cannot be read where it cannot be written, while {log.name} lies beside it"
    assert message(DatabaseError, lambda: SQLDatabase(path, make=False)).startswith(text)
