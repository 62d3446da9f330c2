"""Which C compiler makes code for which machine, and what is said where there is none."""

from __future__ import annotations

import shutil
import struct
import sys
from pathlib import Path

import pytest

import smelt
from smelt.runtime import compilers
from smelt.runtime.compilers import find_compiler, machine_of
from smelt.runtime.errors import ExportError
from smelt.runtime.linking import export_runner
from tests.models import conv_nets

ZIG = [sys.executable, "-m", "ziglang", "cc", "-target"]


@pytest.mark.parametrize(
    ("triple", "gnu", "zig"),
    [
        ("aarch64-linux-gnu", "aarch64-linux-gnu", "aarch64-linux-gnu"),
        ("aarch64-unknown-linux-gnu", "aarch64-linux-gnu", "aarch64-linux-gnu"),
        ("arm64-unknown-linux-musl", "aarch64-linux-musl", "aarch64-linux-musl"),
        ("armv7-linux-gnueabihf", "arm-linux-gnueabihf", "arm-linux-gnueabihf"),
        ("armv7l-unknown-linux-gnueabihf", "arm-linux-gnueabihf", "arm-linux-gnueabihf"),
        ("armv8-linux", "arm-linux-gnueabihf", "arm-linux-gnueabihf"),
        ("riscv64-unknown-linux-gnu", "riscv64-linux-gnu", "riscv64-linux-gnu"),
        ("x86_64-pc-linux-gnu", "x86_64-linux-gnu", "x86_64-linux-gnu"),
        ("arm64-apple-darwin23.1", "aarch64-macos-", "aarch64-macos"),
        ("x86_64-pc-windows-gnu", "x86_64-windows-gnu", "x86_64-windows-gnu"),
    ],
)
def test_what_a_triple_is_called(triple: str, gnu: str, zig: str) -> None:
    assert (machine_of(triple).gnu, machine_of(triple).zig) == (gnu, zig)


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine without compilers."""
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(compilers, "_has_zig", lambda: False)
    monkeypatch.delenv("TVM_NDK_CC", raising=False)
    return monkeypatch


def test_the_cross_compiler_comes_first_then_zig(nothing: pytest.MonkeyPatch) -> None:
    nothing.setattr(compilers, "_has_zig", lambda: True)
    assert find_compiler(None, "armv7-linux-gnueabihf") == [*ZIG, "arm-linux-gnueabihf"]
    nothing.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert find_compiler(None, "armv7-linux-gnueabihf") == ["/usr/bin/arm-linux-gnueabihf-gcc"]
    assert find_compiler(None, "aarch64-apple-macos") == [*ZIG, "aarch64-macos"]
    assert find_compiler("mine -O1", "armv7-linux-gnueabihf") == ["mine", "-O1"]


@pytest.mark.parametrize(
    ("triple", "said"),
    [
        (
            "aarch64-unknown-linux-gnu",
            "a C compiler for aarch64-unknown-linux-gnu is needed, and none was found\n"
            "  tried: aarch64-linux-gnu-gcc (Debian, Ubuntu: apt install gcc-aarch64-linux-gnu), "
            "the Python package ziglang\n"
            "  install one of them (pip install 'smelt[cross]' needs no system package), or pass "
            "cc=...",
        ),
        (
            "aarch64-apple-macos",
            "a C compiler for aarch64-apple-macos is needed, and none was found\n"
            "  tried: the Python package ziglang\n"
            "  install one of them (pip install 'smelt[cross]' needs no system package), or pass "
            "cc=...",
        ),
        (
            "aarch64-linux-android28",
            "a C compiler for aarch64-linux-android28 is needed: that of the Android NDK\n"
            "  the environment variable TVM_NDK_CC names it, e.g. "
            ".../bin/aarch64-linux-android28-clang, or pass cc=...",
        ),
        (
            "thumbv7em-none-eabihf",
            "there are no shared libraries for thumbv7em-none-eabihf, which names no operating "
            "system that has them; legal: Linux, macOS, Windows, or an object file, model.o",
        ),
    ],
)
@pytest.mark.usefixtures("nothing")
def test_no_compiler(triple: str, said: str) -> None:
    with pytest.raises(ExportError) as caught:
        find_compiler(None, triple)
    assert str(caught.value) == said


@pytest.mark.usefixtures("nothing")
def test_nothing_is_written_without_a_compiler(tmp_path: Path) -> None:
    made = smelt.compile_artifact(conv_nets.mlp(2), "llvm -mtriple=aarch64-linux-gnu")
    with pytest.raises(ExportError, match="a C compiler for aarch64-linux-gnu is needed"):
        made.export_library(tmp_path / "m.so", header=True)
    with pytest.raises(ExportError, match="the C compiler cannot be run: nowhere"):
        made.export_library(tmp_path / "m.tar", cc="nowhere")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("triple", "machine"), [("aarch64-linux-android", 183), ("x86_64-linux-android", 62)]
)
def test_objects_for_android(triple: str, machine: int, tmp_path: Path) -> None:
    """Code alone needs no compiler of the NDK. Source: elf.h, EM_AARCH64 and EM_X86_64."""
    artifact = smelt.compile_artifact(conv_nets.mlp(1), f"llvm -mtriple={triple}")
    artifact.write(tmp_path / "m.o")
    head = (tmp_path / "m.o").read_bytes()[:20]
    magic, bits, order = head[:4], head[4], head[5]
    assert (magic, bits, order) == (b"\x7fELF", 2, 1)
    assert struct.unpack("<HH", head[16:]) == (1, machine)  # relocatable


def test_objects_for_windows(tmp_path: Path) -> None:
    """Programs that run libraries are for Linux."""
    artifact = smelt.compile_artifact(conv_nets.mlp(1), "llvm -mtriple=x86_64-windows-gnu")
    with pytest.raises(ExportError, match="programs for x86_64-windows-gnu cannot be made"):
        export_runner(tmp_path / "smelt-run", "x86_64-windows-gnu")
    assert not list(tmp_path.iterdir())
    artifact.write(tmp_path / "m.o")
    assert (tmp_path / "m.o").read_bytes()[:2] == b"\x64\x86"  # IMAGE_FILE_MACHINE_AMD64


OF_LINUX = "a shared library, e.g. model.so, or model.tar"
OF_WINDOWS = "a shared library of Windows, e.g. model.dll, or model.tar"


@pytest.mark.parametrize(
    ("triple", "name", "said"),
    [
        (
            "aarch64-linux-gnu",
            "m.dll",
            "cannot write m.dll: .dll files are libraries of Windows, and the model is compiled "
            f"for aarch64-linux-gnu; legal: {OF_LINUX}",
        ),
        (
            "x86_64-windows-gnu",
            "m.so",
            "cannot write m.so: .so files are libraries of Linux and macOS, and the model is "
            f"compiled for x86_64-windows-gnu; legal: {OF_WINDOWS}",
        ),
        (
            "x86_64-windows-gnu",
            "m.zip",
            f"cannot write m.zip: .zip files cannot be written; legal: {OF_WINDOWS}",
        ),
        (
            "x86_64-windows-msvc",
            "m.dll",
            "there are no libraries for x86_64-windows-msvc; legal, of Windows: "
            "x86_64-windows-gnu, aarch64-windows-gnu, or an object file, model.o",
        ),
    ],
)
def test_a_library_has_the_ending_of_its_system(
    triple: str, name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    artifact = smelt.compile_artifact(conv_nets.mlp(1), f"llvm -mtriple={triple}")
    with pytest.raises(ExportError) as caught:
        artifact.export_library(name)
    assert str(caught.value) == said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("triple", ["aarch64-macos", "aarch64-apple-macos", "arm64-darwin"])
def test_objects_for_macos(triple: str, tmp_path: Path) -> None:
    """Source: mach-o/loader.h, MH_MAGIC_64 and CPU_TYPE_ARM64."""
    artifact = smelt.compile_artifact(conv_nets.mlp(1), f"llvm -mtriple={triple}")
    artifact.write(tmp_path / "m.o")
    head = (tmp_path / "m.o").read_bytes()[:8]
    assert struct.unpack("<II", head) == (0xFEEDFACF, 0x0100000C)
