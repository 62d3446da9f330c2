"""Compiled models as shared libraries: in Python without the compiler, in C, on other CPUs."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from smelt.runtime import Executable, LoadError, linking, load_module, read_metadata
from tests.models.compare import agree, compiled
from tests.models.conv_nets import dscnn
from tests.models.net import floats
from tests.shipping.conftest import Case, Script

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
pytestmark = pytest.mark.skipif(CC is None, reason="no C compiler")


@pytest.fixture
def library(exe: Executable, tmp_path: Path) -> Path:
    path = tmp_path / "net.so"
    exe.export_library(path, header=True)
    return path


LOAD = """
import sys, numpy
from smelt.runtime import load_module
library, x, y = sys.argv[1:]
exe = load_module(library, threads=2)
numpy.save(y, exe(numpy.load(x)).numpy())
assert len(exe.profile(numpy.load(x)).kernels) == len(exe.metadata["kernels"])
rooms = {m.split(".")[1] for m in sys.modules if m.startswith("smelt.")}
assert rooms == {"runtime"}, rooms
assert not {"llvmlite", "onnx", "onnxruntime", "ml_dtypes", "rich"} & set(sys.modules)
"""


def test_loaded_where_there_is_only_numpy(
    case: Case, library: Path, tmp_path: Path, script: Script
) -> None:
    np.save(tmp_path / "x.npy", case.x)
    script(LOAD, library, tmp_path / "x.npy", tmp_path / "y.npy")
    agree([np.load(tmp_path / "y.npy")], [case.y])


def test_loaded_here_beside_the_original(case: Case, exe: Executable, library: Path) -> None:
    loaded = load_module(library)
    np.testing.assert_array_equal(loaded(case.x).numpy(), exe(case.x).numpy())
    assert read_metadata(library) == loaded.metadata
    assert loaded.inputs == exe.inputs
    assert loaded.outputs == exe.outputs


def test_a_symbolic_batch_survives_the_export(cache: str, tmp_path: Path) -> None:
    exe = compiled(dscnn("n"), cache)
    exe.export_library(tmp_path / "net.so")
    loaded = load_module(tmp_path / "net.so")
    for n in (1, 3, 16):
        x = floats("x", n, 1, 49, 10)["x"]
        np.testing.assert_array_equal(loaded(x).numpy(), exe(x).numpy())


def test_a_program_in_c(case: Case, library: Path, tmp_path: Path) -> None:
    program = tmp_path / "user"
    command = [CC or "cc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{library.parent}"]
    source = Path(__file__).with_name("user.c")
    subprocess.run([*command, str(source), str(library), "-o", str(program)], check=True)
    (tmp_path / "x").write_bytes(case.x.tobytes())
    paths = [str(tmp_path / "x"), str(tmp_path / "y")]
    done = subprocess.run([str(program), *paths], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    agree([np.fromfile(tmp_path / "y", np.float32).reshape(case.y.shape)], [case.y])


def test_a_library_for_another_cpu_is_refused(library: Path, tmp_path: Path) -> None:
    data = library.read_bytes()
    fields = list(linking.FOOTER.unpack(data[-linking.FOOTER.size :]))
    start, size = fields[5:7]
    described = json.loads(data[start : start + size])
    target = described["target"].split(" ")[:2]
    described["features"] = [*described["features"], "avx10.9"]
    described["target"] = "llvm -mcpu=future"
    text = json.dumps(described).encode()
    fields[6:9] = len(text), linking.digest_of(text), start + len(text) + linking.FOOTER.size
    path = tmp_path / "future.so"
    path.write_bytes(data[:start] + text + linking.FOOTER.pack(*fields))
    assert target[0] == "llvm"
    with pytest.raises(LoadError) as caught:
        load_module(path)
    assert str(caught.value) == (
        f"cannot load {path}: compiled for a CPU with avx10.9, which this CPU lacks\n"
        "  target: llvm -mcpu=future"
    )
