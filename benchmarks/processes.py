"""Workers: a benchmark runs in a process of its own, pinned to as many cores as it may use."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parent.parent
MARK = "@@"


def worker(module: str, *arguments: str, threads: int, env: dict[str, str] | None = None) -> Any:
    """Run `python -m MODULE worker ARGUMENTS` on the first `threads` cores; what it gave back.

    A worker that fails gives {"error": its last line}.
    """
    command = [sys.executable, "-m", module, "worker", *arguments]
    settings = _settings(threads) | (env or {})
    with pinned(threads):
        done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            return json.loads(line.removeprefix(MARK))
    return {"error": _last_line(done.stderr) or f"exit code {done.returncode}"}


@contextlib.contextmanager
def pinned(cores: int) -> Iterator[None]:
    """Processes that are started meanwhile stay on the first so many cores."""
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(mine)[:cores])  # a child inherits it
    try:
        yield
    finally:
        os.sched_setaffinity(0, mine)


BUSY = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    sum(range(1_000_000))
"""
"""A program that computes until its parent, whose id it is given, ends, killed or not."""


@contextlib.contextmanager
def busy_core(cores: int) -> Iterator[int]:
    """A process that computes all the time somewhere on the first so many cores; gives its id."""
    with pinned(cores):
        process = subprocess.Popen([sys.executable, "-c", BUSY, str(os.getpid())])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def _settings(threads: int) -> dict[str, str]:
    """The environment of a process that uses so many threads."""
    count = str(threads)
    return os.environ | {"SMELT_NUM_THREADS": count, "OMP_NUM_THREADS": count}


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1][:300]


class Failed(RuntimeError):
    """A worker could not do what it was asked for; the message says why."""


class Talk:
    """A worker that stays: it answers one question after another, over pipes."""

    def __init__(
        self, command: Sequence[str], threads: int, env: dict[str, str], cores: int
    ) -> None:
        """Start `command` with so many threads on the first `cores`; `env` is added to ours."""
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed with the worker)
        with pinned(cores):
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=_settings(threads) | env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
            )
        self.pid = self._process.pid

    def ask(self, question: object) -> Any:
        """The answer to a question. Raises Failed where the worker says why not, or ends."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: there is no answer to read
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith(MARK):
                answer = json.loads(line.removeprefix(MARK))
                if isinstance(answer, dict) and "error" in answer:
                    raise Failed(answer["error"])
                return answer
        code = self._process.wait()
        self._errors.seek(0)
        raise Failed(_last_line(self._errors.read()) or f"exit code {code}")

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Without questions to read, a worker ends."""
        self._process.communicate()
        self._errors.close()


def questions() -> Iterator[Any]:
    """What the other side of a `Talk` asks, one after another; `give_back` answers."""
    return (json.loads(line) for line in sys.stdin)


def give_back(value: object) -> None:
    """Hand a result to the process that started this worker."""
    print(MARK + json.dumps(value), flush=True)


class Foreign:
    """The CPU time that other processes took, in cores, since this was made."""

    def __init__(self, workers: Collection[int] = ()) -> None:
        """Start to count. The processes of these ids are no others, nor is this one."""
        self._workers = tuple(workers)
        self._start = self._now()

    def cores(self) -> float:
        """Cores kept busy by others, on average."""
        busy, own, now = (b - a for a, b in zip(self._start, self._now(), strict=True))
        return max(0.0, (busy - own) / now)

    def _now(self) -> tuple[float, float, float]:
        path = Path("/proc/stat")
        if not path.exists():
            return 0.0, 0.0, time.perf_counter()
        ticks = [int(field) for field in path.read_text().splitlines()[0].split()[1:]]
        # user, nice, system, (idle, waiting,) interrupts, soft interrupts, stolen
        second = os.sysconf("SC_CLK_TCK")
        busy = sum(ticks[:3] + ticks[5:8]) / second
        own = os.times()
        workers = sum(cpu_ticks(worker) for worker in self._workers) / second
        return busy, own.user + own.system + workers, time.perf_counter()


def cpu_ticks(process: int) -> int:
    """The CPU time of a process so far, in the kernel's ticks; none of one that has ended."""
    path = Path(f"/proc/{process}/stat")
    # Behind the name, which may contain anything: state, ten fields, user, system.
    fields = path.read_text().rpartition(")")[2].split() if path.exists() else ["0"] * 13
    return int(fields[11]) + int(fields[12])
