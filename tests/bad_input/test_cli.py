"""The command line on bad input: one message, no traceback, exit code 2, nothing left behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.bad_input.conftest import Cli, Said, tiny
from tests.frontend.models import model, node

Ruin = Callable[[Path], object]


def refused(said: Said) -> str:
    """The one message of a command that a mistake of the user ended."""
    assert "Traceback" not in said.err
    assert said.out == ""
    assert said.code == 2, said.err
    start = "smelt: error: "
    assert said.err.startswith(start)
    assert said.err.count("smelt: error:") == 1
    return said.err.removeprefix(start).rstrip("\n")


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.onnx"
    onnx.save(tiny(), path)
    return path


FILES: dict[str, tuple[bytes | None, str]] = {
    "missing": (None, "bad.onnx: no such file"),
    "empty": (b"", "bad.onnx: the file is empty"),
    "text": (
        b"# a text\n",
        "bad.onnx: not an ONNX model, or a truncated one (9 bytes that do not parse as ModelProto)",
    ),
    "operator": (
        model([node("Frob", ["x"])], {"x": ((2,), "float32")}).SerializeToString(),
        "bad.onnx: 1 operator not supported\n  Frob (not in ai.onnx 18): 1 node ('frob_y')",
    ),
}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("command", ["compile", "run"])
def test_bad_files(command: str, kind: str, cli: Cli, tmp_path: Path) -> None:
    data, text = FILES[kind]
    if data is not None:
        (tmp_path / "bad.onnx").write_bytes(data)
    before = sorted(tmp_path.iterdir())
    more = ["-o", "bad.so"] if command == "compile" else ["--output", "y.npy"]
    assert refused(cli(command, "bad.onnx", *more)) == text
    assert sorted(tmp_path.iterdir()) == before


ARGUMENTS: dict[str, tuple[list[str], str]] = {
    "kind": (["--target", "llvmm"], "unknown target kind 'llvmm'; nearest: llvm; kinds: llvm, c"),
    "unmade": (["--target", "cuda"], "target kind 'cuda' cannot be compiled yet; today: llvm"),
    "cpu": (["--target", "llvm -mcpu=pentium9"], "unknown CPU 'pentium9' for x86_64-"),
    "option": (["--target", "llvm -mcpuu=x"], "target kind 'llvm' has no option 'mcpuu'; nearest"),
    "name": (
        ["--shape", "z=1,3"],
        "good.onnx: shapes names 'z', which is no input\n  inputs: a, x",
    ),
    "rank": (["--shape", "x=1"], "good.onnx: shapes gives the input 'x' 1 dimensions, the file 2"),
    "extent": (
        ["--shape", "x=5,3"],
        "good.onnx: node 'add_y' (Add-14): add: a [2, 3] and b [5, 3]",
    ),
    "form": (["--shape", "x"], "--shape 'x' is not of the form NAME=SIZE,SIZE,…; an example: "),
}


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_bad_arguments(kind: str, cli: Cli, good: Path) -> None:
    arguments, text = ARGUMENTS[kind]
    assert refused(cli("compile", good.name, *arguments)).startswith(text)


def test_bad_inputs(cli: Cli, good: Path, tmp_path: Path) -> None:
    x = np.zeros((2, 3), np.float32)
    arguments = ("run", good.name, "--input", "in.npz")
    assert refused(cli(*arguments)) == "in.npz: there is no such file"
    np.savez(tmp_path / "in.npz", x=x)
    assert refused(cli(*arguments)) == "in.npz holds x; the inputs are x, a"
    np.savez(tmp_path / "in.npz", x=x.astype(np.float64), a=x)
    assert refused(cli(*arguments)) == (
        "good: input 'x': dtype float64 given, float32 needed; x.astype('float32')\n"
        "  expected: x float32[2, 3]"
    )
    np.savez(tmp_path / "in.npz", x=x[:1], a=x)
    assert refused(cli(*arguments)) == (
        "good: input 'x': shape [1, 3]: dimension 0 is 1, 2 needed\n  expected: x float32[2, 3]"
    )


def test_places_that_cannot_be_written(cli: Cli, good: Path, tmp_path: Path) -> None:
    text = "cannot write none/good.so: the folder none does not exist"
    assert refused(cli("compile", good.name, "-o", "none/good.so")) == text
    (tmp_path / "file").write_text("taken")
    said = cli("compile", good.name, SMELT_CACHE_DIR=str(tmp_path / "file" / "cache"))
    assert refused(said).startswith(
        f"cannot write to the cache folder {tmp_path}/file/cache: Not a directory\n"
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "good.onnx"]


def test_bad_libraries(cli: Cli, tmp_path: Path) -> None:
    assert refused(cli("run", "none.so")) == "cannot load none.so: No such file or directory"
    (tmp_path / "text.so").write_text("hello")
    assert refused(cli("run", "text.so")) == (
        "cannot load text.so: it is not a library written by smelt's export_library"
    )


def test_good_input_is_no_error(cli: Cli, good: Path, tmp_path: Path) -> None:
    assert cli("compile", good.name, "-o", "good.so").code == 0
    assert cli("run", "good.so", "--output", "y.npy").code == 0
    assert np.load(tmp_path / "y.npy").shape == (2, 3)
