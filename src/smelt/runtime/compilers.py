"""C compilers: that of this machine, and those that make code for other machines."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from smelt.runtime.errors import ExportError, system_errors

_SYSTEMS = {"linux": "linux", "darwin": "macos", "macos": "macos", "windows": "windows"}
_ENVIRONMENTS = ("gnu", "musl", "android", "msvc")
_MACHINES = {"arm64": "aarch64", "amd64": "x86_64"}
_GCC = {
    "aarch64-linux-gnu": "gcc-aarch64-linux-gnu",
    "arm-linux-gnueabihf": "gcc-arm-linux-gnueabihf",
    "riscv64-linux-gnu": "gcc-riscv64-linux-gnu",
    "x86_64-linux-gnu": "gcc-x86-64-linux-gnu",
}
"""Packages of Debian and Ubuntu with a cross compiler, by the name that its commands begin with."""
_NDK = "TVM_NDK_CC"


@dataclass(frozen=True)
class Machine:
    """What a triple says, in the words of gcc and zig.

    system       linux, macos, windows; "" where there is no operating system that we know
    environment  of the C library: gnu, gnueabihf, musl, android, ...; "" where none is named
    """

    arch: str
    system: str
    environment: str

    @property
    def gnu(self) -> str:
        """What the commands of gcc begin with."""
        return f"{self.arch}-{self.system}-{self.environment}"

    @property
    def zig(self) -> str:
        """What zig's -target is called."""
        return "-".join([w for w in (self.arch, self.system, self.environment) if w])


def machine_of(triple: str) -> Machine:
    """The machine of an LLVM triple."""
    arch, *rest = triple.split("-")
    arch = _MACHINES.get(arch, "arm" if re.fullmatch(r"armv[6-8].*", arch) else arch)
    system = next((s for w in rest for k, s in _SYSTEMS.items() if w.startswith(k)), "")
    named = next((w for w in rest if w.startswith(_ENVIRONMENTS)), "")
    usual = "gnueabihf" if arch == "arm" else "gnu"
    return Machine(arch, system, named or (usual if system == "linux" else ""))


def find_compiler(cc: str | Sequence[str] | None = None, triple: str = "") -> list[str]:
    """The command of a C compiler: as given, or one that is found.

    triple  of the machine it makes code for; "": this one. Then it is $CC, a usual name, or the
            package ziglang; for others the cross compiler of gcc, ziglang, or that of Android's NDK

    Raises ExportError where there is none, which says how to get one.
    """
    if cc is not None:
        return _command("cc", cc)
    if triple:
        return _cross_compiler(machine_of(triple), triple)
    if os.environ.get("CC"):
        return _command("$CC", os.environ["CC"])
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return [found]
    if _has_zig():
        return [sys.executable, "-m", "ziglang", "cc"]
    raise ExportError(
        "a C compiler is needed, and none was found\n"
        "  tried: $CC, cc, gcc, clang, the Python package ziglang\n"
        "  install one of them (pip install ziglang needs no system package), or pass cc=..."
    )


def _cross_compiler(machine: Machine, triple: str) -> list[str]:
    name = f"{machine.gnu}-gcc"
    if machine.environment.startswith("android"):
        if os.environ.get(_NDK):
            return _command(f"${_NDK}", os.environ[_NDK])
        raise ExportError(
            f"a C compiler for {triple} is needed: that of the Android NDK\n"
            f"  the environment variable {_NDK} names it, e.g. "
            ".../bin/aarch64-linux-android28-clang, or pass cc=..."
        )
    if machine.system == "linux" and (found := shutil.which(name)):
        return [found]
    if machine.system and _has_zig():
        return [sys.executable, "-m", "ziglang", "cc", "-target", machine.zig]
    if not machine.system:
        raise ExportError(
            f"there are no shared libraries for {triple}, which names no operating system that "
            "has them; legal: Linux, macOS, Windows, or an object file, model.o"
        )
    package = _GCC.get(machine.gnu)
    gcc = f" {name} (Debian, Ubuntu: apt install {package})," if package else ""
    raise ExportError(
        f"a C compiler for {triple} is needed, and none was found\n"
        f"  tried:{gcc} the Python package ziglang\n"
        "  install one of them (pip install 'smelt[cross]' needs no system package), or pass "
        "cc=..."
    )


def find_static_compiler(cc: str | Sequence[str] | None, triple: str) -> list[str]:
    """The command of a C compiler for static programs: as given, or one that is found; ziglang's C
    library, musl, makes smaller ones than that of gcc.

    triple  of the machine, as of `find_compiler`

    Raises ExportError where there is none, or the machine has no Linux.
    """
    machine = machine_of(triple or f"{platform.machine()}-{sys.platform}")
    if machine.system != "linux":
        raise ExportError(
            f"programs for {triple or sys.platform} cannot be made: they are for Linux; link the "
            "library with a program of your own there, from its header"
        )
    if cc is None and _has_zig() and machine.environment.startswith("gnu"):
        musl = replace(machine, environment=machine.environment.replace("gnu", "musl"))
        return [sys.executable, "-m", "ziglang", "cc", "-target", musl.zig]
    return find_compiler(cc, triple)


def find_web_compiler(cc: str | Sequence[str] | None = None, threads: bool = False) -> list[str]:
    """The command of a C compiler that makes WebAssembly, with a C library: as given, or ziglang's.

    threads  whether the library is to be one of modules with threads

    Raises ExportError where it is not installed.
    """
    if cc is not None:
        return _command("cc", cc)
    if _has_zig():
        features = ["-mcpu=generic+atomics+bulk_memory+mutable_globals"] if threads else []
        return [sys.executable, "-m", "ziglang", "cc", "-target", "wasm32-wasi", *features]
    raise ExportError(
        "a C compiler for WebAssembly is needed, and none was found\n"
        "  install the Python package ziglang (pip install 'smelt[cross]'), or pass cc=... of a "
        "wasi-sdk"
    )


def _has_zig() -> bool:
    return importlib.util.find_spec("ziglang") is not None


def _command(who: str, given: object) -> list[str]:
    """A command's words. Raises ExportError where there are none."""
    try:
        words = shlex.split(given) if isinstance(given, str) else [str(w) for w in given]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        words = []
    if not words:
        raise ExportError(f"{who} is {given!r}; legal: the command of a C compiler, e.g. 'gcc'")
    return words


def run_compiler(command: Sequence[str], arguments: Sequence[str]) -> None:
    """Runs the C compiler; what it says of a failure is the error."""
    with system_errors(ExportError, f"the C compiler cannot be run: {command[0]}"):
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, errors="replace"
        )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()[:20] or [f"it gave exit code {done.returncode}"]
        text = "\n".join(f"  {line}" for line in said)
        raise ExportError(f"the C compiler failed: {shlex.join(command)}\n{text}")
