"""Builds wheels for several kinds of Linux machines, on any one of them.

    python scripts/wheels.py [MACHINE ...] [--out FOLDER]
    python scripts/wheels.py --check WHEEL ...

The compiler is that of the package ziglang, which has the C libraries of all of them. The build is
setup.py's, in a copy of the sources. A wheel says in its name which machine and which glibc it
needs; its libraries are read, and it is written only if that is true.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "native", "src")
MADE = shutil.ignore_patterns("__pycache__", "*.so", "*.o", "*.egg-info", "native_src")
NEEDED = {"ziglang": "ziglang", "elftools": "pyelftools", "setuptools": "setuptools", "pip": "pip"}
"""Module -> the package that has it."""
OLDEST_SETUPTOOLS = 77
"""pyproject.toml's own bound, which a build without isolation does not look at."""
LIBRARIES = re.compile(r"(libc|libm)\.so\.6|libpthread\.so\.0|libdl\.so\.2|ld-linux[\w.-]*\.so\.\d")
"""What glibc itself is made of."""
PATIENCE = 600
"""Seconds for one wheel; the first one on a machine makes zig compile parts of a C library."""


class WheelError(Exception):
    """A wheel cannot be built, or is not what its name says."""


@dataclass(frozen=True)
class Machine:
    """A kind of machine.

    triple  zig's name of it
    elf     what its ELF files say
    glibc   the oldest C library that wheels for it run with. Source: PEP 599 (2.17); zig's own
            tables begin at 2.27 for RISC-V
    """

    triple: str
    elf: str
    glibc: tuple[int, int] = (2, 17)

    @property
    def compiler(self) -> str:
        """The C compiler, as setup.py takes it from $CC."""
        target = f"{self.triple}.{self.glibc[0]}.{self.glibc[1]}"
        return shlex.join([sys.executable, "-m", "ziglang", "cc", "-target", target])

    def platform(self, name: str) -> str:
        """The tag of its wheels (PEP 600)."""
        return f"manylinux_{self.glibc[0]}_{self.glibc[1]}_{name}"


MACHINES = {
    "x86_64": Machine("x86_64-linux-gnu", "EM_X86_64"),
    "aarch64": Machine("aarch64-linux-gnu", "EM_AARCH64"),
    "armv7l": Machine("arm-linux-gnueabihf", "EM_ARM"),
    "riscv64": Machine("riscv64-linux-gnu", "EM_RISCV", (2, 27)),
}
USUAL = ("x86_64", "aarch64")
"""Machines that all packages which smelt needs have wheels for."""


# ---- what a wheel needs ---------------------------------------------------------------------


def check_library(name: str, data: bytes, elf: str, glibc: tuple[int, int]) -> None:
    """Raise a WheelError unless a library is for a machine, and needs this glibc or an older one
    and nothing else.

    elf  what ELF files of the machine say
    """
    reader = importlib.import_module("elftools.elf.elffile")
    try:
        file = reader.ELFFile(io.BytesIO(data))
    except Exception as e:  # whatever a damaged file makes of it
        raise WheelError(f"{name} is no ELF library: {e}") from None
    if file.header.e_machine != elf:
        raise WheelError(f"{name} is for {file.header.e_machine}, not for {elf}")
    dynamic = file.get_section_by_name(".dynamic")
    if dynamic is None:
        raise WheelError(f"{name} is no shared library: it has no section .dynamic")
    for tag in dynamic.iter_tags("DT_NEEDED"):
        if not LIBRARIES.fullmatch(tag.needed):
            raise WheelError(f"{name} needs {tag.needed}, which not every machine has")
    versions = file.get_section_by_name(".gnu.version_r")
    for library, symbols in versions.iter_versions() if versions else ():
        for symbol in symbols:
            found = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", symbol.name)
            if not found or (int(found[1]), int(found[2])) > glibc:
                raise WheelError(
                    f"{name} needs {symbol.name} of {library.name}, but its wheel is for glibc "
                    f"{glibc[0]}.{glibc[1]} and newer"
                )


def check(wheel: Path) -> None:
    """Raise a WheelError unless the libraries in a wheel are what its name says."""
    tag = re.search(r"-py3-none-manylinux_(\d+)_(\d+)_(\w+)\.whl$", wheel.name)
    if not tag or tag[3] not in MACHINES:
        raise WheelError(f"{wheel.name} is for no machine of these: {', '.join(MACHINES)}")
    try:
        with zipfile.ZipFile(wheel) as archive:
            libraries = {n: archive.read(n) for n in archive.namelist() if n.endswith(".so")}
    except (OSError, zipfile.BadZipFile) as e:
        raise WheelError(f"{wheel} cannot be read: {e}") from None
    if "smelt/runtime/libsmelt_runtime.so" not in libraries:
        raise WheelError(f"{wheel.name} has no smelt/runtime/libsmelt_runtime.so")
    for name, data in libraries.items():
        check_library(name, data, MACHINES[tag[3]].elf, (int(tag[1]), int(tag[2])))


# ---- building -------------------------------------------------------------------------------


def need_packages() -> None:
    """Raise a WheelError that names the packages which are missing, or too old."""
    missing = [p for module, p in NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise WheelError(
            f"wheels are built with {' and '.join(missing)}, not installed here: "
            f"pip install {' '.join(missing)}, or pip install 'smelt[wheels]'"
        )
    found = importlib.metadata.version("setuptools")
    if int(found.split(".")[0]) < OLDEST_SETUPTOOLS:
        raise WheelError(
            f"wheels are built with setuptools {OLDEST_SETUPTOOLS} or newer, and {found} is "
            f"installed here: pip install 'setuptools>={OLDEST_SETUPTOOLS}'"
        )


def build(name: str, sources: Path, folder: Path) -> Path:
    """A wheel for a machine, in a folder that has no other one. Raises WheelError.

    sources  a copy, in which it leaves files
    """
    machine = MACHINES[name]
    shutil.rmtree(sources / "build", ignore_errors=True)  # of another machine
    command = [
        sys.executable, "-m", "pip", "wheel", str(sources), "--wheel-dir", str(folder),
        "--no-deps", "--no-build-isolation", "--no-cache-dir", "--disable-pip-version-check",
        f"--config-settings=--build-option=--plat-name={machine.platform(name)}",
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, env={**os.environ, "CC": machine.compiler},
            capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise WheelError(f"{name}: the build took more than {PATIENCE} seconds") from None
    if done.returncode:
        raise WheelError(f"{name}: the build failed\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    (wheel,) = folder.glob("*.whl")
    return wheel


def place(wheel: Path, folder: Path) -> Path:
    """Put a wheel into a folder, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    beside, target = folder / f".{wheel.name}.{os.getpid()}", folder / wheel.name
    try:
        shutil.copyfile(wheel, beside)
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)
    return target


def build_all(names: list[str], out: Path) -> None:
    """Build wheels, check them, and say so. Raises WheelError."""
    need_packages()
    with tempfile.TemporaryDirectory(prefix="smelt-wheels-") as temporary:
        sources = Path(temporary, "sources")
        for source in SOURCES:
            given, copy = ROOT / source, sources / source
            if given.is_dir():
                shutil.copytree(given, copy, ignore=MADE)
            else:
                copy.parent.mkdir(exist_ok=True)
                shutil.copyfile(given, copy)
        for name in names:
            print(f"{name}: compiling with zig", flush=True)
            wheel = build(name, sources, Path(temporary, name))
            check(wheel)
            made = place(wheel, out)
            glibc = ".".join(map(str, MACHINES[name].glibc))
            size = made.stat().st_size / 1e6
            print(f"{name}: {made} ({size:.1f} MB), for glibc {glibc} and newer", flush=True)


def main() -> None:
    """Build or check what is asked for."""
    options = argparse.ArgumentParser(description="Builds Python wheels for Linux machines.")
    options.add_argument(
        "machines", nargs="*", metavar="MACHINE",
        help=f"of {', '.join(MACHINES)} (default: {' '.join(USUAL)})",
    )  # fmt: skip
    options.add_argument(
        "--out", type=Path, default=ROOT / "dist", metavar="FOLDER", help="default: dist"
    )
    options.add_argument(
        "--check", type=Path, nargs="+", metavar="WHEEL", help="build nothing, check these"
    )
    asked = options.parse_args()
    if wrong := [m for m in asked.machines if m not in MACHINES]:
        options.error(f"no machine {wrong[0]!r}; machines: {', '.join(MACHINES)}")
    try:
        if not asked.check:
            build_all(list(dict.fromkeys(asked.machines)) or list(USUAL), asked.out)
            return
        need_packages()
        for wheel in asked.check:
            check(wheel)
            print(f"{wheel.name}: is what its name says")
    except WheelError as e:
        sys.exit(f"wheels: {e}")


if __name__ == "__main__":
    main()
