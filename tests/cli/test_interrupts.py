"""Ctrl-C where Python drops exceptions."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import signal, weakref
from smelt.interrupts import keep_interrupts

class Held: pass

keep_interrupts()
held = Held()
watch = weakref.ref(held, lambda dead: signal.raise_signal(signal.SIGINT))
try:
    del held
    while True:
        pass
except KeyboardInterrupt:
    print("came")
"""


def test_an_interrupt_that_is_dropped_comes_again() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True,
                          check=False, timeout=60)  # fmt: skip
    assert (done.stdout, done.stderr) == ("came\n", "")
