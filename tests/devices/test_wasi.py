"""Packages of WebAssembly without JavaScript: model.wasm in wasmtime, by its exports."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt.runtime.dtypes import DTYPE_CODES, numpy_dtype
from tests.models.net import Array

from .test_cross import CASES, OPTIONS, numbers
from .webbed import need_compiler

wasmtime = pytest.importorskip("wasmtime", reason="the package wasmtime is missing: make test")
EXPORTS = {"memory", "_initialize", "allocate", "free", "error", "open", "close", "decides",
           "shapes", "run"}  # fmt: skip
TENSOR = "<I4xqIi"
"""A smelt_tensor: address of the elements, rank, address of the dimensions, code of the type."""


class Instance:
    """A package in wasmtime, which gives it the functions of WASI."""

    def __init__(self, package: Path, metadata: dict[str, Any]) -> None:
        """Load the code, and open the model with its constants."""
        self.store = wasmtime.Store()
        self.store.set_wasi(wasmtime.WasiConfig())
        linker = wasmtime.Linker(self.store.engine)
        linker.define_wasi()
        self.module = wasmtime.Module.from_file(self.store.engine, str(package / "model.wasm"))
        self.exports = linker.instantiate(self.store, self.module).exports(self.store)
        self.metadata = metadata
        self.call("_initialize")
        constants = (package / "model.bin").read_bytes()
        self.model = self.call("open", self.put(constants) if constants else 0)
        assert self.model

    def call(self, name: str, *given: int) -> Any:
        """What an exported function gives."""
        return self.exports[name](self.store, *given)

    def put(self, data: bytes) -> int:
        """The address of a copy."""
        at = self.call("allocate", len(data))
        assert at % 64 == 0
        self.exports["memory"].write(self.store, data, at)
        return int(at)

    def get(self, at: int, count: int) -> bytes:
        """The bytes at an address."""
        return bytes(self.exports["memory"].read(self.store, at, at + count))

    def tensor(self, dtype: str, data: int, shape: tuple[int, ...]) -> bytes:
        """A tensor's record."""
        extents = self.put(struct.pack(f"<{len(shape)}q", *shape))
        return struct.pack(TENSOR, data, len(shape), extents, DTYPE_CODES[dtype])

    def run(self, feeds: dict[str, Array]) -> list[Array] | str:
        """The results, or the text of the failure."""
        inputs = self.put(b"".join([
            self.tensor(str(a.dtype), self.put(a.tobytes()), a.shape) for a in feeds.values()
        ]))  # fmt: skip
        infos = self.metadata["outputs"]
        ranks = [len(o["shape"]) for o in infos]
        shapes = [(0,) * r for r in ranks]
        decides = self.call("decides")
        if not decides:
            at = self.put(bytes(8 * sum(ranks)))
            if self.call("shapes", self.model, inputs, at):
                return self.error()
            extents = [*struct.unpack(f"<{sum(ranks)}q", self.get(at, 8 * sum(ranks)))]
            shapes = [tuple([extents.pop(0) for _ in range(r)]) for r in ranks]
        records = []
        for info, shape in zip(infos, shapes, strict=True):
            size = int(np.prod(shape, dtype=int)) * numpy_dtype(info["dtype"]).itemsize
            data = 0 if decides else self.call("allocate", size)
            records.append(self.tensor(info["dtype"], data, shape))
        outputs = self.put(b"".join(records))
        if self.call("run", self.model, inputs, outputs):
            return self.error()
        found = []
        for n, info in enumerate(infos):
            size = struct.calcsize(TENSOR)
            data, rank, place, _ = struct.unpack(TENSOR, self.get(outputs + n * size, size))
            shape = struct.unpack(f"<{rank}q", self.get(place, 8 * rank))
            dtype = numpy_dtype(info["dtype"])
            count = int(np.prod(shape, dtype=int)) * dtype.itemsize
            found.append(np.frombuffer(self.get(data, count), dtype).reshape(shape))
            if decides:
                self.call("free", data)
        return found

    def error(self) -> str:
        """The text of the last failure."""
        return self.get(self.call("error"), 512).partition(b"\0")[0].decode()


def instance(case: str, folder: Path) -> Instance:
    """A model in wasmtime."""
    need_compiler()
    made = smelt.compile_artifact(CASES[case][0](), "wasm", options=OPTIONS)
    made.export_package(folder / case)
    return Instance(folder / case, made.metadata)


@pytest.mark.parametrize("case", CASES)
def test_a_package_runs_without_javascript(case: str, tmp_path: Path) -> None:
    make, shapes = CASES[case]
    given = numbers(shapes)
    made = instance(case, tmp_path)
    wanted = smelt.compile(make(), options=OPTIONS)(**given)
    for _ in range(3):
        found = made.run(given)
        assert isinstance(found, list), found
        for a, b in zip(found, wanted if len(found) > 1 else [wanted], strict=True):
            np.testing.assert_allclose(a, b.numpy(), rtol=1e-5, atol=1e-6)
    made.call("close", made.model)


def test_what_a_host_has_to_give(tmp_path: Path) -> None:
    """One function of WASI; the exports are those of the documents."""
    made = instance("rows", tmp_path)
    asked = [(i.module, i.name) for i in made.module.imports]
    assert asked == [("wasi_snapshot_preview1", "clock_time_get")]
    assert {e.name for e in made.module.exports} == EXPORTS
    page = (Path(__file__).parents[2] / "docs" / "devices.md").read_text()
    for name in EXPORTS:
        assert f"`{name}" in page


def test_failures_have_texts(tmp_path: Path) -> None:
    made = instance("rows", tmp_path)
    said = made.run({"x": np.ones((7, 41), "float32")})
    assert said == "rows: input 'x': dimension 1 is 41, it must be 40"
    assert isinstance(made.run(numbers({"x": (3, 40)})), list)
    assert made.call("open", 8) == 0
    assert "constants at 0x8; they must be aligned to 64 bytes" in made.error()


def test_more_than_there_are_addresses_for(tmp_path: Path) -> None:
    """A product of 40 000 rows with themselves takes 6.4 GB, beyond what 32 bits count."""
    made = instance("rows", tmp_path)
    said = made.run({"x": np.ones((40_000, 40), "float32")})
    assert isinstance(said, str)
    assert re.fullmatch(r"rows: no memory for a workspace of \d{10,11} bytes", said)
    assert made.call("allocate", 0xFFFF0000 - (1 << 32)) == 0
    assert isinstance(made.run(numbers({"x": (3, 40)})), list)
