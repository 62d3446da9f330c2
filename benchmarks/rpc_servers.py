"""Servers and trackers of RPC as processes, which are started and ended as often as one likes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from smelt.rpc import RPCSession, Security, connect
from smelt.runtime.compilers import find_compiler
from smelt.runtime.linking import export_server

SECRET = Security("only we know")
SANITIZERS = "-g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all"
PYTHON = (sys.executable, "-m", "smelt.exec.rpc_server")
TRACKER = (sys.executable, "-m", "smelt.exec.rpc_tracker")


def sanitized_server(path: Path) -> None:
    """Write smelt-server with gcc's or clang's sanitizers. Raises ExportError."""
    export_server(path, cc=[*find_compiler(), *SANITIZERS.split()])


class Process:
    """A server or a tracker.

    folder   where the folders of its sessions are, and what sanitizers say
    """

    def __init__(self, command: Sequence[str | Path], folder: Path, port: int = 0) -> None:
        """command: of the program; port: 0 for any."""
        self.folder = folder
        reports = f"log_path={folder / 'report'}:handle_segv=1:allocator_may_return_null=1"
        env = {**os.environ, "SMELT_RPC_TOKEN": SECRET.token, "TMPDIR": str(folder),
               "ASAN_OPTIONS": reports, "UBSAN_OPTIONS": reports}  # fmt: skip
        with open(folder / "said", "ab") as said:
            self.process = subprocess.Popen(
                [*command, f"--port={port}", "--silent"], env=env, stdout=subprocess.PIPE,
                stderr=said, text=True,
            )  # fmt: skip
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().rpartition(":")[2])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def connect(self) -> RPCSession:
        """A session of it."""
        return connect("127.0.0.1", self.port, security=SECRET)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it; gives its exit code."""
        self.process.send_signal(how)
        code = self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def troubles(self) -> list[str]:
        """What sanitizers have reported, and what it has complained of."""
        said = (self.folder / "said").read_text(errors="replace")
        reports = [p.read_text(errors="replace") for p in sorted(self.folder.glob("report.*"))]
        return [r[:3000] for r in [*reports, *([said] if "Traceback" in said else [])]]


def stat(pid: int | str) -> list[str]:
    """What Linux says of a process, from its state on (proc_pid_stat(5)); it is gone: nothing."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


Known = tuple[int, str]
"""A process: its number, and when it began, as numbers are used again."""


def children(pid: int, also_ended: bool = False) -> list[Known]:
    """The children of a process, in the order in which they began.

    also_ended  those, too, that wait for it to take note of their end
    """
    there = [(int(p.name), stat(p.name)) for p in Path("/proc").glob("[0-9]*")]
    mine = [(n, s[19]) for n, s in there
            if s and int(s[1]) == pid and (also_ended or s[0] != "Z")]  # fmt: skip
    return sorted(mine, key=lambda known: (int(known[1]), known[0]))


def is_there(process: Known) -> bool:
    """Whether a process runs."""
    found = stat(process[0])
    return bool(found) and found[0] != "Z" and found[19] == process[1]


def descendants(pid: int) -> list[Known]:
    """All processes that a process has started."""
    own = children(pid)
    return own + [known for n, _ in own for known in descendants(n)]
