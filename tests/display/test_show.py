"""`smelt.show`: what it prints for everything that it takes, in which colours, and its errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import smelt
from smelt import te
from smelt.display import DisplayError, terminal
from smelt.frontend.source import import_model
from smelt.ir.errors import CompileError, ImportFailure
from smelt.ir.module import IRModule
from smelt.tir.parser import parse
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule
from tests.schedule.support import matmul

ROOT = Path(__file__).resolve().parents[2]
Read = Callable[..., str]


@pytest.fixture(name="shown")
def fixture_shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Read:
    """What `smelt.show` prints where there is no terminal."""
    for name in ("FORCE_COLOR", "NO_COLOR", "COLORFGBG", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)

    def run(*args: Any, **kwargs: Any) -> str:
        smelt.show(*args, **kwargs)
        return capsys.readouterr().out

    return run


def model() -> onnx.ModelProto:
    """y = relu(x) + x, of two rows."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xy")
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Add", ["r", "x"], ["y"])]
    return helper.make_model(
        helper.make_graph(nodes, "tiny", [x], [y]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )


def tensors() -> tuple[Any, Any]:
    a = te.placeholder((4, 6), name="A")
    return a, te.compute((4, 6), lambda i, j: a[i, j] * 2.0, name="B")


# ----------------------------------------------------------------------------------- what it takes


def test_a_program_is_printed_as_its_text(shown: Read) -> None:
    func = matmul(3, 4, 5)
    assert shown(func) == script(func)
    assert script(parse(shown(func))) == script(func)


def test_a_schedule_is_printed_with_its_trace(shown: Read, sch: Schedule) -> None:
    assert shown(sch) == f"{script(sch.func)}\n{sch.trace}\n"
    assert shown(sch.trace) == f"{sch.trace}\n"


def test_a_classic_schedule_is_printed_as_what_it_is_lowered_to(shown: Read) -> None:
    a, b = tensors()
    s = te.create_schedule(b.op)
    s[b].split(b.op.axis[1], factor=2)
    text = shown(s)
    assert text == shown(s, args=[a, b]) == shown(te.lower_schedule(s, [a, b]))
    assert "def main(A: " in text
    assert "sch.split(" in text


def test_parts_of_programs(shown: Read) -> None:
    func = matmul(3, 4, 5)
    assert shown(func.body).lstrip().startswith("with T.block")
    assert shown(te.size_var("n") * 2 + 1) == "n * 2 + 1\n"


def test_a_module(shown: Read) -> None:
    mod = IRModule({"first": matmul(3, 4, 5), "second": matmul(2, 2, 2)})
    text = shown(mod)
    assert "class Module:" in text
    assert "def first(" in text
    assert "def second(" in text


@pytest.mark.parametrize("stage", smelt.stages.STAGES)
def test_a_model_at_every_stage(shown: Read, stage: str) -> None:
    assert shown(model(), stage).rstrip() == smelt.stage_text(model(), stage).rstrip()


def test_a_model_in_every_form(shown: Read, tmp_path: Path) -> None:
    file = tmp_path / "tiny.onnx"
    onnx.save(model(), file)
    expected = shown(model())
    assert "R.relu(x)" in expected
    for form in (file, str(file), file.read_bytes(), import_model(model())):
        assert shown(form, "graph").replace("tiny.onnx", "tiny") == expected


def test_marks_stand_under_what_they_name(shown: Read, sch: Schedule) -> None:
    text = shown(
        sch.func, mark={"j_0": "one tile", "C": "[bold] 8 lanes", sch.func.buffers[0]: "a"}
    )
    lines = text.splitlines()
    loop = next(n for n, line in enumerate(lines) if "for j_0" in line)
    assert lines[loop + 1].strip().strip("^") == " one tile"
    assert "^ [bold] 8 lanes" in text
    assert re.search(r"^ +\^ a$", text, re.MULTILINE)


# -------------------------------------------------------------------------------------- in colours


def coloured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], **environment: str
) -> str:
    """A small program, printed on what says that it is a terminal."""
    for name in ("NO_COLOR", "COLORFGBG", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", **environment}.items():
        monkeypatch.setenv(name, value)
    smelt.show(matmul(3, 4, 5))
    return capsys.readouterr().out


def test_a_terminal_gets_colours_and_the_same_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = coloured(monkeypatch, capsys)
    assert "\x1b[95mfor\x1b[0m i " in text
    assert re.sub(r"\x1b\[[0-9;]*m", "", text) == script(matmul(3, 4, 5))


@pytest.mark.parametrize(
    ("environment", "start"),
    [
        ({"NO_COLOR": "1"}, "@T.prim_func"),
        ({"TERM": "dumb"}, "@T.prim_func"),
        ({"COLORFGBG": "0;15"}, "\x1b[34m@T.prim_func"),
        ({"COLORFGBG": "15;0"}, "\x1b[96m@T.prim_func"),
    ],
)
def test_the_environment_says_which_colours(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    environment: dict[str, str],
    start: str,
) -> None:
    assert coloured(monkeypatch, capsys, **environment).startswith(start)


@pytest.mark.parametrize("language", ["llvm", "asm"])
def test_machine_code_is_coloured_too(
    language: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = {"llvm": "define i32 @f(ptr %a) {\n}", "asm": "\tvaddps\t%zmm0, %zmm1"}[language]
    coloured(monkeypatch, capsys)
    terminal.print_text(text, language, "dark")
    shown = capsys.readouterr().out
    assert "\x1b[" in shown
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown).expandtabs() == text.expandtabs() + "\n"


# ------------------------------------------------------------------------------------------ errors

LEGAL = (
    "\n  legal: a PrimFunc, a statement or expression, an IRModule, a Schedule (of a program, or "
    "te's), a Trace, a model (path, bytes, onnx.ModelProto)"
)


def refused(kind: type[Exception], *args: Any, **kwargs: Any) -> str:
    with pytest.raises(kind) as caught:
        smelt.show(*args, **kwargs)
    return str(caught.value)


def test_what_cannot_be_shown() -> None:
    assert refused(DisplayError, 42) == "cannot show an int" + LEGAL
    assert refused(DisplayError, np.zeros(3)) == "cannot show a ndarray" + LEGAL
    assert refused(ImportFailure, "missing.onnx") == "missing.onnx: no such file"


def test_what_does_not_belong_together() -> None:
    func = matmul(3, 4, 5)
    assert refused(DisplayError, func, "tir") == "stage belongs to a model, not to a PrimFunc"
    assert refused(DisplayError, func, args=[]) == "args belong to a te.Schedule, not to a PrimFunc"
    assert refused(DisplayError, model(), mark={"i": ""}) == (
        "mark is for one tensor program, not for a model"
    )
    assert refused(DisplayError, IRModule({"f": func}), mark={"i": ""}) == (
        "mark is for one tensor program: show(mod['name'], mark=...)"
    )
    assert refused(DisplayError, func, theme="blue") == (
        "unknown theme 'blue'\n  legal: dark, light"
    )


def test_unknown_stages_kernels_and_names() -> None:
    assert refused(CompileError, model(), "machine") == (
        "unknown stage 'machine'; stages: graph, fused, layout, tir, scheduled, lowered, llvm, asm"
    )
    assert refused(CompileError, model(), "tir", kernel="conv") == (
        "the model has no kernel 'conv'; kernels: fused_relu_add"
    )
    assert refused(DisplayError, matmul(3, 4, 5), mark={"z": "here"}) == (
        "mark: main has no loop, block or buffer 'z'\n"
        "  legal: a node of the program, or one of A, B, C, i, j, k, root, v_i, v_j, v_k"
    )


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    missing = tmp_path / "no" / "page.html"
    assert refused(DisplayError, matmul(3, 4, 5), html=missing) == (
        f"cannot write {missing}: the folder {missing.parent} does not exist\n"
        "  legal: a file in a folder that is there"
    )
    assert refused(DisplayError, matmul(3, 4, 5), html=tmp_path) == (
        f"cannot write {tmp_path}: it is a folder\n  legal: a file in a folder that is there"
    )


def test_code_stages_have_no_functions() -> None:
    with pytest.raises(CompileError) as caught:
        smelt.stages.stage_module(model(), "llvm")
    assert str(caught.value) == (
        "no functions, but text, at stage 'llvm'; "
        "stages: graph, fused, layout, tir, scheduled, lowered"
    )


# ------------------------------------------------------------------------------------- the document


def test_the_table_of_the_document_is_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "looking.md").read_text()
    scope: dict[str, Any] = {}
    before, _, after = page.partition("<!-- footprint -->")
    blocks = re.findall(r"```python\n(.*?)```", before, re.DOTALL)
    for block in blocks[:1] + blocks[-1:]:
        exec(block, scope)
    printed = capsys.readouterr().out
    table = re.findall(r"```text\n(.*?)```", after, re.DOTALL)[0]
    assert printed.endswith(table)
