"""The serial protocol: programs that meet damaged frames, and sessions that meet bad programs."""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
import sys
import time
import tty
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

from smelt.micro import (
    BOARDS,
    ProcessTransport,
    SerialTransport,
    Session,
    Transport,
    compile_c,
    open_board,
)
from smelt.micro import session as sessions
from smelt.micro.board import find_board
from smelt.micro.csource import NATIVE
from smelt.micro.program import write_program
from smelt.micro.session import VERSION
from smelt.micro.toolchain import build
from smelt.runtime.errors import InputError, MicroError

from .test_boards import quantized
from .test_c import OPTIONS, WARNINGS

SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
HELLO, DESCRIBE, WRITE, RUN, READ, TICKS, STACK, EXIT = range(1, 9)
REFUSED = 0xFF
BAD_CRC, TRUNCATED, TOO_LONG, OTHER_VERSION, UNKNOWN, BAD_LENGTH, BAD_NUMBER, BAD_RANGE = range(
    1, 9
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program of this machine that serves a small model, with the sanitizers' checks."""
    folder = tmp_path_factory.mktemp("program")
    host = BOARDS["host"]
    write_program(compile_c(quantized(), host.target, options=OPTIONS), host, folder)
    return build(folder, host, "-O1", SANITIZERS)


@pytest.fixture
def line(program: Path) -> Iterator[ProcessTransport]:
    with ProcessTransport([program]) as made:
        yield made


def frame(command: int, payload: bytes = b"", number: int = 7, version: int = VERSION) -> bytes:
    body = struct.pack("<BBBH", version, command, number, len(payload)) + payload
    return b"\xa5\x5a" + body + struct.pack("<I", zlib.crc32(body))


def answer(line: Transport, patience: float = 20.0) -> tuple[int, int, bytes]:
    """The next frame: command, sequence, payload."""

    def take(n: int) -> bytes:
        found = b""
        while len(found) < n:
            part = line.read(n - len(found), patience)
            assert part, "no answer"
            found += part
        return found

    head = take(7)
    assert head[:2] == b"\xa5\x5a"
    version, command, number, count = struct.unpack("<BBBH", head[2:])
    body = head[2:] + take(count)
    assert struct.unpack("<I", take(4)) == (zlib.crc32(body),)
    assert version == VERSION
    return command, number, body[5:]


def refused(line: Transport, reason: int) -> None:
    command, _, payload = answer(line)
    assert (command, payload) == (REFUSED, bytes([reason, VERSION]))


def greets(line: Transport) -> None:
    line.write(frame(HELLO, number=99), 5)
    command, number, payload = answer(line)
    assert (command, number) == (HELLO | 0x80, 99)
    assert struct.unpack_from("<HHH", payload) == (1, 1, 3)
    assert payload[14:] == b"bytes"


def test_there_and_back(program: Path) -> None:
    model = quantized()
    given = np.arange(-162, 162, dtype=np.int16).astype(np.int8).reshape(1, 4, 9, 9)
    with Session(ProcessTransport([program])) as session:
        assert [(t.name, t.dtype, t.shape) for t in (*session.inputs, *session.outputs)] == [
            ("x", "int8", (1, 4, 9, 9)), ("y", "int8", (1, 8, 4, 4)),
        ]  # fmt: skip
        (first,), (second,) = session.run(given), session.run(given)
        np.testing.assert_array_equal(first, second)
        assert first.any()
        assert [s.kernel for s in session.steps()] == ["step 0", "step 1", "step 2"]
        assert session.stack() is None
        assert session.instructions is None
        assert session.seconds == session.ticks / session.ticks_per_second
        assert session.name == model.graph.name
        with pytest.raises(InputError) as wrong:
            session.run(given.astype(np.float32))
        assert str(wrong.value) == (
            "bytes: input 'x' is float32[1, 4, 9, 9]; legal: int8[1, 4, 9, 9]"
        )
        with pytest.raises(InputError, match=r"^bytes: 2 inputs are given; inputs: x$"):
            session.run(given, given)
    session.close()
    with pytest.raises(MicroError, match="the line to program is closed"):
        session.run(given)


KINDS = """<ir_version: 8, opset_import: ["": 17]>
net (bool[3] a, float16[2, 1] b, int64[2] c, float d) => (bool[3] y, float16[2, 1] z, int64[2] v,
                                                         float w) {
    y = Not(a)
    z = Add(b, b)
    v = Neg(c)
    w = Mul(d, d)
}"""


def test_kinds_of_numbers() -> None:
    """Several inputs and outputs, a number without dimensions among them."""
    given = [np.array([True, False, True]), np.array([[1.5], [-2]], np.float16),
             np.array([1, -(1 << 40)]), np.array(3, np.float32)]  # fmt: skip
    model = compile_c(onnx.parser.parse_model(KINDS), options=OPTIONS)
    with open_board(model, "host", level="-O0") as session:
        found = session.run(*given)
    a, b, c, d = given
    for value, wanted in zip(found, (~a, b + b, -c, d * d), strict=True):
        assert (value.dtype, value.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(value, wanted)


BAD: dict[str, tuple[bytes, int]] = {
    "crc": (frame(HELLO)[:-1] + b"\0", BAD_CRC),
    "long": (b"\xa5\x5a\x01\x01\x00\xff\xff", TOO_LONG),
    "truncated": (frame(WRITE, bytes(100))[:50], TRUNCATED),
    "version": (frame(HELLO, version=2), OTHER_VERSION),
    "command": (frame(77), UNKNOWN),
    "no command": (frame(0), UNKNOWN),
    "length": (frame(RUN, b"x"), BAD_LENGTH),
    "short": (frame(WRITE, b"12345"), BAD_LENGTH),
    "input": (frame(WRITE, struct.pack("<HI", 1, 0)), BAD_NUMBER),
    "described": (frame(DESCRIBE, struct.pack("<BH", 2, 0)), BAD_NUMBER),
    "step": (frame(TICKS, struct.pack("<H", 4)), BAD_NUMBER),
    "behind": (frame(WRITE, struct.pack("<HI", 0, 324) + b"x"), BAD_RANGE),
    "wraps": (frame(WRITE, struct.pack("<HI", 0, 0xFFFFFFFF) + b"x"), BAD_RANGE),
    "read": (frame(READ, struct.pack("<HIH", 0, 127, 2)), BAD_RANGE),
    "much": (frame(READ, struct.pack("<HIH", 0, 0, 0xFFFF)), BAD_RANGE),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_frames_are_refused(name: str, line: ProcessTransport) -> None:
    data, reason = BAD[name]
    line.write(data, 5)
    refused(line, reason)
    greets(line)


@pytest.mark.parametrize("garbage", [b"hello\n", b"\xa5", b"\x5a\xa5\xa5", bytes(600)])
def test_garbage_is_passed_over(garbage: bytes, line: ProcessTransport) -> None:
    line.write(garbage, 5)
    greets(line)


def test_it_ends_when_asked_and_when_the_line_is_closed(program: Path) -> None:
    for said in (frame(EXIT), b"", frame(WRITE, bytes(9))[:5]):
        done = subprocess.run([program], input=said, capture_output=True, timeout=20, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("seed", range(4))
def test_any_bytes(seed: int, program: Path) -> None:
    """Noise, and frames that are right but for their contents, or wrong in a byte."""
    rng = random.Random(seed)
    said = b""
    for _ in range(3000):
        payload = rng.randbytes(rng.choice((0, 2, 3, 6, 8, rng.randrange(265))))
        if rng.random() < 0.5:  # numbers that are nearly right
            payload = struct.pack("<HIH", rng.randrange(3), rng.randrange(400), 9) + payload[:200]
        one = bytearray(frame(rng.randrange(10) % EXIT, payload, rng.randrange(256)))
        if rng.random() < 0.3:
            one[rng.randrange(len(one))] = rng.randrange(256)
        said += bytes(one) if rng.random() < 0.8 else rng.randbytes(rng.randrange(40))
    said += bytes(2 * 264) + frame(HELLO, number=99)
    done = subprocess.run([program], input=said, capture_output=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    assert done.stderr == b""
    assert frame(HELLO | 0x80, number=99)[2:5] in done.stdout[-60:]


class Through(Transport):
    """A line with something in it that changes what comes back."""

    def __init__(self, inner: Transport, change: Callable[[bytes], bytes]) -> None:
        self.inner, self.change = inner, change

    def read(self, n: int, timeout: float) -> bytes:
        return self.change(self.inner.read(n, timeout))

    def write(self, data: bytes, timeout: float) -> None:
        self.inner.write(data, timeout)

    def close(self) -> None:
        self.inner.close()


def test_a_damaged_answer_is_asked_for_again(line: ProcessTransport) -> None:
    rng, most = random.Random(1), [6]

    def noise(data: bytes) -> bytes:
        if len(data) > 20 and rng.random() < 0.2 and most[0]:
            most[0] -= 1
            at = rng.randrange(len(data))
            return data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]
        return data

    given = np.ones((1, 4, 9, 9), np.int8)
    with Session(Through(line, noise), timeout=1.0) as session:
        wanted = session.run(given)[0]
        for _ in range(10):
            np.testing.assert_array_equal(session.run(given)[0], wanted)
    assert most[0] < 6


ENDINGS = {
    "damaged": (lambda data: data[:-1] + bytes([data[-1] ^ 1]) if data else data,
                "HELLO: the answer is damaged: CRC-32 "),
    "cut": (lambda data: data[:9],
            "HELLO: the answer ends after 9 bytes; tried 3 times, 0.2 s each"),
    "nothing": (lambda data: b"", "HELLO: the board gives no answer; tried 3 times, 0.2 s each"),
    "older": (lambda data: b"\xa5\x5a" + frame(HELLO | 0x80, bytes(14), 0, 0)[2:] if data else data,
              "the board speaks version 0 of the protocol, and this smelt speaks version 1: build "
              "its program again"),
    "short": (lambda data: frame(HELLO | 0x80, b"123", 0) if data else data,
              "an answer of the board has 3 bytes, which is too few"),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDINGS)
def test_programs_that_answer_badly(name: str, line: ProcessTransport) -> None:
    change, text = ENDINGS[name]
    with pytest.raises(MicroError) as wrong:
        Session(Through(line, change), timeout=0.2)
    assert str(wrong.value).startswith(text)


def test_a_program_of_another_version(
    line: ProcessTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "VERSION", 9)
    with pytest.raises(MicroError) as wrong:
        Session(line)
    assert str(wrong.value) == (
        "the board speaks version 1 of the protocol, and this smelt speaks version 9: build its "
        "program again"
    )


PEERS = {
    "import time; time.sleep(60)": "HELLO: the board gives no answer; tried 3 times, 0.2 s each",
    "import sys; sys.exit('no board')": "python ended with exit code 1; it said:\n  no board",
    "import os; os.close(1); import time; time.sleep(60)": "python closed its line",
    "while 1: print(end='x' * 999)":
        "HELLO: the board gives no answer; tried 3 times, 0.2 s each",
}  # fmt: skip


@pytest.mark.parametrize("peer", PEERS)
def test_programs_that_do_not_answer(peer: str) -> None:
    with ProcessTransport([sys.executable, "-c", peer]) as line:
        with pytest.raises(MicroError) as wrong:
            Session(line, timeout=0.2)
        text = str(wrong.value).replace(Path(sys.executable).name, "python")
        assert text == PEERS[peer]
        process = line._process
    assert process.returncode is not None


@contextmanager
def at_a_port(command: Sequence[str | Path] = ()) -> Iterator[str]:
    """The name of a serial port of this machine, and a program at its other end."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    process = subprocess.Popen(command, stdin=ours, stdout=ours) if command else None
    try:
        yield os.ttyname(theirs)
    finally:
        os.close(ours)
        os.close(theirs)
        if process is not None:
            process.wait(20)


def test_boards_at_a_serial_port(program: Path) -> None:
    pytest.importorskip("serial")
    x = np.arange(324, dtype=np.int8).reshape(1, 4, 9, 9)
    with ProcessTransport([program]) as line, Session(line) as session:
        wanted = session.run(x)
    with at_a_port([program]) as port, Session(SerialTransport(port)) as session:
        np.testing.assert_array_equal(session.run(x), wanted)
        with pytest.raises(MicroError) as wrong:
            SerialTransport(port)
        assert str(wrong.value).startswith(f"{port} cannot be opened: ")
        assert str(wrong.value).endswith("; another program has it open")


def test_serial_ports_that_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("serial")
    with pytest.raises(MicroError, match=r"^/dev/ttyNone cannot be opened: No such file or "
                                         r"directory; serial ports of this machine: "):  # fmt: skip
        SerialTransport("/dev/ttyNone")
    (tmp_path / "file").touch()
    with pytest.raises(MicroError, match="cannot be opened: Inappropriate ioctl for device; ser"):
        SerialTransport(str(tmp_path / "file"))
    with at_a_port() as port:
        line = SerialTransport(port)
        start = time.monotonic()
        assert line.read(5, 0.1) == b""
        assert 0.05 < time.monotonic() - start < 5
        with pytest.raises(MicroError, match=r"^/dev/.* took no more bytes for 0\.1 s$"):
            line.write(bytes(1 << 20), 0.1)
    for use in (partial(line.read, 5, 0.1), partial(line.write, b"", 0.1)):
        with pytest.raises(MicroError, match=f"^the line to {port} is closed: Input/output error"):
            use()
    line.close()
    monkeypatch.setitem(sys.modules, "serial", None)
    with pytest.raises(MicroError) as wrong:
        SerialTransport(port)
    assert str(wrong.value) == (
        "serial ports need the package pyserial: pip install 'smelt[serial]'"
    )


def test_programs_end_with_a_session_that_is_killed() -> None:
    """An emulator that nobody ends would take a processor for ever."""
    session = (
        "import sys, time; from smelt.micro import ProcessTransport as P\n"
        "peer = 'import os, time; print(os.getpid(), flush=True); time.sleep(600)'\n"
        "line = P([sys.executable, '-c', peer]); print(int(line.read(99, 60)), flush=True)\n"
        "time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", session], stdout=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        peer = int(killed.stdout.readline())
        os.kill(peer, 0)
        killed.kill()
    for _ in range(100):
        try:
            os.kill(peer, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("the program goes on")


def test_the_programs_of_this_package_have_no_warnings(tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is missing")
    host = BOARDS["host"]
    write_program(compile_c(quantized(), host.target, options=OPTIONS), host, tmp_path)
    sources = [p.name for p in tmp_path.glob("*.c")]
    command = ["gcc", *WARNINGS, "-O2", "-fsyntax-only", *sources]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
    assert f"SMELT_SERIAL_VERSION {VERSION}\n" in (NATIVE / "smelt_serial.h").read_text()


def test_what_asks_for_a_heap_does_not_link(tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("the linker of this system cannot be told")
    (tmp_path / "main.c").write_text(
        "#include <stdlib.h>\nint main(int n, char **a) { return malloc((size_t)n) == a[0]; }\n"
    )
    with pytest.raises(MicroError) as wrong:
        build(tmp_path, BOARDS["host"], "-O0")
    assert str(wrong.value) == "the program for host needs malloc, and there is no heap"


def test_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MicroError) as wrong:
        find_board("mps2-an38")
    assert str(wrong.value) == (
        "no board 'mps2-an38'; nearest: mps2-an386, mps2-an385, mps2-an500; boards: mps2-an385, "
        "mps2-an386, mps2-an500, mps3-an547, host"
    )
    with pytest.raises(MicroError) as wrong:
        build(tmp_path, BOARDS["host"], "-O9")
    assert str(wrong.value) == ("-O9 is no level of optimization; legal: -O0, -O1, -O2, -O3, -Os")
    (tmp_path / "main.c").write_text("int main(void) { return x; }\n")
    with pytest.raises(MicroError, match=r"^the program for host cannot be compiled; the C comp"):
        build(tmp_path, BOARDS["host"])
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MicroError) as wrong:
        build(tmp_path, BOARDS["mps2-an386"])
    assert str(wrong.value) == (
        "a C compiler for mps2-an386 is needed, and none was found\n"
        "  tried: arm-none-eabi-gcc, the Python package ziglang\n"
        "  install one of them: apt install gcc-arm-none-eabi libnewlib-arm-none-eabi, or pip "
        "install ziglang"
    )
    with pytest.raises(MicroError, match="needs qemu-system-arm, which is missing: apt install"):
        sessions.open_board(compile_c(quantized(), options=OPTIONS), "mps2-an386")
