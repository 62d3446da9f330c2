"""What tuning keeps: programs, and what ways to schedule them were found to take."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from statistics import median

from smelt.target import Machine, Target
from smelt.tir.nodes import PrimFunc
from smelt.tir.printer import script


class ErrorCode(IntEnum):
    """How a measurement ended."""

    OK = 0
    SCHEDULE = 1
    """The decision could not be applied to the program."""
    COMPILE = 2
    """Lowering or LLVM refused the scheduled program."""
    CRASH = 3
    """The process that ran it died."""
    TIMEOUT = 4
    """It took longer than was allowed."""
    RUNTIME = 5
    """The kernel, or the call of it, raised an error."""
    WRONG = 6
    """Its results are not those of the default schedule."""


REFUTED = "refuted"
"""The source of records that take a winner back: in its model it was found to be no faster."""


@dataclass(frozen=True)
class Workload:
    """A program that is tuned.

    key        tells programs apart: their scripts, but for the function's name, and which operands
               are constants
    name       for people: that of the kernel that it was met in first
    program    its script
    constants  which of its buffers are known at compile time
    """

    key: str
    name: str
    program: str
    constants: tuple[bool, ...] = ()


def workload_key(func: PrimFunc, constants: Sequence[bool] = ()) -> str:
    """What tells a program apart; see Workload."""
    marks = "".join("c" if c else "v" for c in constants).rstrip("v")  # what is not named varies
    text = script(func.with_attrs(name="main"))  # traces find blocks by name, so names count
    return hashlib.blake2b(f"{text}\n{marks}".encode(), digest_size=16).hexdigest()


def machine_key(target: Target, machine: Machine) -> str:
    """What tells machines apart: the target's words, the description, the number of processors."""
    text = f"{target}\n{json.dumps(machine.to_json(), sort_keys=True)}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Record:
    """One way to schedule a program, and what it was found to take.

    workload   the program's key
    machine    `machine_key` of where it ran
    target     the target's text
    trace      the schedule, replayable on the program, or on that of `body`
    body       the algorithm in place of an operator's own; "": its own
    decision   the same in short, for people: sketches with their decisions
    source     what proposed it: "sketch", "default", "autotvm", "auto_scheduler", "meta_schedule"
    seconds    of single runs; empty where it failed
    relative   its time over the default schedule's, measured in turns; None where that was not done
    confirmed  whether it beat the default significantly and gave the same results
    predicted  seconds by the closed form; 0: there was none
    features   what the learned model saw of it, behind the version of `features`
    error      how the measurement ended; message: the error's first lines
    version    smelt's
    when       seconds since 1970
    """

    workload: str
    machine: str
    target: str
    trace: str
    body: str = ""
    decision: str = ""
    source: str = "sketch"
    seconds: tuple[float, ...] = ()
    relative: float | None = None
    confirmed: bool = False
    predicted: float = 0.0
    features: tuple[float, ...] = field(default=(), repr=False)
    error: ErrorCode = ErrorCode.OK
    message: str = ""
    version: str = ""
    when: float = 0.0

    @property
    def time(self) -> float:
        """The median of its runs; infinite where it failed."""
        return median(self.seconds) if self.seconds and not self.error else float("inf")
