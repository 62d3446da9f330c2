"""A model on a board: its inputs written, run, its outputs and what it took read."""

from __future__ import annotations

import itertools
import math
import os
import shutil
import struct
import tempfile
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.closing import Closing
from smelt.runtime.errors import InputError, MicroError

from .board import Board, find_board
from .csource import CSource, CTensor
from .program import write_program
from .toolchain import build, compiler
from .transport import ProcessTransport, Transport

VERSION = 1
"""Of the protocol, which native/smelt_serial.h describes."""
_COMMANDS = ("", "HELLO", "DESCRIBE", "WRITE", "RUN", "READ", "TICKS", "STACK", "EXIT")
_REFUSED = 0xFF
_REASONS = (
    "", "its CRC is wrong", "it is truncated", "it is too long", "it is of another version",
    "no such command", "its length is wrong", "there is no such tensor or step",
    "it leaves the tensor",
)  # fmt: skip
_DAMAGE = (1, 2, 3)
"""The reasons that may come of a bad line, so that another try is worth it."""
_MAGIC = b"\xa5\x5a"
_HEAD = struct.Struct("<BBBH")
_MOST = 264
_CHUNK = 256
_TRIES = 3
Array = np.ndarray[Any, Any]


class _Lost(MicroError):
    """An answer that did not come, or came damaged."""


class _Late(_Lost):
    """One of which nothing came."""


@dataclass(frozen=True)
class StepTicks:
    """A kernel of the last run.

    ticks         of the board's clock
    instructions  where an emulator counts them, to within a tick's; None elsewhere
    """

    kernel: str
    ticks: int
    instructions: int | None


class Session(Closing):
    """A model that a program serves on a line; as a context manager it is ended at the end.

    kernels                the names of the model's kernels, which the program does not know
    instructions_per_tick  where an emulator counts instructions
    timeout, run_timeout   seconds that an answer may take, and a run

    Raises MicroError where the board gives no answer that makes sense.
    """

    def __init__(
        self, transport: Transport, *, kernels: Sequence[str] = (),
        instructions_per_tick: float | None = None, timeout: float = 10.0,
        run_timeout: float = 300.0,
    ) -> None:  # fmt: skip
        self._line, self._kernels, self._per_tick = transport, kernels, instructions_per_tick
        self._timeout, self._run_timeout = timeout, run_timeout
        self._numbers, self._came = itertools.cycle(range(256)), bytearray()
        self.ticks = 0
        said = self._ask(1)
        counts = self._fields("<HHHII", said)
        self._steps, self.ticks_per_second, self.workspace_bytes = counts[2:]
        self.name = said[14:].decode(errors="replace")
        self.inputs = tuple([self._describe(0, n) for n in range(counts[0])])
        self.outputs = tuple([self._describe(1, n) for n in range(counts[1])])

    # ---- what it is for ---------------------------------------------------------------------

    def run(self, *inputs: Any) -> list[Array]:
        """Run the model on arrays in the order of `inputs`; gives an array for each output.

        Raises InputError where they do not fit, MicroError where the board fails.
        """
        for n, data in enumerate(self._checked(inputs)):
            for at in range(0, len(data), _CHUNK):
                self._ask(3, struct.pack("<HI", n, at) + data[at : at + _CHUNK])
        status, self.ticks = self._fields("<iI", self._ask(4, timeout=self._run_timeout))
        if status != 0:
            raise MicroError(f"{self.name} failed on the board with status {status}")
        return [self._read(n, t) for n, t in enumerate(self.outputs)]

    @property
    def instructions(self) -> int | None:
        """Of the last run, to within those of a tick; None where nobody counts them."""
        return self._instructions(self.ticks)

    @property
    def seconds(self) -> float:
        """Of the last run, by the board's clock; an emulated one counts instructions."""
        return self.ticks / self.ticks_per_second

    def steps(self) -> list[StepTicks]:
        """What each kernel of the last run took."""
        ticks: list[int] = []
        while len(ticks) < self._steps:
            data = self._ask(6, struct.pack("<H", len(ticks)))
            if not data or len(data) % 4:
                raise MicroError(f"{self.name}: the board tells no ticks of step {len(ticks)}")
            ticks += [n for (n,) in struct.iter_unpack("<I", data)]
        names = [*self._kernels, *[f"step {n}" for n in range(len(self._kernels), self._steps)]]
        return [StepTicks(*row, self._instructions(row[1]))
                for row in zip(names, ticks, strict=False)]  # fmt: skip

    def stack(self) -> tuple[int, int] | None:
        """Bytes of the stack that were used since the start, and bytes that are watched."""
        used, watched = self._fields("<II", self._ask(7))
        return (used, watched) if watched else None

    def close(self) -> None:
        """End the program and the line; a second time does nothing."""
        try:
            self._ask(8, timeout=min(1.0, self._timeout), tries=1)
        except MicroError:
            pass  # who does not listen is ended with the line
        finally:
            self._line.close()

    # ---- pieces -----------------------------------------------------------------------------

    def _instructions(self, ticks: int) -> int | None:
        return None if self._per_tick is None else round(ticks * self._per_tick)

    def _describe(self, kind: int, n: int) -> CTensor:
        data = self._ask(2, struct.pack("<BH", kind, n))
        shape = self._fields(f"<{data[0] if data else 0}I", data[1:])
        dtype, _, name = data[1 + 4 * len(shape) :].decode(errors="replace").partition("\0")
        return CTensor(name, dtype, tuple(shape))

    def _checked(self, inputs: Sequence[Any]) -> list[bytes]:
        """The bytes of the inputs."""
        if len(inputs) != len(self.inputs):
            names = ", ".join([t.name for t in self.inputs]) or "none"
            raise InputError(f"{self.name}: {len(inputs)} inputs are given; inputs: {names}")
        found = []
        for tensor, given in zip(self.inputs, inputs, strict=True):
            value, kind = np.asarray(given), dt.to_numpy(tensor.dtype)
            if value.dtype != kind or value.shape != tensor.shape:
                raise InputError(
                    f"{self.name}: input {tensor.name!r} is {value.dtype}{list(value.shape)}; "
                    f"legal: {tensor.dtype}{list(tensor.shape)}"
                )
            found.append(np.ascontiguousarray(value).tobytes())
        return found

    def _read(self, n: int, tensor: CTensor) -> Array:
        kind = np.dtype(dt.to_numpy(tensor.dtype))
        size, data = math.prod(tensor.shape) * kind.itemsize, b""
        while len(data) < size:
            count = min(_CHUNK, size - len(data))
            part = self._ask(5, struct.pack("<HIH", n, len(data), count))
            if len(part) != count:
                raise MicroError(
                    f"{self.name}: the board gives {len(part)} bytes of output {tensor.name!r} "
                    f"where {count} are asked for"
                )
            data += part
        return np.frombuffer(data, kind).reshape(tensor.shape).copy()

    def _fields(self, form: str, data: bytes) -> tuple[int, ...]:
        if len(data) < struct.calcsize(form):
            raise MicroError(f"an answer of the board has {len(data)} bytes, which is too few")
        return struct.unpack_from(form, data)

    # ---- frames -----------------------------------------------------------------------------

    def _ask(
        self, command: int, payload: bytes = b"", timeout: float | None = None, tries: int = _TRIES
    ) -> bytes:
        """What the board answers. All may be asked twice, since a model keeps nothing; but not a
        run that takes its time."""
        patience, name = timeout or self._timeout, _COMMANDS[command]
        for left in reversed(range(tries)):
            number = next(self._numbers)
            body = _HEAD.pack(VERSION, command, number, len(payload)) + payload
            frame = _MAGIC + body + struct.pack("<I", zlib.crc32(body))
            self._line.write(frame, self._timeout)
            try:
                return self._answer(command, number, time.monotonic() + patience)
            except _Lost as e:
                if left == 0 or (name == "RUN" and isinstance(e, _Late)):
                    took = f"tried {tries - left} times, {patience:g} s each"
                    raise MicroError(f"{name}: {e}; {took}") from None
                self._came.clear()
        raise AssertionError

    def _answer(self, command: int, number: int, until: float) -> bytes:
        """The payload of an answer; those to what was asked before are passed over."""
        while True:
            version, kind, sequence, payload = self._frame(until)
            reason = payload[0] if payload else 0
            if version != VERSION or (kind == _REFUSED and reason == 4):
                theirs = payload[1] if kind == _REFUSED and len(payload) > 1 else version
                raise MicroError(
                    f"the board speaks version {theirs} of the protocol, and this smelt speaks "
                    f"version {VERSION}: build its program again"
                )
            if kind == _REFUSED and reason in _DAMAGE:
                raise _Lost(f"the board refuses the frame: {_REASONS[reason]}")
            if kind == _REFUSED and sequence == number:
                why = _REASONS[reason] if reason < len(_REASONS) else f"reason {reason}"
                raise MicroError(f"{_COMMANDS[command]}: the board refuses it: {why}")
            if kind == command | 0x80 and sequence == number:
                return payload

    def _frame(self, until: float) -> tuple[int, int, int, bytes]:
        """The next frame: version, command, sequence and payload."""
        came = self._came
        while True:
            start = came.find(_MAGIC)
            del came[: start if start >= 0 else len(came) - came.endswith(_MAGIC[:1])]
            if start >= 0 and len(came) >= 2 + _HEAD.size:
                version, command, number, count = _HEAD.unpack_from(came, 2)
                end = 2 + _HEAD.size + count
                if count > _MOST:
                    del came[:2]
                    continue
                if len(came) >= end + 4:
                    body, (crc,) = bytes(came[2:end]), struct.unpack_from("<I", came, end)
                    if zlib.crc32(body) == crc:
                        del came[: end + 4]
                        return version, command, number, body[_HEAD.size :]
                    del came[:2]
                    raise _Lost(f"the answer is damaged: CRC-32 {crc:08x}, it should be "
                                f"{zlib.crc32(body):08x}")  # fmt: skip
            left = until - time.monotonic()
            if left <= 0 and came:
                raise _Lost(f"the answer ends after {len(came)} bytes")
            if left <= 0:
                raise _Late("the board gives no answer")
            came += self._line.read(4096, left)


def open_board(
    model: CSource, board: str | Board, *, level: str = "-O3",
    folder: str | os.PathLike[str] | None = None, flags: Sequence[str] = (),
    wanted: str = "",
) -> Session:  # fmt: skip
    """Build a program that serves a model, start it on a board, and open a session with it.

    board   its name, of BOARDS
    level   of the C compiler's optimization: -O0 ... -O3, -Os
    folder  where the program's files are kept; None: nowhere
    wanted  the C compiler: "gcc", "zig"; "": the first that is there
    flags   further arguments of the C compiler: folders of headers, sources beside the model's

    Raises MicroError where a tool is missing or fails, or the model is too large for the board.
    """
    found = find_board(board)
    if not isinstance(model, CSource):
        raise MicroError(f"open_board is given {model!r}; legal: what compile_c makes of a model")
    needs_tools(found, wanted)
    with tempfile.TemporaryDirectory(prefix="smelt-board-") as own:
        place = Path(own if folder is None else folder).resolve()
        write_program(model, found, place)
        program = build(place, found, level, flags, wanted)
        return start_session(program, found, kernels=model.kernels,
                             instructions_per_tick=found.instructions_per_tick)  # fmt: skip


def start_session(program: Path, board: Board, **options: Any) -> Session:
    """Start a program that was built for a board, and open a session with it; options are those of
    Session. Raises MicroError."""
    line = start(program, board)
    try:
        return Session(line, **options)
    except BaseException:
        line.close()
        raise


_FAULT = ("ended: the program has met a fault (an address that no memory has, or an instruction "
          "that the processor lacks), or its main has failed")  # fmt: skip


def needs_tools(board: Board, wanted: str = "") -> None:
    """Raise MicroError where what a board needs is not installed: said before the work."""
    if not board.is_host:
        _emulator()
    compiler(board, wanted)


def start(program: Path, board: Board) -> ProcessTransport:
    """Start a program that was built for a board, and give the line to it."""
    if board.is_host:
        return ProcessTransport([program])
    return ProcessTransport([
        _emulator(), "-M", board.machine, "-kernel", program, "-nographic", "-semihosting",
        "-icount", "shift=0", "-monitor", "none", "-serial", "stdio",
    ], {1: _FAULT})  # fmt: skip


def _emulator() -> str:
    found = shutil.which("qemu-system-arm")
    if found is None:
        raise MicroError(
            "an emulated board needs qemu-system-arm, which is missing: apt install "
            "qemu-system-arm, or take the board host"
        )
    return found
