"""Lines to boards at a serial port of this machine, by pyserial."""

from __future__ import annotations

import errno
import importlib
import os
import re
import time
from typing import Any

from smelt.runtime.errors import MicroError

from .transport import Transport

_HELP = {
    errno.EACCES: "; a user in the group that owns it may (on many systems: dialout)",
    errno.EWOULDBLOCK: "; another program has it open",
}
"""What to do where the system refuses a port."""


class SerialTransport(Transport):
    """A serial port, such as /dev/ttyACM0, at whose other end a program serves a model."""

    def __init__(self, port: str, baud: int = 115200, *, settle: float = 0.0) -> None:
        """Open a port, for this program alone.

        settle  seconds before the first byte: some boards start anew when their port is opened

        Raises MicroError where there is no such port, it is in use, or pyserial is missing.
        """
        self.name, self._serial = port, _serial()
        try:
            self._line = self._serial.Serial(port, baud, exclusive=True)
        except (self._serial.SerialException, OSError, ValueError) as e:
            raise MicroError(f"{port} cannot be opened: {_why(e)}{self._known(e)}") from None
        time.sleep(settle)

    def read(self, n: int, timeout: float) -> bytes:
        """As of Transport."""
        try:
            self._line.timeout = max(0.0, timeout)
            first: bytes = self._line.read(1)
            more = min(n - 1, self._line.in_waiting) if first else 0
            return first + (self._line.read(more) if more else b"")
        except (self._serial.SerialException, OSError) as e:
            raise self._gone(e) from None

    def write(self, data: bytes, timeout: float) -> None:
        """As of Transport."""
        try:
            self._line.write_timeout = max(0.0, timeout)
            self._line.write(data)
        except self._serial.SerialTimeoutException:
            raise MicroError(f"{self.name} took no more bytes for {timeout:g} s") from None
        except (self._serial.SerialException, OSError) as e:
            raise self._gone(e) from None

    def close(self) -> None:
        """As of Transport; the program at the other end goes on."""
        self._line.close()

    def _gone(self, e: Exception) -> MicroError:
        return MicroError(f"the line to {self.name} is closed: {_why(e)}")

    def _known(self, e: Exception) -> str:
        """What helps: the ports that there are, or who may open this one."""
        number = getattr(e, "errno", None)
        if number in _HELP:
            return _HELP[number]
        ports = importlib.import_module("serial.tools.list_ports").comports()
        there = ", ".join(sorted([p.device for p in ports])) or "none"
        return f"; serial ports of this machine: {there}"


def _serial() -> Any:
    try:
        return importlib.import_module("serial")
    except ImportError:
        raise MicroError(
            "serial ports need the package pyserial: pip install 'smelt[serial]'"
        ) from None


def _why(e: Exception) -> str:
    """What the system says of it, without the words that pyserial puts around that."""
    found = re.search(r"\(\d+, '(.*?)'\)", str(e))
    number = getattr(e, "errno", None)
    return os.strerror(number) if number else found[1] if found else str(e)
