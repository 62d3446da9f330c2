"""What lies in the cache is data: nothing in it is executed before it is checked."""

from __future__ import annotations

import io
import os
import pickle
from pathlib import Path

import pytest

from smelt.artifact.kernel import CompiledKernel
from smelt.artifact.model import _KernelReader, _read_kernel
from smelt.artifact.packing import Pack
from smelt.ir.expr import const


class Evil:
    """Would make a folder when it is read by a plain unpickler."""

    def __init__(self, path: str) -> None:
        """Keep the path."""
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, (self.path,))


def test_a_compiled_kernel_is_read() -> None:
    pack = Pack((1, 8, 16), ((1, 16, 0), (0, 0, 0), (1, 0, 16)))
    made = CompiledKernel(b"code", (), (const(64),), (pack, None), const(7), "trace")
    assert _read_kernel(pickle.dumps(made)) == made


def test_foreign_code_is_not_run(tmp_path: Path) -> None:
    target = tmp_path / "made"
    assert _read_kernel(pickle.dumps(Evil(str(target)))) is None
    assert not target.exists()
    assert _read_kernel(pickle.dumps({"no": "artifact"})) is None
    assert _read_kernel(b"damaged") is None


@pytest.mark.parametrize(
    "found",
    [
        ("smelt.ir.node", "NodeMeta"),  # makes source of the names that it is given
        ("smelt.ir.module", "IRModule"),
        ("smelt.artifact.kernel", "Path"),
        ("smelt.artifact.kernel", "KernelSpec"),
        ("smelt.artifact.kernel", "CompiledKernel.__class__"),
        ("smelt.ir.expr", "const"),
    ],
)
def test_only_data_of_kernels_is_made(found: tuple[str, str]) -> None:
    with pytest.raises((pickle.UnpicklingError, AttributeError)):
        _KernelReader(io.BytesIO()).find_class(*found)
