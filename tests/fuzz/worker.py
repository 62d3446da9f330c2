"""A process that generates and judges cases, so that a crash or a hang is a verdict."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import time
import warnings
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from .case import Array, Case
from .generate import generate
from .judge import Verdict, judge
from .oracle import expected

__all__ = ["SECONDS", "Worker"]

SECONDS = 90.0
"""What takes longer hangs."""

CASES = 400
"""A worker is replaced after so many, before memory of loaded code adds up."""


def _serve(connection: Connection) -> None:
    warnings.simplefilter("ignore")
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)  # a compilation makes many nodes, of which few are cycles
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what LLVM says when it dies is in the verdict
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    try:
        while True:
            what, given = connection.recv()
            connection.send(("answer", _answer(what, given, connection)))
    except EOFError:
        return


def _answer(what: str, given: Any, connection: Connection) -> Any:
    if what == "values":
        return _values(*given)
    connection.send(("stage", "generate"))
    case = generate(given) if what == "seed" else given
    verdict = judge(case, lambda stage: connection.send(("stage", stage)))
    ops = [n.op for n in case.graph.nodes] if what == "seed" else []
    return verdict, ops


def _values(case: Case, names: list[str]) -> list[dict[str, Array]]:
    """What values are in each run, by the oracle."""
    wanted = replace(case, graph=replace(case.graph, results=names))
    runs = [run for run in expected(wanted)[1] if run is not None]
    return [dict(zip(names, run, strict=True)) for run in runs]


class Worker:
    """The parent's end of a worker process, which is started anew where it dies."""

    def __init__(self) -> None:
        self.process: Any = None
        self.connection: Any = None
        self.cases = 0

    def judge(self, what: str, given: int | Case) -> tuple[Verdict, list[str]]:
        """The verdict on a seed or a case, and the operators drawn for a seed."""
        stage, end = "start", time.monotonic() + SECONDS
        self._send((what, given))
        while True:
            if not self.connection.poll(max(end - time.monotonic(), 0)):
                self.stop()
                return self._lost("hang", f"{SECONDS:g} s have passed", stage), []
            try:
                kind, answer = self.connection.recv()
            except (EOFError, OSError):
                self.process.join()
                code = self.process.exitcode
                self.stop()
                return self._lost("crash", f"the process ended with code {code}", stage), []
            if kind == "answer":
                verdict, ops = answer
                return verdict, ops
            stage = answer

    def _lost(self, kind: str, message: str, stage: str) -> Verdict:
        if stage == "smelt":
            return Verdict(kind, message, f"{kind} {message}")
        return Verdict("no oracle", f"{kind} of the {stage}: {message}", "oracle")

    def values(self, case: Case, names: list[str]) -> list[dict[str, Array]] | None:
        """Intermediate values of a case by the oracle, None where it has none."""
        self._send(("values", (case, names)))
        try:
            if self.connection.poll(SECONDS):
                answer: list[dict[str, Array]] = self.connection.recv()[1]
                return answer
        except (EOFError, OSError):
            pass
        self.stop()
        return None

    def _send(self, request: tuple[str, Any]) -> None:
        self.cases += 1
        if self.process is None or not self.process.is_alive() or self.cases > CASES:
            self.stop()
            context = multiprocessing.get_context("spawn")
            self.connection, other = context.Pipe()
            self.process = context.Process(target=_serve, args=(other,), daemon=True)
            self.process.start()
            other.close()
            self.cases = 0
        self.connection.send(request)

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.connection.close()
            self.process = None
        sys.stdout.flush()
