"""The stores, and a PostgreSQL server of the tests' own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from smelt.search.database import Database, MemoryDatabase
from smelt.search.json_database import JSONDatabase
from smelt.search.sql_database import SQLDatabase

Make = Callable[[], Database]


def _programs() -> Path | None:
    """The folder of PostgreSQL's server programs: distributions keep them off the search path."""
    found = [Path(p).parent for p in [shutil.which("initdb")] if p]
    found += [p.parent for p in sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))]
    return found[-1] if found else None


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The folder of the socket of a running server, where the user postgres may do all."""
    programs = _programs()
    if programs is None:
        pytest.skip("needs PostgreSQL's server (initdb, postgres)")
    user = pwd.getpwuid(os.getuid()).pw_name
    if user == "root":  # the server refuses to run as root
        user = "postgres"
        if user not in {p.pw_name for p in pwd.getpwall()}:
            pytest.skip("needs a user postgres to run PostgreSQL's server as")
    folder = tempfile.mkdtemp(prefix="smelt-pg-")  # a socket's path may be 107 bytes long
    try:
        if user == "postgres":
            shutil.chown(folder, user)
        own: dict[str, Any] = {"cwd": "/", **({"user": user} if user == "postgres" else {})}
        setup = ["-D", f"{folder}/data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"]
        made = subprocess.run(
            [programs / "initdb", *setup, "--locale=C"], capture_output=True, text=True, **own
        )
        assert made.returncode == 0, made.stderr
        options = ["-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"]
        running = subprocess.Popen(
            [programs / "postgres", "-D", f"{folder}/data", *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **own,
        )
        try:
            _wait(folder, running)
            yield folder
        finally:
            running.send_signal(signal.SIGQUIT)  # at once: nothing of it is needed again
            running.wait(30)
    finally:
        shutil.rmtree(folder)


def _wait(folder: str, running: subprocess.Popen[bytes]) -> None:
    """Until the server answers."""
    while True:
        try:
            psycopg.connect(host=folder, user="postgres", dbname="postgres").close()
            return
        except psycopg.OperationalError:
            assert running.poll() is None, "the server ended"
            time.sleep(0.05)


_NUMBERS = count()


@pytest.fixture
def postgres(server: str) -> str:
    """The URL of an empty database of PostgreSQL."""
    name = f"tuning{next(_NUMBERS)}"
    with psycopg.connect(
        host=server, user="postgres", dbname="postgres", autocommit=True
    ) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return f"postgresql+psycopg://postgres@/{name}?host={server}"


@pytest.fixture(params=["memory", "sqlite", "json", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Opens a store: all but the one in memory are the same one each time."""
    match request.param:
        case "memory":
            return MemoryDatabase
        case "sqlite":
            return lambda: SQLDatabase(tmp_path / "t.db")
        case "json":
            return lambda: JSONDatabase(tmp_path / "w.json", tmp_path / "r.json")
    url = request.getfixturevalue("postgres")
    return lambda: SQLDatabase(url)


@pytest.fixture
def db(make: Make) -> Iterator[Database]:
    with make() as opened:
        yield opened
