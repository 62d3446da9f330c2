"""Builds the native runtime: the one step of the package that needs a C compiler.

Everything else about the package is in pyproject.toml.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

NATIVE = Path(__file__).resolve().parent / "native"
SOURCES = sorted(NATIVE.glob("*.c"))


def compiler() -> list[str]:
    """The C compiler: $CC, a usual name, or the ziglang package."""
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise SystemExit(
        "smelt's runtime needs a C compiler to build: install gcc or clang, "
        "`pip install ziglang` and build with --no-build-isolation, or set CC"
    )


class BuildRuntime(build_ext):
    """Compiles native/*.c to a plain shared library (no Python in it)."""

    def get_ext_filename(self, fullname: str) -> str:
        """One name on every platform: ctypes loads it by path."""
        return str(Path(*fullname.split("."))) + ".so"

    def build_extension(self, ext: Extension) -> None:
        """One compiler call; the sources are few."""
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        flags = ["-std=c11", "-O2", "-g0", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden"]
        libraries = ["-lpthread", "-ldl"] if sys.platform == "linux" else []
        # Beside and then renamed: a process may have the old library mapped.
        fresh = target.with_name(f"{target.name}.{os.getpid()}")
        sources = [str(source) for source in SOURCES]
        command = [*compiler(), "-shared", *flags, *sources, "-o", str(fresh), *libraries]
        subprocess.run(command, check=True)
        os.replace(fresh, target)


class BuildPython(build_py):
    """Copies the native sources into the package: exported models carry the runtime."""

    def run(self) -> None:
        """The usual files, then native/ as smelt/runtime/native_src/."""
        super().run()
        if self.editable_mode:
            return  # the runtime finds native/ in the source tree
        folder = Path(self.build_lib) / "smelt/runtime/native_src"
        for source in [
            f for end in ("c", "h", "hpp", "mjs", "mts") for f in NATIVE.rglob(f"*.{end}")
        ]:
            target = folder / source.relative_to(NATIVE)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


class PlatformWheel(bdist_wheel):
    """A wheel for this platform and any Python 3: the library does not link with Python."""

    def get_tag(self) -> tuple[str, str, str]:
        """py3-none-<platform>."""
        return "py3", "none", super().get_tag()[2]


RUNTIME = Extension(
    "smelt.runtime.libsmelt_runtime",
    sources=[f"native/{source.name}" for source in SOURCES],
    depends=[f"native/{header.name}" for header in sorted(NATIVE.glob("*.h"))],
)

setup(
    ext_modules=[RUNTIME],
    cmdclass={"build_ext": BuildRuntime, "build_py": BuildPython, "bdist_wheel": PlatformWheel},
)
