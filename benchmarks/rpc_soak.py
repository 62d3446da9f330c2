"""Programs that use servers of RPC while these are killed and started again: what hangs, what is
wrong, what is left behind."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.rpc_servers import SECRET, TRACKER, Process, children, descendants, is_there, stat
from smelt.contrib.graph_executor import GraphModule
from smelt.rpc import RPCError, RPCSession, connect, connect_tracker
from smelt.runtime import load

PATIENCE = 30.0
"""Seconds after which something hangs."""
_CALLS = 60  # of a session, at most


@dataclass
class Soaked:
    """What was done, and what came of it.

    lost       sessions that ended with their server
    hangs      answers that have not come after PATIENCE
    wrong      results that are others than here
    processes  that were there after their server
    folders    of sessions, the same
    files      open in an idle server more than when it began
    """

    calls: int = 0
    sessions: int = 0
    kills: int = 0
    lost: int = 0
    hangs: int = 0
    wrong: int = 0
    processes: int = 0
    folders: int = 0
    files: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, **more: int) -> None:
        """Count something."""
        with self.lock:
            for name, n in more.items():
                setattr(self, name, getattr(self, name) + n)


class Killed:
    """A server that is killed and started again, at the same port."""

    def __init__(self, command: Sequence[str | Path], folder: Path) -> None:
        """command: of the program."""
        self.command, self.folder = command, folder
        folder.mkdir()
        self.process = Process(command, folder)
        self.below: list[tuple[int, str]] = []

    def kill(self, how: signal.Signals, pause: float, found: Soaked) -> None:
        """End it, and start it again after some seconds."""
        self.below += descendants(self.process.process.pid)
        self.process.end(how)
        found.add(kills=1)
        time.sleep(pause)
        self.process = Process(self.command, self.folder, self.process.port)

    def end(self, found: Soaked) -> None:
        """Look what an idle server has open, end it, and look what is left."""
        pid = self.process.process.pid
        if not any("--tracker" in str(word) for word in self.command):
            before = self._files(pid)
            for _ in range(20):
                with self.process.connect() as session:
                    session.listdir()
            _until(lambda: self._files(pid) <= before)
            found.add(files=max(0, self._files(pid) - before))
        self.below += descendants(pid)
        self.process.end()
        _until(lambda: not any(map(is_there, self.below)) and not self._folders())
        found.add(processes=sum(map(is_there, self.below)), folders=len(self._folders()))

    def _files(self, pid: int) -> int:
        """How many files and processes an idle server has open."""
        _until(lambda: not any(stat(n)[:1] == ["Z"] for n, _ in children(pid, also_ended=True)))
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))

    def _folders(self) -> list[Path]:
        return list(self.folder.glob("smelt-rpc-*"))


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 2 * PATIENCE
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)


def _use(session: RPCSession, library: Path, rng: np.random.Generator, found: Soaked) -> None:
    """Calls of a library there and here."""
    session.wait(PATIENCE)
    session.upload(library)
    here, there = load(library), session.load_module(library.name)
    module = GraphModule(there["default"](session.cpu(0)))
    shape = tuple([int(d) for d in here.inputs[0].shape])
    for _ in range(int(rng.integers(1, _CALLS))):
        x = rng.standard_normal(shape).astype("float32")
        if rng.random() < 0.5:
            y = there(x).numpy()
        else:
            module.run(**{here.inputs[0].name: x})
            y = module.get_output(0).numpy()
        found.add(calls=1, wrong=int(not np.array_equal(y, here(x).numpy())))


def _client(
    opened: Callable[[], RPCSession], library: Path, seed: int, ended: threading.Event,
    found: Soaked,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    while not ended.is_set():
        try:
            with opened() as session:
                found.add(sessions=1)
                _use(session, library, rng, found)
        except RPCError as e:
            found.add(lost=1, hangs=int("does not answer" in str(e)))
            time.sleep(0.05)


def soak(
    kinds: Sequence[Sequence[str | Path]], folder: Path, library: Path, seconds: float,
    clients: int, seed: int, pauses: tuple[float, float] = (0.5, 2.0),
) -> Soaked:  # fmt: skip
    """Clients in threads, half of them by a tracker, while servers are killed.

    kinds   the commands of servers: two of each are started, one of which belongs to the tracker
    pauses  seconds between two kills, from and to
    """
    found, ended, rng = Soaked(), threading.Event(), random.Random(seed)
    (folder / "tracker").mkdir()
    with Process(TRACKER, folder / "tracker") as tracker:
        place = f"--tracker=127.0.0.1:{tracker.port}"
        free = [Killed(k, folder / f"free{n}") for n, k in enumerate(kinds)]
        given = [Killed([*k, place, "--key=board"], folder / f"given{n}")
                 for n, k in enumerate(kinds)]  # fmt: skip

        def opened(number: int) -> RPCSession:
            if number % 2:
                asked = connect_tracker("127.0.0.1", tracker.port, security=SECRET)
                try:
                    return asked.request("board", max_retry=1)
                finally:
                    asked.close()
            port = free[number // 2 % len(free)].process.port
            return connect("127.0.0.1", port, security=SECRET)

        threads = [
            threading.Thread(
                target=_client, args=(lambda n=n: opened(n), library, seed + n, ended, found)
            )
            for n in range(clients)
        ]
        for t in threads:
            t.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(rng.uniform(*pauses))
            how = rng.choice([signal.SIGKILL, signal.SIGTERM])
            rng.choice([*free, *given]).kill(how, rng.uniform(0, 0.3), found)
        ended.set()
        for t in threads:
            t.join(2 * PATIENCE)
            found.add(hangs=int(t.is_alive()))
        for server in (*free, *given):
            with suppress(OSError):
                server.end(found)
    return found
