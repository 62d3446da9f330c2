"""A straight model ends between two kernels where a signal asks for it."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import smelt
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax.nodes import Function, Tuple, Var, call

SIDE = 512


class Enough(Exception):
    """What the handler raises."""


def slow(products: int = 300) -> Any:
    """Adds 1 to a state; then many products; then adds their result to another state."""
    x, first, last = (
        Var(n, tensor_type((SIDE, SIDE), "float32")) for n in ("x", "first", "last")
    )  # fmt: skip
    begun = call("add", first, x)
    y = begun
    for _ in range(products):
        y = call("tanh", call("matmul", y, x))
    body = Tuple((call("mean", y), begun, call("add", last, y)))
    names = {"output_names": ("y", "begun", "ended")}
    f = Function((x, first, last), body, names)
    return smelt.compile(IRModule({"main": f}), state={"first": "begun", "last": "ended"})


def test_a_signal_ends_a_run_between_kernels() -> None:
    exe, x = slow(), np.full((SIDE, SIDE), 0.01, "float32")

    def enough(*_: object) -> None:
        raise Enough

    before = signal.signal(signal.SIGALRM, enough)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Enough):
            exe(x)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert exe.state["first"].numpy().any(), "it began"
    assert not exe.state["last"].numpy().any(), "and did not come to its end"
    exe.state.reset()
    exe(x)
    assert exe.state["last"].numpy().any()


def test_ctrl_c(tmp_path: Any) -> None:
    """The process prints what it got, not a traceback of ctypes."""
    code = """
import os, signal, threading
import numpy as np
from tests.updates.test_cancel import SIDE, slow
exe, x = slow(), np.full((SIDE, SIDE), 0.01, "float32")
threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    exe(x)
except KeyboardInterrupt:
    print("stopped", not exe.state["last"].numpy().any())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "stopped True\n", done.stderr
