"""The mistakes of a first hour: what a new user types, and the one message that answers it.

The tables are in first_hour.py; `folder` makes the files that they name.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

import smelt
from smelt.cli import main as command_line
from smelt.frontend.torch import to_onnx
from smelt.ir.errors import InternalError
from smelt.runtime import Executable, images
from smelt.runtime.errors import SmeltError
from smelt.runtime.executable import Results
from tests.bad_input.conftest import tiny
from tests.bad_input.first_hour import COMMAND_LINE, ENVIRONMENT, PYTHON

X = np.ones((2, 3), np.float32)
CUT = tiny().SerializeToString()[:-7]
FILES: dict[str, bytes] = {
    "good.onnx": tiny().SerializeToString(),
    "empty.onnx": b"",
    "notes.onnx": b"hello\n",
    "cut.onnx": CUT,
    "old.pth": b"\x80\x02\x8a\nl\xfc\x9cF\xf9",
    "m.tflite": b"\x1c\0\0\0TFL3" + bytes(50),
    "m.pb": b"\x08\x01\x12\x04abcd",
    "m.h5": b"\x89HDF\r\n\x1a\n" + bytes(50),
    "m.keras": b"PK\x03\x04" + bytes(50),
    "m.safetensors": b'\x14\0\0\0\0\0\0\0{"a":{}}',
    "m.gguf": b"GGUF\x03\0\0\0" + bytes(40),
    "m.json": b'{"nodes": []}',
    "m.ort": b"\x18\0\0\0ORTM" + bytes(40),
    "m.onnx.data": bytes(64),
    "pointer.onnx": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
    "page.onnx": b"<!DOCTYPE html><html>",
    "other.so": b"\x7fELF" + bytes(100),
    "m.dll": b"MZ\x90\0" + bytes(100),
    "text.npy": b"hello\n",
    "saved/saved_model.pb": b"\x08\x01",
    "empty/notes.txt": b"",
}


def stand_in(name: str, room: str) -> Any:
    """An object of a class of another library."""
    return type(name, (), {"__module__": room})()


class OnCard:
    """Stands for a tensor of torch on a graphics card."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def cpu(self) -> None: ...


class WithGradient(OnCard):
    """Stands for a tensor of torch that requires its gradient."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **_: Any) -> None:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")

    def __array__(self, *_: Any) -> Any:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. "
                           "Use tensor.detach().numpy() instead.")  # fmt: skip


def external() -> onnx.ModelProto:
    """A model whose weight lies in a file beside it."""
    made = tiny()
    weight = onnx.numpy_helper.from_array(X, "w")
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="weights.bin")
    made.graph.initializer.append(weight)
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("home")
    for name, data in FILES.items():
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_bytes(data)
    with zipfile.ZipFile(made / "m.pt", "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}q")
    (made / "external.onnx").write_bytes(external().SerializeToString())
    np.save(made / "one.npy", X)
    for name, arrays in {
        "named": {"X": X, "a": X},
        "wide": {"x": X.astype("float64"), "a": X},
        "cut": {"x": X[:1], "a": X},
    }.items():
        np.savez(made / f"{name}.npz", **arrays)  # type: ignore[arg-type]
    return made


@pytest.fixture
def at_home(folder: Path, cache: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SMELT_CACHE_DIR", cache)
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("SMELT_CACHE", "SMELT_NUM_THREADS", "SMELT_DUMP", "SMELT_CHECK"):
        monkeypatch.delenv(name, raising=False)
    return folder


def listed(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def words(executable: Executable) -> dict[str, Any]:
    """What the table's expressions name."""
    several = Results(list(range(2)), ["y", "z"])  # type: ignore[arg-type]
    return {
        "smelt": smelt, "np": np, "X": X, "tiny": tiny, "exe": executable, "several": several,
        "net": stand_in("Net", "torch.nn.modules.module"),
        "session": stand_in("InferenceSession", "onnxruntime.capi.session"),
        "keras": stand_in("Sequential", "keras.models"),
        "on_card": OnCard(), "with_gradient": WithGradient(),
    }  # fmt: skip


def said(action: Callable[[], Any]) -> str:
    """The message that an action ends with: one that smelt means, and no bug of its own."""
    with pytest.raises(SmeltError) as caught:
        action()
    assert not isinstance(caught.value, InternalError)
    return str(caught.value)


@pytest.mark.parametrize("typed", PYTHON)
def test_in_python(typed: str, exe: Executable, at_home: Path) -> None:
    before = listed(at_home)
    assert said(lambda: eval(typed, words(exe))) == PYTHON[typed]
    assert listed(at_home) == before


@pytest.mark.parametrize("typed", COMMAND_LINE)
def test_on_the_command_line(
    typed: str, at_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = listed(at_home)
    assert answered(typed, monkeypatch, capsys) == COMMAND_LINE[typed]
    assert listed(at_home) == before


def answered(
    typed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """The one message on stderr of a command that ends with exit code 2."""
    monkeypatch.setattr(sys, "argv", ["smelt", *typed.split()])
    with pytest.raises(SystemExit) as done:
        command_line.main()
    printed = capsys.readouterr()
    assert done.value.code == 2
    assert printed.out == ""
    start = "smelt: error: "
    assert printed.err.startswith(start)
    return printed.err.removeprefix(start).removesuffix("\n")


def test_no_arguments_give_the_help(
    at_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["smelt"])
    with pytest.raises(SystemExit) as done:
        command_line.main()
    assert done.value.code == 2
    printed = capsys.readouterr()
    assert "Usage: smelt" in printed.out + printed.err


@pytest.mark.parametrize(("variable", "value"), ENVIRONMENT)
def test_in_the_environment(
    variable: str, value: str, at_home: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv(variable, value)
    text = ENVIRONMENT[variable, value].replace("HOME", str(at_home))
    assert said(lambda: smelt.compile("good.onnx")) == text
    assert answered("compile good.onnx", monkeypatch, capsys) == text


def test_a_folder_that_is_read_only(
    exe: Executable, at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    text = "cannot write m.so: the folder . is not writable"
    assert said(lambda: exe.export_library("m.so")) == text


def without(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a package be missing."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == package else find(name)
    )
    monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize("typed", ["check good.onnx", "bench good.onnx --against onnxruntime"])
def test_without_onnxruntime(
    typed: str, at_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without("onnxruntime", monkeypatch)
    monkeypatch.setattr(smelt, "compile", None, raising=False)  # it is said before the work
    monkeypatch.setattr("smelt.cli.check._print_survey", lambda _: None)
    text = "onnxruntime is not installed: pip install onnxruntime"
    assert answered(typed, monkeypatch, capsys) == text


def test_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    without("PIL", monkeypatch)
    text = "pictures are decoded by Pillow, which is missing: pip install pillow"
    assert said(lambda: images.decode(np.zeros(4, np.uint8))) == text


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    without("torch", monkeypatch)
    text = "PyTorch models need the package torch: pip install torch onnx"
    assert said(lambda: to_onnx(SimpleNamespace(), [("x", (1, 3), "float32")])) == text


def test_without_a_compiler(
    exe: Executable, at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without("ziglang", monkeypatch)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert said(lambda: exe.export_library("m.so")) == (
        "a C compiler is needed, and none was found\n"
        "  tried: $CC, cc, gcc, clang, the Python package ziglang\n"
        "  install one of them (pip install ziglang needs no system package), or pass cc=..."
    )
