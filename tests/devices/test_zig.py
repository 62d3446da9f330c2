"""Libraries and programs that zig's compiler links, for systems that gcc has no packages for."""

from __future__ import annotations

import importlib.util
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
from smelt.runtime.native import source_folder

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


def hexagon(model: onnx.ModelProto | smelt.IRModule, x: np.ndarray, folder: Path) -> bytes:
    """What a model gives on Hexagon: a program that holds it, run by the emulator."""
    if shutil.which("qemu-hexagon") is None:
        pytest.skip("qemu-hexagon is missing: make setup-edge")
    target = "llvm -mtriple=hexagon-unknown-linux-musl -mcpu=hexagonv67"
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


def test_a_program_for_hexagon(tmp_path: Path) -> None:
    """In floats, and in bytes, to the last bit."""
    x = numbers({"x": (1, 3, 24, 24)})["x"]
    found = np.frombuffer(hexagon(network(), x, tmp_path), np.float32)
    wanted = smelt.compile(network(), options=OPTIONS)(x).numpy()
    np.testing.assert_allclose(found[None], wanted, rtol=1e-5, atol=1e-6)
    samples = np.random.default_rng(1).standard_normal((8, 1, 3, 24, 24)).astype("float32")
    made = smelt.quantize(network(), samples, activations="int8", options=OPTIONS).mod
    exact = np.frombuffer(hexagon(made, samples[3], tmp_path), np.float32)
    np.testing.assert_array_equal(exact[None], smelt.compile(made, options=OPTIONS)(samples[3]))
