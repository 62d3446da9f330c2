"""Several processes at one database, and processes that are killed."""

from __future__ import annotations

import multiprocessing as mp
import random
import time
import warnings
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.search.samples import W, opens, record, writer

SPAWN = mp.get_context("forkserver")  # children of a process without threads and connections
SPAWN.set_forkserver_preload(["tests/search.samples"])
KILLS = 50
SERVER_KILLS = 10
"""A server's own processes are not killed: that is its makers' to test."""


@pytest.fixture(params=["sqlite", "json", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres"))
    return str(tmp_path / ("t.db" if request.param == "sqlite" else "t.json"))


@pytest.mark.parametrize("processes", [2, 4])
def test_processes_write_at_once(processes: int, where: str) -> None:
    """They make the database at once, too."""
    count = 40
    made = [SPAWN.Process(target=writer, args=(where, n * count, count)) for n in range(processes)]
    for p in made:
        p.start()
    for p in made:
        p.join(120)
    assert [p.exitcode for p in made] == [0] * processes
    with opens(where) as db:
        kept = [int(r.when) for r in db.records()]
        assert db.workloads() == [W]
    assert sorted(kept) == list(range(processes * count))
    for n in range(processes):  # what one process put stands in its order
        own = [i for i in kept if i // count == n]
        assert own == sorted(own)


def _rest(pipe: Connection) -> list[int]:
    """The messages that a dead process left."""
    found = []
    with pipe:
        try:
            while True:
                found.append(pipe.recv())
        except (EOFError, OSError):  # the end, or a message that was cut short
            return found


@pytest.mark.slow
def test_killed_writers_lose_nothing(where: str) -> None:
    """Each is killed at some moment: while it opens the database, writes, or between."""
    moments = random.Random(7)
    kills = SERVER_KILLS if "://" in where else KILLS
    reported: list[int] = []
    with warnings.catch_warnings(), opens(where) as db:
        warnings.simplefilter("ignore", RuntimeWarning)  # torn lines, which are mended
        for n in range(kills):
            near, far = SPAWN.Pipe(duplex=False)
            p = SPAWN.Process(target=writer, args=(where, n * 10**6, 10**6, far))
            p.start()
            far.close()
            if n % 5:
                reported.append(near.recv())
            time.sleep(moments.uniform(0, 0.05))
            p.kill()
            p.join(60)
            reported += _rest(near)
        kept = db.records()
        assert set(reported) <= {int(r.when) for r in kept}
        assert len(kept) == len({r.when for r in kept})
        for r in kept:  # nor is one of them half there
            assert r == record(when=r.when, features=(r.when / 3,) * 300)
        assert len(reported) > kills
        db.put(W, [record(when=-1.0)])
        assert db.records()[-1].when == -1.0
