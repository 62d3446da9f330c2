"""What lies in the cache is data: nothing in it is executed before it is checked."""

from __future__ import annotations

import io
import os
import pickle
from pathlib import Path

import pytest

from smelt.artifact.constants import ConstantCode, ConstantProgram
from smelt.artifact.kernel import CompiledKernel
from smelt.artifact.reader import Reader, read
from smelt.ir.expr import const


class Evil:
    """Would make a folder when it is read by a plain unpickler."""

    def __init__(self, path: str) -> None:
        """Keep the path."""
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, (self.path,))


def test_a_compiled_kernel_is_read() -> None:
    program = ConstantProgram("text", (1,), ((1, 512),))
    made = CompiledKernel(b"code", (), (const(64),), (program,), const(7), "trace")
    assert read(CompiledKernel, pickle.dumps(made)) == made
    code = ConstantCode(b"code", (64,))
    assert read(ConstantCode, pickle.dumps(code)) == code
    assert read(CompiledKernel, pickle.dumps(code)) is None


def test_foreign_code_is_not_run(tmp_path: Path) -> None:
    target = tmp_path / "made"
    assert read(CompiledKernel, pickle.dumps(Evil(str(target)))) is None
    assert not target.exists()
    assert read(CompiledKernel, pickle.dumps({"no": "artifact"})) is None
    assert read(CompiledKernel, b"damaged") is None


@pytest.mark.parametrize(
    "found",
    [
        ("smelt.ir.node", "NodeMeta"),  # makes source of the names that it is given
        ("smelt.ir.module", "IRModule"),
        ("smelt.artifact.kernel", "Path"),
        ("smelt.artifact.kernel", "KernelSpec"),
        ("smelt.artifact.constants", "Preparation"),
        ("smelt.artifact.kernel", "CompiledKernel.__class__"),
        ("smelt.ir.expr", "const"),
    ],
)
def test_only_data_of_kernels_is_made(found: tuple[str, str]) -> None:
    with pytest.raises((pickle.UnpicklingError, AttributeError)):
        Reader(io.BytesIO()).find_class(*found)
