"""Tuning sessions of which nothing is run: times that are made up, the same ones every time."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import onnx

import smelt
from smelt import tuning
from smelt.search.database import MemoryDatabase
from smelt.search.record import ErrorCode
from smelt.search.runner import Attempt, Outcome, Runner
from smelt.search.space import Candidate
from smelt.search.timing import Protocol, Timed
from smelt.search.tune import State
from tests.models.net import Net

ONE = smelt.Options(threads=1)


class MadeUp(Runner):
    """A candidate takes what is predicted, more or less, and some fail."""

    needs_build = False

    def __init__(self, between: Callable[[int], object] = lambda count: None) -> None:
        """between: called with the number of measurements before each of them."""
        self.between, self.count = between, 0

    def run(self, reference: Attempt, attempt: Attempt, protocol: Protocol) -> Outcome:
        self.between(self.count)
        self.count += 1
        draw = zlib.crc32(attempt.candidate.text.encode())
        if attempt.candidate != reference.candidate and draw % 5 == 0:
            return Outcome(None, ErrorCode.CRASH, "it <b>fell</b>\nand more")
        default = 1.3 * reference.candidate.predicted
        same = attempt.candidate == reference.candidate
        return Outcome(Timed((default if same else _time(attempt.candidate),), (default,)))


def _time(c: Candidate) -> float:
    return c.predicted * (0.6 + zlib.crc32(c.text.encode()) % 1000 / 1000)


def network() -> onnx.ModelProto:
    """A convolution, a product with weights and a softmax."""
    net = Net()
    x = net.op("Relu", net.conv_norm(net.input("x", [1, 8, 12, 12]), (8, 24), 3, 1))
    return net.model(net.op("Softmax", net.head(x, 24, 10)))


def save(folder: Path) -> str:
    """The network as a file."""
    path = folder / "net.onnx"
    onnx.save(network(), path)
    return str(path)


def session(trials: int = 60) -> State:
    """A session that has ended."""
    return tuning.tune(network(), MemoryDatabase(), trials=trials, options=ONE, runner=MadeUp())
