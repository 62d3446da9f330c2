"""What goes through the pipes between a process and its workers: numbered frames of bytes."""

from __future__ import annotations

import os
import pickle
import struct
import traceback
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


def read_frame(source: int) -> tuple[int, bytes]:
    """The next frame's number and payload. Raises EOFError where the other end is gone."""
    number, length = _HEADER.unpack(_exactly(source, _HEADER.size))
    return number, _exactly(source, length)


def _exactly(source: int, count: int) -> bytes:
    """So many bytes, however little a pipe gives at a time."""
    data = bytearray()
    while len(data) < count:
        piece = os.read(source, count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


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
