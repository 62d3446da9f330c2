"""Compiles printed C with gcc and loads it, for the tests of back ends."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from smelt.codegen.c import c_source
from smelt.tir.nodes import Buffer, PrimFunc

FLAGS = (
    "-std=c99",
    "-pedantic-errors",
    "-O1",
    "-fno-fast-math",
    "-ffp-contract=off",
    "-shared",
    "-fPIC",
)


def run_c(func: PrimFunc, *args: Any) -> int:
    """Run a program through C on numpy arrays (in place) and numbers; its status."""
    source = c_source(func)
    with tempfile.TemporaryDirectory() as folder:
        name = hashlib.sha256(source.encode()).hexdigest()[:12]
        file, library = Path(folder, name + ".c"), Path(folder, name + ".so")
        file.write_text(source)
        done = subprocess.run(
            ["gcc", *FLAGS, str(file), "-o", str(library), "-lm"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr + source
        entry = getattr(ctypes.CDLL(str(library)), func.name)
    entry.restype = ctypes.c_int32
    kinds = {
        "float32": ctypes.c_float,
        "float64": ctypes.c_double,
        "int32": ctypes.c_int32,
        "int64": ctypes.c_int64,
    }
    given: list[Any] = []
    for p, a in zip(func.params, args, strict=True):
        if isinstance(p, Buffer):
            assert isinstance(a, np.ndarray)
            assert a.flags.c_contiguous
            given.append(a.ctypes.data_as(ctypes.c_void_p))
        else:
            given.append(kinds[p.type](a))
    return int(entry(*given))
