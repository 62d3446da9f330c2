"""A process that runs cases, and that a case may kill: `python -m tests.conformance.worker`.

The process makes the suite's data once, forks, and waits. The child reads `number name` from
standard input, answers with a line, and so on; where a case kills it, the parent says how, and
forks the next one. Answers are JSON:

    {"names": [...]}                            once, at the start
    {"pid": 17}                                 a child is ready
    {"number": 1, "error": text, "seconds": 2,  a case was run (null: it passed); processor time;
     "python": [...]}                           what of it Python runs, where the model decides
    {"died": "SIGSEGV"}                         the child has ended
"""

from __future__ import annotations

import json
import os
import resource
import signal
import time
import warnings
from collections.abc import Mapping
from typing import Any, TextIO

import smelt
from smelt.ir.options import Options
from smelt.model import Model

from .compare import Mismatch, check
from .suite import Case, load

__all__ = ["main", "run_case"]

MEMORY = 12 << 30  # bytes of address space: a size that was read wrongly ends in a MemoryError


def main() -> None:
    """Serve until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a case prints is no answer
    cases = load()
    _ = smelt.compile  # imported before the fork, and so once
    say(answers, names=list(cases))
    while True:
        pid = os.fork()
        if pid == 0:
            serve(cases, answers)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if status == 0:
            return
        ended = -os.waitstatus_to_exitcode(status)
        say(answers, died=signal.Signals(ended).name if ended > 0 else f"exit code {-ended}")


def serve(cases: Mapping[str, Case], answers: TextIO) -> None:
    """Run the cases that standard input names, until it ends."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    say(answers, pid=os.getpid())
    line = b""
    while byte := os.read(0, 1):  # unbuffered: what is not read belongs to the next child
        if byte != b"\n":
            line += byte
            continue
        number, _, name = line.decode().partition(" ")
        line = b""
        if not number.isdecimal():
            continue  # the rest of a line of which a child that was killed had read the beginning
        start = time.process_time()
        python: list[str] = []
        try:
            python = run_case(cases[name])
            error = None
        except Exception as e:
            error = str(e) if isinstance(e, Mismatch) else f"{type(e).__name__}: {e}"
        seconds = time.process_time() - start
        say(answers, number=int(number), error=error, seconds=seconds, python=python)


def run_case(case: Case) -> list[str]:
    """Compile a case's model to machine code, run it on each data set, and compare; gives what of
    it Python runs."""
    model, sets = case.read()
    exe = smelt.compile(model, options=Options(workers=0))
    for inputs, want in sets:
        got: Any = exe(*inputs)
        check(got if len(model.graph.output) != 1 else [got], want, case.rtol, case.atol)
    forms = [v.code for v in exe.variants] if isinstance(exe, Model) else [exe]
    return sorted({part for form in forms for part in form.metadata.get("python", ())})


def say(answers: TextIO, **line: Any) -> None:
    answers.write(json.dumps(line) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
