"""Servers of both kinds for tests: in Python in this process, in C as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.rpc_servers import SECRET, Known, children, stat
from smelt.rpc import RPCSession, Server, connect


def until(condition: Callable[[], Any], seconds: float = 15.0) -> None:
    """Wait for something."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


class Served(ABC):
    """A server, and what can be seen of it from outside.

    kind    what it says of itself: "Python" or "C"
    folder  where the folders of its sessions are
    """

    kind: str
    folder: Path
    port: int

    @abstractmethod
    def workers(self) -> list[Known]:
        """The processes in which libraries run."""

    @abstractmethod
    def connections(self) -> int:
        """How many are connected with it."""

    @abstractmethod
    def terminate(self) -> None:
        """End it, in whatever state it is."""

    def connect(self, **more: Any) -> RPCSession:
        """A session of it."""
        return connect("127.0.0.1", self.port, security=SECRET, **more)

    def folders(self) -> list[Path]:
        """The folders of its sessions."""
        return list(self.folder.glob("smelt-rpc-*"))


class ServedByPython(Served):
    """Server, in this process."""

    kind = "Python"

    def __init__(self, folder: Path, key: str = "", tracker: int | None = None) -> None:
        place = None if tracker is None else ("127.0.0.1", tracker)
        self.folder = folder
        self.server = Server(port=0, security=SECRET, key=key, tracker_addr=place)
        self.port = self.server.port

    def workers(self) -> list[Known]:
        """The processes in which libraries run."""
        found = [s.process._process for s in list(self.server._sessions)]
        return [(p.pid, stat(p.pid)[19]) for p in found if p is not None]

    def connections(self) -> int:
        """How many are connected with it."""
        return len(self.server._acceptor.links)

    def terminate(self) -> None:
        """End it."""
        self.server.terminate()


class ServedByC(Served):
    """smelt-server."""

    kind = "C"

    def __init__(
        self, program: Path, folder: Path, key: str = "", tracker: int | None = None,
        **environment: str,
    ) -> None:  # fmt: skip
        command = [str(program), "--port=0", "--silent"]
        if tracker is not None:
            command += [f"--tracker=127.0.0.1:{tracker}", f"--key={key}"]
        env = {**os.environ, "SMELT_RPC_TOKEN": SECRET.token, "TMPDIR": str(folder), **environment}
        self.folder, self.has_tracker = folder, tracker is not None
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().rpartition(":")[2])

    def _own(self) -> list[Known]:
        """The processes of its connections; that of the tracker began before them."""
        return children(self.process.pid)[self.has_tracker :]

    def workers(self) -> list[Known]:
        """The processes in which libraries run."""
        return [worker for n, _ in self._own() for worker in children(n)]

    def connections(self) -> int:
        """How many are connected with it."""
        return len(self._own())

    def terminate(self) -> None:
        """End it; it has to take its children along."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(15) == 0
            self.process.communicate()
