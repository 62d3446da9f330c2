"""Cases run in worker processes: a crash or a hang is the failure of one case."""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Result", "Worker", "run"]

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 300.0  # in which a worker has to make the suite's data
CASE_SECONDS = 180.0


@dataclass(frozen=True)
class Result:
    """How a case ended; `error` is None where it passed. `seconds` of processor time.

    python  what of it Python runs
    """

    name: str
    error: str | None
    seconds: float = 0.0
    python: tuple[str, ...] = ()


class WorkerLost(Exception):
    """The process behind a worker ended, or never answered."""


class Worker:
    """One process with the suite's cases, and a child of it that runs them one by one."""

    def __init__(self) -> None:
        paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.conformance.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p)},
        )
        self._text = b""
        self._number = 0
        self.names: list[str] = self._answer(START_SECONDS)["names"]
        self._child: int = self._answer(START_SECONDS)["pid"]

    def run(self, name: str, seconds: float = CASE_SECONDS) -> Result:
        """Run a case; longer than `seconds` is a failure."""
        assert self._process.stdin is not None
        self._number += 1
        self._process.stdin.write(f"{self._number} {name}\n".encode())
        late = None
        try:
            answer = self._ending(seconds)
        except TimeoutError:
            late = f"no result after {seconds:g} seconds"
            with suppress(ProcessLookupError):
                os.kill(self._child, signal.SIGKILL)
            while "died" not in (answer := self._ending(START_SECONDS)):
                pass  # the result came in the last moment
        if "died" not in answer:
            return Result(name, answer["error"], answer["seconds"], tuple(answer["python"]))
        self._child = self._answer(START_SECONDS)["pid"]
        return Result(name, late or f"the process died: {answer['died']}")

    def _ending(self, seconds: float) -> dict[str, Any]:
        """How the case that runs ended; what a child found in the pipe from before is left out."""
        while (answer := self._answer(seconds)).get("number", self._number) != self._number:
            pass
        return answer

    def close(self) -> None:
        """End the processes."""
        with suppress(ProcessLookupError):
            os.kill(self._child, signal.SIGKILL)
        self._process.kill()
        self._process.communicate()

    def _answer(self, seconds: float) -> dict[str, Any]:
        """The next line of the process; TimeoutError where it does not come in time."""
        assert self._process.stdout is not None
        while b"\n" not in self._text:
            ready, _, _ = select.select([self._process.stdout], [], [], seconds)
            if not ready:
                raise TimeoutError
            more = self._process.stdout.read(1 << 16)
            if not more:
                raise WorkerLost(
                    "the conformance worker ended; see: python -m tests.conformance.worker"
                )
            self._text += more
        line, self._text = self._text.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        return answer


def run(
    choose: Callable[[Sequence[str]], Sequence[str]], workers: int
) -> Iterator[Result | Sequence[str]]:
    """Run the cases that are chosen from all names, in so many processes.

    Gives the names that were chosen first, then results as they come.
    """
    started = [Worker()]
    names = choose(started[0].names)
    yield names
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in names:
        waiting.put(name)
    results: queue.SimpleQueue[Result | BaseException] = queue.SimpleQueue()

    def serve(worker: Worker | None) -> None:
        try:
            if worker is None:
                started.append(worker := Worker())
            while True:
                results.put(worker.run(waiting.get_nowait()))
        except queue.Empty:
            pass
        except BaseException as e:
            results.put(e)

    for worker in (started[0], *[None] * (workers - 1)):
        threading.Thread(target=serve, args=[worker], daemon=True).start()
    try:
        for _ in names:
            found = results.get()
            if isinstance(found, BaseException):
                raise found
            yield found
    finally:
        for w in started:
            w.close()
