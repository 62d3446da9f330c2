"""C compilers for boards: Arm's gcc, or zig's; for this machine its own."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from smelt.runtime.compilers import find_compiler
from smelt.runtime.errors import ExportError, MicroError

from .board import Board

LEVELS = ("-O0", "-O1", "-O2", "-O3", "-Os")
_SECONDS = 300.0
_SAID = 12
_ALWAYS = ("-std=c11", "-ffunction-sections", "-fdata-sections", "-fomit-frame-pointer")
_GCC = "arm-none-eabi-gcc"
_HEAP = "".join([f",--wrap={f}" for f in ("malloc", "calloc", "realloc")])
"""Of the linker: what asks for a heap does not link."""


def build(
    folder: Path, board: Board, level: str = "-O3", flags: Sequence[str] = (), wanted: str = ""
) -> Path:
    """Compile a folder's C files to a program, which is returned.

    level   -O0 ... -O3, -Os
    flags   of the compiler, besides
    wanted  as of `cross_compiler`

    Raises MicroError where there is no compiler, and with what it says where it fails.
    """
    if level not in LEVELS:
        raise MicroError(f"{level} is no level of optimization; legal: {', '.join(LEVELS)}")
    program = folder / ("program" if board.is_host else "program.elf")
    sources = sorted(p.name for p in folder.glob("*.c"))
    command, last = compiler(board, wanted)
    command = [*command, *_ALWAYS, level, *flags, *sources, "-o", program.name, *last]
    done = run(command, folder, "the C compiler")
    if done.returncode != 0:
        raise MicroError(_failure(board, done.stderr + done.stdout))
    return program


def run(command: Sequence[str], folder: Path, what: str) -> subprocess.CompletedProcess[str]:
    """Run a tool in a folder, and keep what it says. Raises MicroError where it does not start, or
    does not end in time; what: "the C compiler"."""
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False,
                              errors="replace", stdin=subprocess.DEVNULL,
                              timeout=_SECONDS)  # fmt: skip
    except OSError as e:
        raise MicroError(f"{what} cannot be run: {command[0]}: {e.strerror}") from None
    except subprocess.TimeoutExpired:
        raise MicroError(f"{what} took more than {_SECONDS:.0f} s: {command[0]}") from None


def compiler(board: Board, wanted: str = "") -> tuple[list[str], list[str]]:
    """The compiler's command for a board, and the words behind the sources. Raises MicroError where
    there is none."""
    if not board.is_host:
        return _cross(board, wanted)
    try:
        command = find_compiler()
    except ExportError as e:
        raise MicroError(str(e)) from None
    plain = ["-fno-sanitize=all"] if "ziglang" in command else []
    return [*command, *plain], [*([f"-Wl{_HEAP}"] if sys.platform == "linux" else []), "-lm"]


def _cross(board: Board, wanted: str) -> tuple[list[str], list[str]]:
    """The command for a board, and the words behind the sources."""
    shared = ["-T", "board.ld", "-Wl,--gc-sections"]
    command = cross_compiler(board, wanted=wanted)
    if command[0] == sys.executable:
        return [*command, *shared], []
    # newlib's headers before ours, and its functions behind ours, where it is there
    libraries = ["-lm", "-lc"] if _has_newlib(command[0], board) else []
    ends = ["-nostdlib", f"-Wl{_HEAP}"]
    return [*command, *shared, *ends], [*libraries, "-lgcc"]


def cross_compiler(board: Board, headers: str = "include", wanted: str = "") -> list[str]:
    """The C compiler for a board's processor.

    headers  the folder of those that may be missing
    wanted   "gcc" or "zig"; "": the first that is there

    Raises MicroError where there is none.
    """
    if wanted != "zig" and (gcc := shutil.which(_GCC)):
        return [gcc, *board.gcc, "-ffreestanding", "-idirafter", headers]
    if wanted == "gcc" or importlib.util.find_spec("ziglang") is None:
        raise MicroError(
            f"a C compiler for {board.name} is needed, and none was found\n"
            f"  tried: {_GCC}, the Python package ziglang\n"
            "  install one of them: apt install gcc-arm-none-eabi libnewlib-arm-none-eabi, or pip "
            "install ziglang"
        )
    zig = [sys.executable, "-m", "ziglang", "cc", *board.zig, "-fno-sanitize=all"]
    return [*zig, "-ffreestanding", "-isystem", headers]


def _has_newlib(gcc: str, board: Board) -> bool:
    asked = [gcc, *board.gcc, "-print-file-name=libm.a"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60)
    return "/" in done.stdout


def _failure(board: Board, said: str) -> str:
    """What went wrong, in the compiler's words but for what is known to happen."""
    lacking = sorted({*re.findall(r"undefined (?:symbol: |reference to `)(\w+)", said)})
    if lacking:
        names = ", ".join([n.removeprefix("__wrap_") for n in lacking])
        heap = any("alloc" in n for n in lacking)
        return f"the program for {board.name} needs {names}, " + (
            "and there is no heap"
            if heap
            else "which no library here has: apt install gcc-arm-none-eabi libnewlib-arm-none-eabi "
            "brings a C library"
        )
    large = re.search("overflowed|will not fit|too small", said)
    what = "is too large for it" if large else "cannot be compiled"
    return f"the program for {board.name} {what}; the C compiler says:\n{excerpt(said)}"


def excerpt(said: str) -> str:
    """The first lines of what a tool says, as an error shows them."""
    lines = [line for line in said.splitlines() if line.strip()][:_SAID]
    return "\n".join([f"  {line}" for line in lines or ["it said nothing"]])
