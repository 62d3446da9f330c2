"""Libraries and programs that zig's compiler links, for systems that gcc has no packages for."""

from __future__ import annotations

import importlib.util
import re
import shutil
import struct
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import smelt
from smelt.codegen.llvm import object_code, resolve
from smelt.runtime.errors import LoadError
from smelt.runtime.native import source_folder
from smelt.stages import stage_text
from smelt.target import Target

from .crossed import CROSS, Runner
from .test_cross import OPTIONS, loop, network, numbers

ZIG = [sys.executable, "-m", "ziglang", "cc", "-target"]
HERE = Path(__file__).parent

pytestmark = [
    pytest.mark.slow,  # it compiles a C library for each system first
    pytest.mark.skipif(
        importlib.util.find_spec("ziglang") is None, reason="ziglang is missing: make setup-edge"
    ),
]


@pytest.mark.parametrize("make", [network, loop])
def test_a_library_for_linux(make: Callable[[], onnx.ModelProto], tmp_path: Path) -> None:
    """Programs that run straight through, and those that decide, define other functions."""
    machine = CROSS["aarch64"]
    machine.need()
    artifact = smelt.compile_artifact(make(), machine.target, options=OPTIONS)
    artifact.export_library(tmp_path / "m.so", cc=[*ZIG, "aarch64-linux-gnu"])
    given = numbers({"x": (1, 3, 24, 24) if make is network else (3, 4)})
    (found,) = Runner(machine, tmp_path)(tmp_path / "m.so", given)
    wanted = smelt.compile(make(), options=OPTIONS)(**given).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [network, loop])
def test_a_library_for_macos(make: Callable[[], onnx.ModelProto], tmp_path: Path) -> None:
    """It is linked with the runtime; there is no macOS here that runs it."""
    artifact = smelt.compile_artifact(make(), "llvm -mtriple=aarch64-apple-macos", options=OPTIONS)
    artifact.export_library(tmp_path / "m.dylib.so")
    data = (tmp_path / "m.dylib.so").read_bytes()
    # Source: mach-o/loader.h: MH_MAGIC_64, CPU_TYPE_ARM64, MH_DYLIB
    assert struct.unpack("<IIxxxxI", data[:16]) == (0xFEEDFACF, 0x0100000C, 6)
    assert data.endswith(struct.pack("<Q", len(data)))  # the footer, behind the constants


def shown(library: bytes) -> tuple[str, set[str]]:
    """What a library of Windows calls itself and what it exports.

    Source: PE Format (Microsoft), COFF file header, optional header, export directory table.
    """
    (head,) = struct.unpack_from("<I", library, 0x3C)
    assert (library[:2], library[head : head + 4]) == (b"MZ", b"PE\0\0")
    machine, sections, _, _, _, size, flags = struct.unpack_from("<HHIIIHH", library, head + 4)
    assert machine == 0x8664  # IMAGE_FILE_MACHINE_AMD64
    assert flags & 0x2000  # IMAGE_FILE_DLL
    optional = head + 24
    assert struct.unpack_from("<H", library, optional) == (0x20B,)  # PE32+
    rows = [struct.unpack_from("<8xIIII", library, optional + size + 40 * i)
            for i in range(sections)]  # fmt: skip

    def at(address: int) -> int:
        (found,) = (row for row in rows if row[1] <= address < row[1] + row[0])
        return address - int(found[1]) + int(found[3])

    def text(address: int) -> str:
        return library[at(address) : library.index(0, at(address))].decode()

    directory = at(*struct.unpack_from("<I", library, optional + 112))
    name, _, _, count, _, names = struct.unpack_from("<12xIIIIII", library, directory)
    return text(name), {text(a) for a in struct.unpack_from(f"<{count}I", library, at(names))}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_runtime_compiles_for_windows(machine: str, tmp_path: Path) -> None:
    for source in sorted(source_folder().glob("*.c")):
        flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-c", str(source)]
        made = tmp_path / f"{source.stem}.o"
        subprocess.run([*ZIG, f"{machine}-windows-gnu", *flags, "-o", str(made)], check=True)


def test_large_frames_for_windows(tmp_path: Path) -> None:
    """Code that takes many pages of the stack has a function touch them one after another."""
    text = """declare void @use(ptr)
        define i32 @taken() {
          %a = alloca [100000 x i8], align 64
          call void @use(ptr %a)
          ret i32 0
        }"""
    code = object_code(resolve(Target("llvm -mtriple=x86_64-windows-gnu")), text, "taken")
    assert b"___chkstk_ms" in code
    (tmp_path / "taken.o").write_bytes(code)
    (tmp_path / "use.c").write_text("__declspec(dllexport) void use(void *p) { *(char *)p = 1; }")
    files = [str(tmp_path / f) for f in ("taken.o", "use.c")]
    flags = ["-shared", "-o", str(tmp_path / "m.dll")]
    subprocess.run([*ZIG, "x86_64-windows-gnu", *files, *flags], check=True)


@pytest.mark.parametrize("make", [network, loop])
def test_a_library_for_windows(make: Callable[[], onnx.ModelProto], tmp_path: Path) -> None:
    """It is linked with the runtime; there is no Windows here that runs it."""
    artifact = smelt.compile_artifact(make(), "llvm -mtriple=x86_64-windows-gnu", options=OPTIONS)
    artifact.export_library(tmp_path / "m.dll", header=True)
    data = (tmp_path / "m.dll").read_bytes()
    name, functions = shown(data)
    wanted = {"smelt_model_descriptor", f"{artifact.name}_info", "smelt_process_pool_v3"}
    assert name == "m.dll"
    assert functions >= {*wanted, "smelt_model_open", "smelt_model_run", "smelt_free"}
    assert all(f.startswith("smelt_") for f in functions - wanted)
    assert data.endswith(struct.pack("<Q", len(data)))  # the footer, behind the constants
    with pytest.raises(LoadError, match="compiled for another system, this machine has Linux"):
        smelt.load(tmp_path / "m.dll")
    code = f'#include "m.h"\nint main(void) {{ return {artifact.name}_open() == NULL; }}\n'
    (tmp_path / "main.c").write_text(code)
    files = [str(tmp_path / f) for f in ("main.c", "m.dll")]
    program = tmp_path / "main.exe"
    flags = ["-Wall", "-Wextra", "-Werror", "-o", str(program)]
    subprocess.run([*ZIG, "x86_64-windows-gnu", *files, *flags], check=True)
    assert b"m.dll\0" in program.read_bytes()


HEXAGON = "llvm -mtriple=hexagon-unknown-linux-musl -mcpu=hexagonv67"
HVX = f"{HEXAGON} -mattr=+hvxv67,+hvx-length128b"


def hexagon(
    model: onnx.ModelProto | smelt.IRModule, x: np.ndarray, folder: Path, target: str
) -> bytes:
    """What a model gives on Hexagon: a program that holds it, run by the emulator."""
    if shutil.which("qemu-hexagon") is None:
        pytest.skip("qemu-hexagon is missing: make setup-edge")
    artifact = smelt.compile_artifact(model, target, options=OPTIONS)
    artifact.export_library(folder / "net.tar", header=True)
    with tarfile.open(folder / "net.tar") as archive:
        archive.extractall(folder, filter="data")
    (folder / "x").write_bytes(x.tobytes())
    runtime = sorted(source_folder().glob("*.c"))
    files = [HERE / "static_run.c", folder / "model.c", *folder.glob("model*.o"), *runtime]
    flags = [
        "-std=c11",
        "-O2",
        "-static",
        f"-I{folder}",
        f"-I{source_folder()}",
        "-lm",
        "-lpthread",
    ]
    program = [*ZIG, "hexagon-linux-musl", *map(str, files), *flags, "-o", str(folder / "run")]
    subprocess.run(program, check=True)
    places = [folder / name for name in ("run", "weights.bin", "x", "y")]
    subprocess.run(["qemu-hexagon", "-cpu", "v67", *places], check=True)
    return (folder / "y").read_bytes()


@pytest.mark.parametrize("target", [HEXAGON, HVX], ids=["scalar", "HVX"])
def test_a_program_for_hexagon(target: str, tmp_path: Path) -> None:
    """In floats, and in bytes, to the last bit; with vectors of 128 bytes, too."""
    x = numbers({"x": (1, 3, 24, 24)})["x"]
    found = np.frombuffer(hexagon(network(), x, tmp_path, target), np.float32)
    wanted = smelt.compile(network(), options=OPTIONS)(x).numpy()
    np.testing.assert_allclose(found[None], wanted, rtol=1e-5, atol=1e-6)
    samples = np.random.default_rng(1).standard_normal((8, 1, 3, 24, 24)).astype("float32")
    made = smelt.quantize(network(), samples, activations="int8", options=OPTIONS).mod
    exact = np.frombuffer(hexagon(made, samples[3], tmp_path, target), np.float32)
    np.testing.assert_array_equal(exact[None], smelt.compile(made, options=OPTIONS)(samples[3]))
    written = re.findall(r"\bv\d+(?::\d+)?(?:\.\w+)? = ", stage_text(made, "asm", target=target))
    assert bool(written) == (target == HVX)
