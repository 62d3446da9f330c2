"""The store that a path or a URL means."""

from __future__ import annotations

import os
from pathlib import Path

from smelt.ir.errors import DatabaseError
from smelt.search.database import Database, MemoryDatabase
from smelt.search.json_database import JSONDatabase
from smelt.search.sql_database import SQLDatabase

_SQLITE = (".db", ".sqlite", ".sqlite3")
_LEGAL = (
    "a file of SQLite (NAME.db, NAME.sqlite), of JSON (NAME.json), a folder with "
    "database_workload.json and database_tuning_record.json, a URL (postgresql://...), :memory:"
)


def open_database(where: str | os.PathLike[str] | Database, make: bool = True) -> Database:
    """The database that a path or a URL means; one that is open already is given back.

    where  NAME.db or NAME.sqlite: a file of SQLite; NAME.json: a file of records as JSON, with
           NAME.workloads.json beside it; a folder: the classic pair of files in it; a URL; or
           ":memory:"
    make   make it if it is missing; False: that is an error
    Errors DatabaseError
    """
    if isinstance(where, Database):
        return where
    if not isinstance(where, str | os.PathLike):
        raise DatabaseError(f"{where!r} is no database; legal: {_LEGAL}")
    text = os.fspath(where)
    if text == ":memory:":
        return MemoryDatabase()
    path = Path(text)
    if "://" in text or path.suffix in _SQLITE:
        return SQLDatabase(text, make)
    if path.is_dir():
        pair = path / "database_workload.json", path / "database_tuning_record.json"
    elif path.suffix == ".json":
        pair = path.with_suffix(".workloads.json"), path
    else:
        raise DatabaseError(f"{text}: no kind of database; legal: {_LEGAL}")
    if not make and (missing := [p for p in pair if not p.exists()]):
        raise DatabaseError(f"{missing[0]}: no such file")
    return JSONDatabase(*pair)
