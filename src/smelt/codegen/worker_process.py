"""One worker seen from its parent: starting it, talking to it, and how it ended."""

from __future__ import annotations

import os
import re
import select
import signal
import site
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fcntl import fcntl
from hashlib import blake2b
from pathlib import Path

from smelt.codegen.cache import make_private
from smelt.codegen.frames import HELLO, SETUP, frame, marker, pack, read_frame, write_all
from smelt.ir.folders import cache_folder

_PIPE = 1 << 20  # an object fits, so that a worker need not wait until its parent reads
_LISTEN_MS = 100  # how often its standard error is read amid a job
_TAIL = 1 << 16  # bytes kept of what a worker writes to its standard error
_LINES = 8  # of it in an error message
_CRASHES = 20  # saved jobs that are kept
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ of Linux
_ONE_THREAD = [f"{p}_NUM_THREADS" for p in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")]
_ONE_THREAD += ["VECLIB_MAXIMUM_THREADS"]
_ROOT = str(Path(__file__).resolve().parents[2])  # the folder that `import smelt` needs


class WorkerDied(Exception):
    """The pipe to a worker broke."""


@dataclass(frozen=True)
class Ending:
    """How a worker ended, whether it had begun a job, and what it said during that."""

    code: int
    began: bool
    said: str

    @property
    def killed(self) -> bool:
        """Whether somebody else ended it, as the system does where memory runs out."""
        return self.code == -signal.SIGKILL

    @property
    def how(self) -> str:
        """`died of SIGABRT` or `ended with exit code 3`."""
        if self.code >= 0:
            return f"ended with exit code {self.code}"
        try:
            return f"died of {signal.Signals(-self.code).name}"
        except ValueError:
            return f"died of signal {-self.code}"

    @property
    def last_words(self) -> str:
        """The first lines of what it said, indented, without Python's and LLVM's stacks."""
        text = re.split(r"(?m)^(?:Fatal Python error|PLEASE submit|Stack dump)", self.said)[0]
        lines = [line for line in text.splitlines() if line.strip()]
        more = ["  ..."] if len(lines) > _LINES else []
        return "\n".join(["", *(f"  {line[:200]}" for line in lines[:_LINES]), *more])


def _environment(threads: int) -> dict[str, str]:
    environment = dict(os.environ) | dict.fromkeys(_ONE_THREAD, "1")
    environment["SMELT_NUM_THREADS"] = str(threads)
    environment.pop("PYTHONINSPECT", None)
    if _ROOT not in {*site.getsitepackages(), site.getusersitepackages()}:
        # Not for an installed smelt: its neighbours would come before Python's own modules.
        old = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = f"{_ROOT}{os.pathsep}{old}" if old else _ROOT
    return environment


class WorkerProcess:
    """A running `python -m smelt.codegen.worker`. For one thread at a time."""

    def __init__(self, threads: int = 1) -> None:
        """Start it; raises OSError where the system has no room for another process.

        threads  that smelt's kernels may use there
        """
        if not sys.executable:
            raise OSError("sys.executable names no Python interpreter")
        # -P: the folder that the user happens to stand in is no place to import modules from.
        # A group of its own: Ctrl-C in the terminal reaches the parent only.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "smelt.codegen.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=_environment(threads),
            process_group=0,
        )
        self._pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._in, self._out, self._err = (pipe.fileno() for pipe in self._pipes if pipe)
        for pipe in (self._in, self._out, self._err):
            with suppress(OSError):  # the user's share of large pipes may be used up
                fcntl(pipe, _SET_PIPE_SIZE, _PIPE)
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)
        os.set_blocking(self._err, False)
        self._said = b""
        self._imports = 0
        self.ready = False  # it has said hello
        self.send(SETUP, pack(([p for p in sys.path if p], [])))

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def warm(self, modules: Sequence[str]) -> None:
        """Let it import those of the modules that are new to it before the next job."""
        if len(modules) > self._imports:
            self.send(SETUP, pack(([], modules[self._imports :])))
            self._imports = len(modules)

    def send(self, number: int, payload: bytes) -> None:
        """Send a request. That a worker is dead is for `receive` to say, after its answers."""
        with suppress(OSError):
            write_all(self._in, frame(number, payload))

    def receive(self, seconds: float = float("inf")) -> bytes:
        """The next answer, in the order of the requests; waits for it, at most so long.

        Raises WorkerDied, and TimeoutError where the worker is still at it.
        """
        end = time.monotonic() + seconds
        while True:
            while not self._poll.poll(_LISTEN_MS):
                self._listen()
                if time.monotonic() > end:
                    raise TimeoutError(f"no answer after {seconds:g} s")
            try:
                number, answer = read_frame(self._out)
            except (OSError, EOFError):
                raise WorkerDied from None
            if number != HELLO:
                return answer
            self.ready = True

    def _listen(self) -> None:
        """Keep the end of what it has said."""
        with suppress(OSError):  # nothing for now
            while data := os.read(self._err, _PIPE):
                self._said = (self._said + data)[-_TAIL:]

    def kill(self) -> None:
        """End it at once; may be called by any thread. `bury` follows."""
        with suppress(OSError):
            self._process.kill()

    def bury(self, number: int = 0) -> Ending:
        """Wait for its end and close the pipes; what it said since it began request `number`."""
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._listen()
        self._close()
        _, found, said = self._said.rpartition(marker(number))
        began = bool(found) or len(self._said) == _TAIL  # so much was said that the mark is lost
        text = re.sub(rb"\x1e\d+\x1e", b"", said).decode(errors="replace")
        return Ending(code, began, text)

    def forget(self) -> None:
        """In a forked child: let go of the parent's worker."""
        self._close()
        self._process.returncode = 0  # it is not ours to wait for

    def _close(self) -> None:
        for pipe in self._pipes:
            if pipe is not None:
                pipe.close()


def save_crash(folder: Path | None, name: str, payload: bytes, said: str) -> Path | None:
    """Write a job that ended its worker to a file, and what was said beside it; none where
    nothing can be written. A folder that is not given is `crashes` in the cache's."""
    stem = re.sub(r"[^\w.-]+", "_", name)[:80] or "job"
    file = f"{stem}-{blake2b(payload, digest_size=4).hexdigest()}.job"
    home = cache_folder()
    for at in (folder or (home and home / "crashes"), None):
        try:
            place = at or Path(tempfile.mkdtemp(prefix="smelt-crash-"))
            make_private(str(place), 2)
            (place / file).write_bytes(payload)
            (place / file).with_suffix(".log").write_text(said, encoding="utf-8")
        except OSError:
            continue
        _keep_newest(place)
        return place / file
    return None


def _keep_newest(folder: Path) -> None:
    with suppress(OSError):
        jobs = sorted(folder.glob("*.job"), key=lambda p: p.stat().st_mtime)
        for old in jobs[:-_CRASHES]:
            old.unlink(missing_ok=True)
            old.with_suffix(".log").unlink(missing_ok=True)
