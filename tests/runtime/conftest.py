"""Models in C that follow the ABI: the runtime is tested without a compiler of its own."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smelt.runtime import NativeExecutable
from smelt.runtime.abi import ABI_VERSION

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NATIVE = ROOT / "native"
CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")

Make = Callable[..., NativeExecutable]


def tensor(name: str, dtype: str, *shape: int | str) -> dict[str, Any]:
    """A tensor of the metadata."""
    return {"name": name, "dtype": dtype, "shape": list(shape)}


def metadata(name: str) -> dict[str, Any]:
    """What a compiler would say about the model `name` of model.c."""
    common: dict[str, Any] = {
        "abi": ABI_VERSION,
        "name": name,
        "symbols": [],
        "features": [],
        "target": "llvm",
        "kernels": [],
        "weights_bytes": 0,
        "workspace_bytes": 512,
        "live_bytes": None,
    }
    if name in ("identity", "fail"):
        ends = {"inputs": [tensor("x", "float32", 4)], "outputs": [tensor("y", "float32", 4)]}
        return {**common, **ends}
    if name == "add":
        return {
            **common,
            "inputs": [tensor("x", "float32", "n", 4), tensor("y", "float32", "n", 4)],
            "outputs": [tensor("z", "float32", "n", 4)],
            "symbols": ["n"],
            "kernels": [
                {"name": "shift", "ops": ["add"], "flops": "n * 4", "bytes": "n * 32"},
                {"name": "sum", "ops": ["add"], "flops": "n * 4", "bytes": "n * 48"},
            ],
            "weights_bytes": 4,
            "workspace_bytes": None,
        }
    ends = {"inputs": [tensor("x", "int64", "n")], "outputs": [tensor("total", "int64")]}
    return {**common, **ends, "symbols": ["n"]}


@pytest.fixture(scope="session", autouse=True)
def _native_library() -> None:
    """Builds the native library where it is older than its sources."""
    library = ROOT / "src/smelt/runtime/libsmelt_runtime.so"
    sources = [*NATIVE.glob("*.[ch]")]
    newest = max(s.stat().st_mtime for s in sources)
    if (ROOT / "src") in [Path(p) for p in sys.path] and (
        not library.exists() or library.stat().st_mtime < newest
    ):
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The object file of each model."""
    if CC is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("models")
    found = {}
    for name in ("identity", "add", "sum", "fail"):
        found[name] = folder / f"{name}.o"
        flags = ["-c", "-O2", "-fPIC", "-Wall", f"-DMODEL={name.upper()}", f"-I{NATIVE}"]
        subprocess.run([CC, *flags, str(HERE / "model.c"), "-o", str(found[name])], check=True)
    return found


@pytest.fixture(scope="session")
def make(objects: dict[str, Path]) -> Make:
    """make(name, **changes of the metadata): an executable, as a compiler would make it."""

    def build(name: str, /, threads: int | None = None, **changes: Any) -> NativeExecutable:
        path = objects[name].with_suffix(".so")
        if not path.exists():
            assert CC is not None
            subprocess.run([CC, "-shared", str(objects[name]), "-o", str(path)], check=True)
        code = ctypes.CDLL(str(path))
        plan = None
        if name == "add":
            plan = ctypes.cast(code.smelt_plan, ctypes.c_void_p).value
        entry = ctypes.cast(code.smelt_entry, ctypes.c_void_p).value
        assert entry is not None
        weights = np.array([100.0], np.float32) if name == "add" else None
        data = {**metadata(name), **changes}
        image = objects[name].read_bytes()
        return NativeExecutable(entry, plan, data, weights, code, threads, [image])

    return build
