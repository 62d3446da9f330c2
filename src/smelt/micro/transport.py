"""Lines to programs on boards: bytes there and back, every wait bounded."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import tempfile
import time
import weakref
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from smelt.ir.closing import Closing
from smelt.runtime.errors import MicroError

_GRACE = 2.0
"""Seconds that a process has to end by itself."""


class Transport(Closing):
    """A line to a program; as a context manager it is closed at the end."""

    @abstractmethod
    def read(self, n: int, timeout: float) -> bytes:
        """From 1 to n bytes; none where none came in `timeout` seconds.

        Raises MicroError where the line is closed, with what is known of the reason.
        """

    @abstractmethod
    def write(self, data: bytes, timeout: float) -> None:
        """Send all bytes. Raises MicroError where that takes longer than `timeout` seconds."""


_GUARD = """\
exec 3<&0
"$@" <&3 3<&- &
program=$!
(exec 3<&- >&- 2>&- </dev/fd/{watched}; read nothing; kill -9 $program) &
guard=$!
exec 3<&- <&- >&-
wait $program
code=$?
kill $guard
exit $code
"""
"""A program, and who ends it when a pipe closes: its other end goes with this process, even if that
is killed. An emulator would go on for ever."""


class ProcessTransport(Transport):
    """A program of this machine, by its standard input and output; it ends with the line, and with
    this process."""

    def __init__(
        self, command: Sequence[str | Path], codes: Mapping[int, str] = MappingProxyType({})
    ) -> None:
        """command: the program and its arguments; codes: what its exit codes say."""
        self.name, self._codes = Path(command[0]).name, codes
        if shutil.which(command[0]) is None:
            raise MicroError(f"{self.name} cannot be started: {command[0]} is no program")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        watched, held = os.pipe()
        guarded = ["/bin/sh", "-c", _GUARD.format(watched=watched), "sh", *command]
        try:
            self._process = subprocess.Popen(
                guarded, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
                bufsize=0, pass_fds=(watched,),
            )  # fmt: skip
        except BaseException:
            os.close(held)
            raise
        finally:
            os.close(watched)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._to, False)
        # Ends the process where nobody does, too: when this object goes, or the interpreter.
        self._end = weakref.finalize(self, _end, self._process, held)

    def read(self, n: int, timeout: float) -> bytes:
        """As of Transport."""
        if not self._wait(self._from, select.POLLIN, timeout):
            return b""
        data = os.read(self._from, n)
        if not data:
            raise self._ended()
        return data

    def write(self, data: bytes, timeout: float) -> None:
        """As of Transport."""
        until = time.monotonic() + timeout
        while data:
            if not self._wait(self._to, select.POLLOUT, until - time.monotonic()):
                raise MicroError(f"{self.name} took no more bytes for {timeout:g} s")
            try:
                data = data[os.write(self._to, data) :]
            except BrokenPipeError:
                raise self._ended() from None

    def close(self) -> None:
        """As of Transport: it may end by itself for a moment, and is killed then."""
        self._end()
        self._errors.close()

    def _wait(self, file: int, event: int, timeout: float) -> bool:
        if not self._end.alive:
            raise MicroError(f"the line to {self.name} is closed")
        poll = select.poll()
        poll.register(file, event)
        return bool(poll.poll(max(0.0, timeout) * 1000))

    def _ended(self) -> MicroError:
        """What is known of a process that ended before its time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)
        self._errors.seek(0)
        said = self._errors.read(600).decode(errors="replace").strip()
        code = self._process.returncode
        known = self._codes.get(code or 0, f"ended with exit code {code}")
        why = "closed its line" if code is None else known
        return MicroError(f"{self.name} {why}" + (f"; it said:\n  {said}" if said else ""))


def _end(process: subprocess.Popen[bytes], held: int) -> None:
    """End a program, by force where it does not end when its input does."""
    for file in (process.stdin, process.stdout):
        if file is not None:
            file.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE / 10)
    os.close(held)  # its guard ends it
    process.wait()
