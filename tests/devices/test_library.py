"""The loader of static programs, under sanitizers: broken libraries are one error each."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import smelt
from smelt.runtime.compilers import find_compiler, find_static_compiler, run_compiler
from smelt.runtime.errors import ExportError
from smelt.runtime.linking import export_runner
from smelt.runtime.native import source_folder

from .test_cross import CASES, OPTIONS, network, numbers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="programs are for Linux")


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """smelt-run with sanitizers."""
    made = tmp_path_factory.mktemp("checked") / "smelt-run"
    folder = source_folder()
    files = [*folder.glob("*.c"), folder / "tools" / "smelt_run.c", folder / "tools" / "library.c"]
    flags = ["-std=c11", "-O1", "-g", "-DSMELT_ALONE", "-fsanitize=address,undefined",
             "-fno-sanitize-recover=all"]  # fmt: skip
    run_compiler(find_compiler(), [*flags, *map(str, files), "-o", str(made), "-lm", "-lpthread"])
    return made


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("library") / "m.so"
    smelt.compile(network(), options=OPTIONS).export_library(path)
    return path


def run(program: Path, *arguments: str | Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=False, timeout=60,
        env={"ASAN_OPTIONS": "detect_leaks=0"},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_the_system_s_loader(checked: Path, case: str, tmp_path: Path) -> None:
    make, shapes = CASES[case]
    model, given = make(), numbers(shapes)
    exe = smelt.compile(model, options=OPTIONS)
    exe.export_library(tmp_path / "m.so")
    np.save(tmp_path / "x.npy", given["x"])
    code, said, error = run(
        checked, tmp_path / "m.so", tmp_path / "x.npy", "-o", tmp_path, "-n", "3"
    )
    assert code == 0, error
    found = [np.load(line.split("written to ")[1]) for line in said.splitlines() if ".npy" in line]
    wanted = exe(**given)
    for a, b in zip(found, wanted if len(found) > 1 else [wanted], strict=True):
        np.testing.assert_array_equal(a, b.numpy())


def test_cut_off_anywhere(checked: Path, library: Path, tmp_path: Path) -> None:
    data = library.read_bytes()
    for size in [0, 1, 63, 64, 500, *range(1000, len(data), max(1000, len(data) // 40))]:
        (tmp_path / "m.so").write_bytes(data[:size])
        code, _, error = run(checked, "-l", tmp_path / "m.so")
        assert code == 1, (size, error)
        assert re.fullmatch("smelt-run: .*\n", error), size


def test_a_damaged_head(checked: Path, library: Path, tmp_path: Path) -> None:
    """Each byte of it in turn: what says which file it is, and where its segments are."""
    data = library.read_bytes()
    for place in range(64):
        for value in (data[place] ^ 0x01, data[place] ^ 0xFF):
            (tmp_path / "m.so").write_bytes(data[:place] + bytes([value]) + data[place + 1 :])
            code, _, error = run(checked, "-l", tmp_path / "m.so")
            assert code == 0 or (code == 1 and error.startswith("smelt-run: ")), (place, error)


def test_what_is_no_library(checked: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a text" * 100)
    (tmp_path / "folder").mkdir()
    for name, text in (
        ("text", "it is no library of a model: smelt.export_library writes them"),
        ("folder", "no regular file"),
        ("none", "No such file or directory"),
    ):
        code, _, error = run(checked, tmp_path / name)
        assert (code, error) == (1, f"smelt-run: {tmp_path / name}: {text}\n")
    code, _, error = run(checked, find_library())
    assert code == 1
    assert error.endswith(": it is no library of a model: it has no smelt_model_descriptor\n")


def find_library() -> str:
    """A shared library that is none of a model."""
    return str(source_folder().parent / "src" / "smelt" / "runtime" / "libsmelt_runtime.so")


def test_a_library_of_another_processor(checked: Path, tmp_path: Path) -> None:
    if shutil.which("aarch64-linux-gnu-gcc") is None or platform.machine() != "x86_64":
        pytest.skip("aarch64-linux-gnu-gcc is missing: make setup-edge")
    made = smelt.compile_artifact(network(), "llvm -mtriple=aarch64-linux-gnu", options=OPTIONS)
    made.export_library(tmp_path / "m.so")
    code, _, error = run(checked, tmp_path / "m.so")
    said = "it is for another processor (ELF machine 183, here 62)"
    assert (code, error) == (1, f"smelt-run: {tmp_path / 'm.so'}: {said}\n")


def test_a_library_without_constants(checked: Path, tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        net (float[4] x) => (float[4] y) { y = Relu(x) }""")
    smelt.compile(model, options=OPTIONS).export_library(tmp_path / "m.so")
    assert run(checked, tmp_path / "m.so")[:2] == (0, "y float32[4]\n")


def test_programs_are_for_linux(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="programs for aarch64-apple-macos cannot be made"):
        export_runner(tmp_path / "smelt-run", "aarch64-apple-macos")
    assert find_static_compiler("my-gcc -x", "aarch64-linux-gnu") == ["my-gcc", "-x"]
