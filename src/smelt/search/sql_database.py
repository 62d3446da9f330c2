"""Records in an SQL database: a file of SQLite, or a PostgreSQL server that a team shares.

One put is one transaction. SQLite writes a log beside the file (WAL): readers do not wait for a
writer, and a process that is killed leaves whole transactions only. `synchronous` is FULL: the log
is on the disk when `put` returns, so that a power cut takes nothing that was reported either.
NORMAL would do for killed processes alone, since what was written is the system's by then; but a
record costs seconds of measuring and the wait for the disk milliseconds.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.parse import quote

from smelt.ir.errors import DatabaseError
from smelt.search.database import Database, survivors
from smelt.search.record import REFUTED, Record, Workload
from smelt.search.record_text import MAX_LINE, checked, parse, record_from, workload_from

VERSION = 1
"""Of the tables below; it stands in a table of its own."""
_MARK = 0x534D4C54
"""SQLite's application id of our files: the letters SMLT."""
_LOCK = 0x736D656C
"""PostgreSQL's advisory lock while the tables are made."""
_WAIT = 60.0
"""Seconds that one process waits for another one's transaction."""
_CHUNK = 500
"""Rows that one statement deletes."""

_INSTALL = {
    "sqlalchemy": 'databases of records need SQLAlchemy: pip install "smelt[tune]"',
    "psycopg": 'PostgreSQL needs the driver psycopg: pip install "smelt[team]"',
}
_LEGAL = "the path of a file, sqlite:///FILE or postgresql://USER@HOST/DATABASE"


class SQLDatabase(Database):
    """Records in a file of SQLite, which is made if it is missing, or on a PostgreSQL server.

    where  the file's path, or a URL: `sqlite:///FILE`, `postgresql://USER:PASSWORD@HOST/DATABASE`
    make   False: a file, or tables, that are not there are an error
    """

    def __init__(self, where: str | os.PathLike[str], make: bool = True) -> None:
        self._sa = _sqlalchemy()
        self._url = _url(self._sa, where)
        self._lite = self._url.get_backend_name() == "sqlite"
        shown = self._url.render_as_string(hide_password=True)
        self.where: str = self._url.database if self._lite else shown
        if self._lite:
            _check_path(self.where, make)
            if not make and not _writable(Path(self.where)):
                self._url = _only_read(self._sa, Path(self.where))
        elif importlib.util.find_spec("psycopg") is None:
            raise DatabaseError(f"{self.where}: {_INSTALL['psycopg']}")
        self._workloads, self._records, self._version = _tables(self._sa, self._lite)
        self._engine = _engine(self._sa, self._url, self._lite)
        self._process = os.getpid()
        try:
            self._prepare(make)
        except BaseException:
            self.close()
            raise

    def put(self, workload: Workload, records: Sequence[Record] = ()) -> None:
        """Add records of one program in one transaction."""
        workload, records = checked(workload, records)
        insert = importlib.import_module(f"sqlalchemy.dialects.{self._engine.name}").insert
        row = {
            "key": workload.key,
            "name": workload.name,
            "program": workload.program,
            "constants": "".join("c" if c else "v" for c in workload.constants),
        }
        with self._transaction(write=True) as connection:
            connection.execute(insert(self._workloads).values(row).on_conflict_do_nothing())
            if records:
                connection.execute(self._records.insert(), [_row(r) for r in records])

    def workloads(self) -> list[Workload]:
        """The programs, oldest first."""
        t = self._workloads
        return [self._workload(row) for row in self._read(t.select().order_by(t.c.id))]

    def workload(self, key: str) -> Workload | None:
        """The program with a key."""
        t = self._workloads
        found = self._read(t.select().where(t.c.key == key))
        return self._workload(found[0]) if found else None

    def records(self, workload: str | None = None, machine: str | None = None) -> list[Record]:
        """The records, oldest first: those of a program, of a machine, or of both."""
        t = self._records
        return [self._record(row) for row in self._read(self._of(workload, machine, t.c.id))]

    def best(self, workload: str, machine: str, confirmed: bool = True) -> Record | None:
        """The best record of a program on a machine, found by the database itself."""
        t = self._records
        order = (t.c.relative, t.c.time, t.c.id) if confirmed else (t.c.time, t.c.id)
        query = self._of(workload, machine, *order).where(t.c.time.is_not(None)).limit(1)
        if confirmed:
            taken_back = self._sa.select(t.c.decision).where(
                t.c.workload == workload, t.c.machine == machine, t.c.source == REFUTED
            )
            query = query.where(t.c.confirmed == 1, t.c.relative.is_not(None))
            query = query.where(t.c.decision.not_in(taken_back))
        found = self._read(query)
        return self._record(found[0]) if found else None

    def prune(self, keep: int) -> int:
        """Keep the `keep` fastest records of each program and machine, and all confirmed ones."""
        t = self._records
        columns = (t.c.id, t.c.workload, t.c.machine, t.c.confirmed, t.c.source, t.c.time)
        with self._transaction(write=True) as connection:
            rows = connection.execute(self._sa.select(*columns).order_by(t.c.id)).all()
            times = [math.inf if r.time is None else r.time for r in rows]
            measured = [
                (r.workload, r.machine, r.confirmed == 1 or r.source == REFUTED, time)
                for r, time in zip(rows, times, strict=True)
            ]
            stay = survivors(measured, keep)
            gone = [r.id for r, s in zip(rows, stay, strict=True) if not s]
            for i in range(0, len(gone), _CHUNK):
                connection.execute(t.delete().where(t.c.id.in_(gone[i : i + _CHUNK])))
        return len(gone)

    def close(self) -> None:
        """Close the connections; the next call opens them again."""
        self._engine.dispose()

    def _of(self, workload: str | None, machine: str | None, *order: Any) -> Any:
        """The query for records of a program, of a machine, or of both."""
        t = self._records
        query = t.select().order_by(*order)
        if workload is not None:
            query = query.where(t.c.workload == workload)
        return query if machine is None else query.where(t.c.machine == machine)

    def _read(self, query: Any) -> list[Any]:
        with self._transaction() as connection:
            return list(connection.execute(query).all())

    @contextmanager
    def _transaction(self, write: bool = False) -> Iterator[Any]:
        """A connection in a transaction; whatever the database says becomes a DatabaseError."""
        if os.getpid() != self._process:  # a child must not talk on its parent's connections
            self._engine.dispose(close=False)
            self._process = os.getpid()
        try:
            with self._engine.connect() as connection:
                connection.execution_options(smelt_write=write).begin()
                yield connection
                connection.commit()
        except self._sa.exc.SQLAlchemyError as error:
            raise DatabaseError(f"{self.where}: {self._reason(error)}") from error

    def _reason(self, error: Exception) -> str:
        """What went wrong, for people, and what that means."""
        said = str(getattr(error, "orig", None) or error).strip().split("\n")[0]
        if not self._lite:
            return f"the server says: {said}"
        for words, meaning in _SQLITE_SAYS:
            if words in said:
                return f"{meaning} ({said})"
        return said

    def _prepare(self, make: bool) -> None:
        """See that the tables are there and are ours; make them where there are none at all."""
        with self._transaction() as connection:
            if self._is_ours(connection):
                return
        if not make:
            raise DatabaseError(f"{self.where}: there are no records yet")
        if self._lite:
            self._log_ahead()
        with self._transaction(write=True) as connection:
            if not self._lite:
                connection.execute(self._sa.text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
            if self._is_ours(connection):  # another process was faster
                return
            self._records.metadata.create_all(connection)
            connection.execute(self._version.insert().values(version=VERSION))
            if self._lite:
                connection.execute(self._sa.text(f"PRAGMA application_id = {_MARK}"))

    def _is_ours(self, connection: Any) -> bool:
        """Whether our tables are there, in the version that is known; False: none are."""
        names = set(self._sa.inspect(connection).get_table_names())
        if self._version.name not in names:
            if self._lite and names:
                shown = ", ".join(sorted(names)[:5])
                raise DatabaseError(
                    f"{self.where}: an SQLite database of something else (tables: {shown}), "
                    "not one of tuning records"
                )
            return False
        found = [row[0] for row in connection.execute(self._version.select()).all()]
        if found != [VERSION]:
            shown = ", ".join(map(repr, found)) or "none"
            newer = any(isinstance(v, int) and v > VERSION for v in found)
            advice = "a newer smelt wrote it: update this one" if newer else "it is damaged"
            raise DatabaseError(
                f"{self.where}: version {shown} of the tables; legal: {VERSION}; {advice}"
            )
        return True

    def _log_ahead(self) -> None:
        """Let a new file have its log beside it: a property of the file from then on.

        While another process does the same, SQLite refuses at once instead of waiting.
        """
        until = monotonic() + _WAIT
        while True:
            connection = self._engine.raw_connection()
            try:
                connection.cursor().execute("PRAGMA auto_vacuum = FULL")
                connection.cursor().execute("PRAGMA journal_mode = WAL")
                return
            except connection.dbapi_connection.OperationalError as error:
                if "locked" not in str(error) or monotonic() > until:
                    raise DatabaseError(f"{self.where}: {self._reason(error)}") from error
                sleep(0.01)
            finally:
                connection.close()

    def _workload(self, row: Any) -> Workload:
        """What a row says, checked."""
        where = f"{self.where}: workload {row.id}"
        got = dict(row._mapping)
        del got["id"]
        marks = got["constants"]
        if not isinstance(marks, str) or set(marks) - {"c", "v"}:
            raise DatabaseError(f"{where}: constants is {marks!r}; legal: a text of c and v")
        return workload_from({**got, "constants": [m == "c" for m in marks]}, where)

    def _record(self, row: Any) -> Record:
        """What a row says, checked."""
        where = f"{self.where}: record {row.id}"
        got = dict(row._mapping)
        del got["id"], got["time"]
        for name in ("seconds", "features"):
            if not isinstance(got[name], str):
                raise DatabaseError(f"{where}: {name} is {got[name]!r:.60}; legal: a list in JSON")
            got[name] = parse(got[name], f"{where}: {name}")
        if got["confirmed"] in (0, 1):
            got["confirmed"] = bool(got["confirmed"])
        return record_from(got, where)


_SQLITE_SAYS = (
    ("not a database", "not an SQLite database, or a damaged one"),
    ("malformed", "the database is damaged"),
    ("is full", "cannot be written, and holds what it held before"),
    ("disk I/O error", "cannot be read or written, and holds what it held before"),
    ("readonly", "cannot be written: no permission for the file or its folder"),
    ("unable to open", "cannot be opened: no permission for the file or its folder"),
    ("locked", f"another process has kept it busy for {_WAIT:.0f} s"),
)
"""Words of SQLite's errors, and what they mean."""


def _row(record: Record) -> dict[str, Any]:
    """A record as a row: numbers in columns, lists as JSON."""
    return {
        **vars(record),
        "seconds": json.dumps(record.seconds),
        "features": json.dumps(record.features),
        "confirmed": int(record.confirmed),
        "error": int(record.error),
        "time": record.time if record.time < math.inf else None,
    }


def _sqlalchemy() -> Any:
    """The optional package."""
    if importlib.util.find_spec("sqlalchemy") is None:
        raise DatabaseError(_INSTALL["sqlalchemy"])
    import sqlalchemy  # noqa: PLC0415

    return sqlalchemy


def _url(sa: Any, where: str | os.PathLike[str]) -> Any:
    """The URL that a path or a URL means; DatabaseError for other databases."""
    if not isinstance(where, str | os.PathLike):
        raise DatabaseError(f"{where!r} names no database; legal: {_LEGAL}")
    text = os.fspath(where)
    if "://" not in text:
        return sa.URL.create("sqlite", database=text)
    try:
        url = sa.make_url(text)
        kind = url.get_backend_name()
    except (sa.exc.SQLAlchemyError, ValueError) as error:
        raise DatabaseError(f"not the URL of a database; legal: {_LEGAL}") from error
    if kind == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if kind != "sqlite" or not url.database or url.database == ":memory:":
        shown = text if kind == "sqlite" else url.render_as_string(hide_password=True)
        raise DatabaseError(f"{shown}: cannot hold records; legal: {_LEGAL}")
    return url


def _check_path(name: str, make: bool) -> None:
    """What SQLite says no more of than that it cannot open the file."""
    path = Path(name)
    if path.is_dir():
        raise DatabaseError(f"{path}: is a folder, not a database; give a file, {path}/records.db")
    if not path.parent.is_dir():
        raise DatabaseError(f"{path}: the folder {path.parent} does not exist")
    if not make and not path.exists():
        raise DatabaseError(f"{path}: no such file")


def _writable(path: Path) -> bool:
    """Whether SQLite can read a file as usual: for that it writes an index of its log beside it."""
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def _only_read(sa: Any, path: Path) -> Any:
    """The URL of a file that nobody changes. Raises DatabaseError where a log lies beside it."""
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        raise DatabaseError(
            f"{path}: cannot be read where it cannot be written, while {log.name} lies beside it; "
            "let a process that may write open it once"
        )
    query = {"mode": "ro", "immutable": "1", "uri": "true"}
    return sa.URL.create("sqlite", database=f"file:{quote(str(path.resolve()))}", query=query)


def _tables(sa: Any, lite: bool) -> tuple[Any, Any, Any]:
    """Workloads, records, and the version of both."""
    tables = sa.MetaData()
    number = sa.Integer if lite else sa.BigInteger  # what counts itself up

    def text(name: str) -> Any:
        return sa.Column(name, sa.Text, nullable=False)

    def real(name: str, nullable: bool = False) -> Any:
        return sa.Column(name, sa.Double, nullable=nullable)

    def whole(name: str) -> Any:
        return sa.Column(name, sa.Integer, nullable=False)

    workloads = sa.Table(
        "smelt_workloads", tables,
        sa.Column("id", number, primary_key=True),
        sa.Column("key", sa.Text, nullable=False, unique=True),
        text("name"), text("program"), text("constants"),
        sqlite_autoincrement=True,
    )  # fmt: skip
    records = sa.Table(
        "smelt_records", tables,
        sa.Column("id", number, primary_key=True),
        text("workload"), text("machine"), text("target"), text("trace"), text("body"),
        text("decision"), text("source"), text("seconds"), real("time", nullable=True),
        real("relative", nullable=True), whole("confirmed"), real("predicted"), text("features"),
        whole("error"), text("message"), text("version"), real("when"),
        sa.Index("smelt_records_place", "workload", "machine"),
        sqlite_autoincrement=True,
    )  # fmt: skip
    return workloads, records, sa.Table("smelt_schema", tables, whole("version"))


def _engine(sa: Any, url: Any, lite: bool) -> Any:
    """What opens connections; transactions of SQLite begin as it is told, not as it guesses."""
    if not lite:
        return sa.create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": 10})
    engine = sa.create_engine(url, connect_args={"timeout": _WAIT, "isolation_level": None})
    sa.event.listen(engine, "connect", _connected)
    sa.event.listen(engine, "begin", _begins)
    return engine


def _connected(connection: Any, _: object) -> None:
    connection.cursor().execute("PRAGMA synchronous = FULL")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_LINE)  # what is read is untrusted


def _begins(connection: Any) -> None:
    # A transaction that reads first and writes later could not wait for another writer.
    write = connection.get_execution_options().get("smelt_write")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
