"""Files that are no models, and models that nobody can compile."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import onnx
import pytest

import smelt
from smelt.frontend.onnx.read import last_opset
from smelt.frontend.source import import_model
from smelt.ir.errors import CompileError, ImportFailure, TypeMismatch, Unsupported
from tests.bad_input.conftest import message, tiny
from tests.frontend.models import model, node


def test_a_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "none.onnx"
    assert message(ImportFailure, lambda: smelt.compile(path)) == f"{path}: no such file"
    assert message(ImportFailure, lambda: smelt.compile(str(path))) == f"{path}: no such file"


def test_a_folder(tmp_path: Path) -> None:
    text = f"{tmp_path}: is a directory; give the .onnx file in it"
    assert message(ImportFailure, lambda: smelt.compile(tmp_path)) == text


def test_a_truncated_file(tmp_path: Path) -> None:
    data = tiny().SerializeToString()
    path = tmp_path / "cut.onnx"
    path.write_bytes(data[:-7])
    assert message(ImportFailure, lambda: smelt.compile(path)) == (
        f"cut.onnx: not an ONNX model, or a truncated one ({len(data) - 7} bytes that do not "
        "parse as ModelProto)"
    )


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "m.onnx: the file is empty"),
        (
            b"\x7fELF\x02\x01\x01",
            "m.onnx: not an ONNX model, or a truncated one (7 bytes that do not "
            "parse as ModelProto)",
        ),
        (
            onnx.ModelProto(ir_version=8).SerializeToString(),
            "m.onnx: not an ONNX model (it has no graph)",
        ),
    ],
)
def test_another_file(data: bytes, text: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    assert message(ImportFailure, lambda: smelt.compile(path)) == text


def test_no_model_at_all() -> None:
    assert message(ImportFailure, lambda: smelt.compile(cast(str, 3))) == (
        "an ONNX model is a path, bytes or an onnx.ModelProto, not int"
    )


def test_an_unknown_operator(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    nodes = [node("Frob", ["x"], ["a"]), node("Gadget", ["a"], domain="com.acme")]
    path.write_bytes(model(nodes, {"x": ((2,), "float32")}).SerializeToString())
    assert message(Unsupported, lambda: smelt.compile(path)) == (
        "m.onnx: 2 operators not supported\n"
        "  Frob (not in ai.onnx 18): 1 node ('frob_a')\n"
        "  com.acme.Gadget (not in any opset the model imports for 'com.acme'): "
        "1 node ('gadget_y')\n"
        "  operators of your own: smelt.compile(operators={'com.acme.Gadget': ...})"
    )


@pytest.mark.parametrize("opset", [0, 999])
def test_an_unknown_opset(opset: int) -> None:
    made = tiny()
    made.opset_import[0].version = opset
    assert message(Unsupported, lambda: smelt.compile(made)) == (
        f"test: opset {opset}\n  supported: 1 to {last_opset()}"
    )


def test_wrong_shapes() -> None:
    def text(shapes: dict[str, tuple[int | str, ...]]) -> str:
        return message(TypeMismatch, lambda: smelt.compile(tiny(), shapes=shapes))

    assert text({"z": (1,)}) == "test: shapes names 'z', which is no input\n  inputs: a, x"
    assert text({"x": (1,)}) == (
        "test: shapes gives the input 'x' 1 dimensions, the file 2: (2, 3)"
    )
    assert text({"x": (-1, 3)}) == (
        "test: shapes gives the input 'x' the extent -1; legal: numbers from 0, names, expressions"
    )
    assert text({"x": (2, 5)}) == (
        "test: node 'add_y' (Add-14): add: a [2, 3] and b [2, 5] do not broadcast: "
        "extents 3 and 5 of dimension -1 have to be equal or 1"
    )
    mod = import_model(tiny())
    assert message(CompileError, lambda: smelt.compile(mod, shapes={"x": (1, 3)})) == (
        "shapes are given with the model file; this is an IRModule already"
    )
