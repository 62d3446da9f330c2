"""Ctrl-C that is not lost, and an end by others that leaves nothing behind. It imports next to
nothing: `smelt` asks for it first of all."""

import signal
import sys
from typing import Any

_SOON = 0.05
"""Seconds; what dropped it has returned by then."""


def keep_interrupts() -> None:
    """Have a KeyboardInterrupt come again that Python drops: one in a destructor, or where a weak
    reference dies; and end on SIGTERM as on an error, so that folders and programs that were made
    for a while go. For processes that are a command."""
    sys.unraisablehook = _again
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def _again(unraisable: Any) -> None:
    if unraisable.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(unraisable)
        return
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, _SOON)
