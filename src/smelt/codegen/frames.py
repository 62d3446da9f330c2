"""What goes through the pipes between a process and its workers: numbered frames of bytes."""

from __future__ import annotations

import os
import pickle
import struct
import traceback
from collections import deque
from typing import Any

from smelt.ir.errors import InternalError, SmeltError

_HEADER = struct.Struct("<QQ")  # the frame's number, the payload's length in bytes
HELLO = 0  # the number of a worker's first frame: it runs
SETUP = 0  # the number of requests without an answer: the parent's sys.path, modules to import


def pack(value: object) -> bytes:
    """A value as bytes; pickled, since both ends are the same smelt."""
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def frame(number: int, payload: bytes) -> bytes:
    """A payload with its header."""
    return _HEADER.pack(number, len(payload)) + payload


def marker(number: int) -> bytes:
    """What a worker writes to its standard error before a job, so that older output is known."""
    return b"\x1e%d\x1e" % number


class FrameBuffer:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        """Start empty."""
        self._bytes = bytearray()
        self._frames: deque[tuple[int, bytes]] = deque()

    def feed(self, data: bytes) -> None:
        """Append what was read."""
        self._bytes += data
        while len(self._bytes) >= _HEADER.size:
            number, length = _HEADER.unpack_from(self._bytes)
            end = _HEADER.size + length
            if len(self._bytes) < end:
                return
            self._frames.append((number, bytes(self._bytes[_HEADER.size : end])))
            del self._bytes[:end]

    def pop(self) -> tuple[int, bytes] | None:
        """The oldest complete frame, if there is one."""
        return self._frames.popleft() if self._frames else None


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything, however little the pipe takes at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def portable(error: BaseException, name: str) -> SmeltError:
    """An error that survives the way to another process: smelt's own as it is, others wrapped."""
    if not isinstance(error, SmeltError):
        trace = "".join(traceback.format_exception(error)).rstrip().replace("\n", "\n  ")
        return InternalError(f"{name}: {_said(error)}\n  {trace}")
    return error if _survives(error) else InternalError(f"{name}: {_said(error)}")


def _said(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _survives(error: SmeltError) -> bool:
    """Whether pickling keeps an error; classes with an unusual constructor do not come back."""
    try:
        copy: Any = pickle.loads(pack(error))
    except Exception:
        return False
    return type(copy) is type(error) and str(copy) == str(error)
