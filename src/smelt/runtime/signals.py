"""Signals: Ctrl-C, and whatever else a handler raises, ends a native run of the main thread."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator

from smelt.runtime import abi
from smelt.runtime.native import Host, listening

_INTERRUPTED = ctypes.CFUNCTYPE(ctypes.c_int32)


class _Watch(ctypes.Structure):
    """smelt_watch of smelt.h."""

    _fields_ = abi.WATCH.ctypes()


def in_main_thread() -> bool:
    """Whether this is the thread in which Python's handlers of signals run."""
    return threading.get_ident() == _MAIN


def watched(host: Host) -> Host:
    """A host like this one whose runs end between two kernels where a signal asks for it."""
    return listening(host, "smelt_watch_probe", _Watch(0, ASK))


def raised() -> BaseException:
    """What a cancelled run is to raise."""
    return _raised.pop() if _raised else KeyboardInterrupt()


def _asking() -> Iterator[int]:
    """Answers whether a run is to end. Python's handlers of signals run where Python's code does,
    and in the main thread only; what they raise, wherever it comes here, ends the run."""
    answer = 0
    while True:
        try:
            while True:
                yield answer
                answer = 0
        except GeneratorExit:
            return
        except BaseException as error:
            _raised.append(error)
            answer = 1


_raised: list[BaseException] = []
_MAIN = threading.main_thread().ident
_asker = _asking()
next(_asker)
_ask = _INTERRUPTED(_asker.__next__)
ASK = ctypes.cast(_ask, ctypes.c_void_p)
"""The address of smelt_host.interrupted for runs of the main thread."""
