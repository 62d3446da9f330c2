"""A worker process: `python -m smelt.codegen.worker` runs the functions that its parent names.

LLVM aborts the process on what it cannot select, so it works here and not in the user's process.
Requests come through standard input, answers go through standard output, one frame each
(`frames`): a request is the pickled ("package.module:function", arguments, name), the answer
("ok", result) or ("error", exception). Request 0 has no answer: it is the parent's sys.path, and
modules to import ahead.

    python -m smelt.codegen.worker FILE      repeats the job that a crash has left in FILE
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import os
import pickle
import queue
import resource
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from . import frames

_NEW_OBJECTS = 100_000
"""Objects after which garbage is looked for: a kernel makes some 10,000, most of which live on."""
_Requests = queue.SimpleQueue[tuple[int, bytes]]


@cache
def _function(path: str) -> Callable[..., Any]:
    module, _, name = path.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


def call(path: str, arguments: tuple[Any, ...]) -> Any:
    """Call the function that `package.module:function` names."""
    return _function(path)(*arguments)


def _set_up(path: list[str], modules: list[str]) -> None:
    """Find modules as the parent does, and import some; a job will say if one is missing."""
    sys.path[:] = path or sys.path
    for module in modules:
        with suppress(Exception):
            importlib.import_module(module)
    gc.freeze()  # what is imported stays: nobody has to look for garbage in it
    gc.set_threshold(_NEW_OBJECTS)


def _answer(payload: bytes) -> bytes:
    """The answer to a request; every exception becomes an answer too."""
    name = "a job"
    try:
        path, arguments, name = pickle.loads(payload)
        return frames.pack(("ok", call(path, arguments)))
    except BaseException as e:
        return frames.pack(("error", frames.portable(e, name)))


def _take_pipes() -> tuple[int, int]:
    """The parent's pipes under private numbers; prints go to standard error from now on."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return source, sink


def _read(source: int, requests: _Requests) -> None:
    """Pass requests on until the parent is gone, and then end at once, even amid a job."""
    with suppress(EOFError):
        while True:
            requests.put(frames.read_frame(source))
    os._exit(0)


def _serve() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))  # a crash is reported, not dumped
    source, sink = _take_pipes()
    faulthandler.enable()
    requests: _Requests = queue.SimpleQueue()
    threading.Thread(target=_read, args=(source, requests), daemon=True).start()
    frames.write_all(sink, frames.frame(frames.HELLO, b""))
    while True:
        number, payload = requests.get()
        if number == frames.SETUP:
            _set_up(*pickle.loads(payload))
            continue
        frames.write_all(2, frames.marker(number))
        answer = _answer(payload)
        sys.stdout.flush()
        frames.write_all(sink, frames.frame(number, answer))


def main(arguments: list[str]) -> int:
    """Serve the parent, or repeat a saved job in this process."""
    if not arguments:
        _serve()
    path, job, name = pickle.loads(Path(arguments[0]).read_bytes())
    print(f"{name}: {path}", flush=True)
    print(f"{name}: done, {type(call(path, job)).__name__}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
