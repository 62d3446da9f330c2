"""SMELT_CHECK names the pass that changed a result; SMELT_DUMP writes what every pass made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import smelt
from smelt.ir.errors import CompileError, InternalError
from smelt.ir.expr import Var
from smelt.lowering import kernel
from smelt.lowering.lower import lower
from smelt.lowering.watch import Check, StageWriter, check_wanted
from smelt.tir.nodes import PrimFunc
from smelt.tir.parser import parse
from smelt.tir.printer import script
from tests.schedule.support import matmul

from .programs import BUILDERS, concat

MODEL = """<ir_version: 8, opset_import: ["": 17]>
net (float[n, 8] x, float[8, 3] w) => (float[n, 3] y) { a = MatMul(x, w)  y = Relu(a) }"""


@pytest.mark.parametrize("name", ["matmul", "argmax", "concat", "elementwise", "transposed"])
def test_right_passes_are_silent(name: str) -> None:
    func = BUILDERS[name](Var("n", "int64"), *([6, 5] if name in ("matmul", "concat") else [6]))
    check = Check(func)
    assert check.expected is not None
    lower(func, check)


def test_a_wrong_pass_is_named() -> None:
    func = matmul(3, 4, 5)
    wrong = parse(script(func).replace("range(5)", "range(4)").replace("reduce(5,", "reduce(4,"))
    with pytest.raises(InternalError, match=r"the pass halve changed what C holds"):
        Check(func)("halve", wrong)
    outside = parse(script(func).replace("B[v_k, v_j]", "B[v_k + 1, v_j]"))
    with pytest.raises(InternalError, match=r"the pass shift made an invalid program"):
        Check(func)("shift", outside)


def test_strided_buffers_are_compared_in_memory() -> None:
    func = concat(4, 2, 3)
    out = func.buffers[2]
    text = script(func).replace(
        'out: T.Buffer((4, 5), "float32")', 'out: T.Buffer((4, 5), "float32", strides=(1, 4))'
    )
    assert out.name == "out"
    strided = parse(text)
    assert strided.buffers[2].strides
    check = Check(strided)
    assert check.expected is not None
    lower(strided, check)


def test_large_programs_and_indices_that_are_data_are_left_alone() -> None:
    assert Check(matmul(200, 200, 200)).expected is None
    gather = parse(
        'def f(A: T.Buffer((1,), "float32"), I: T.Buffer((4,), "int64"),'
        ' B: T.Buffer((4,), "float32")):\n    for i in range(4):\n        B[i] = A[I[i]]\n'
    )
    assert Check(gather).expected is None


def test_stages_are_numbered_and_written_where_they_changed_something(tmp_path: Path) -> None:
    func = matmul(3, 4, 5)
    old = tmp_path / "k" / "009_old.txt"
    old.parent.mkdir()
    old.write_text("")
    writer = StageWriter(str(tmp_path), "k")
    for name in ("one", "two"):
        writer(name, func)
    writer("three", matmul(3, 4, 6))
    assert sorted(f.name for f in old.parent.iterdir()) == ["000_one.txt", "001_three.txt"]
    assert parse((old.parent / "000_one.txt").read_text()).name == func.name


def test_a_compilation_is_dumped(tmp_path: Path) -> None:
    options = smelt.Options(dump_dir=str(tmp_path / "d"), workers=0)
    exe = smelt.compile(onnx.parser.parse_model(MODEL), options=options)
    assert exe(np.ones((2, 8), "float32"), np.ones((8, 3), "float32")).shape == (2, 3)
    names = sorted(f.relative_to(tmp_path / "d").as_posix() for f in tmp_path.rglob("*.txt"))
    assert "000_imported.txt" in names
    assert "host.txt" in names
    kernels = [n.split("/")[1][4:] for n in names if "/" in n]
    assert kernels[:4] == ["tir.txt", "trace.txt", "scheduled.txt", "lower_blocks.txt"]
    assert kernels[-1] == "llvm.txt"


def test_a_compilation_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMELT_CHECK", "1")
    model = onnx.parser.parse_model(MODEL)
    smelt.compile(model, options=smelt.Options(workers=0))

    def broken(func: PrimFunc, observe: object = None) -> PrimFunc:
        assert callable(observe)
        text = script(func).replace("0.0", "1.0")
        observe("broken", parse(text))
        return func

    monkeypatch.setattr(kernel, "lower", broken)
    with pytest.raises(InternalError, match="the pass broken changed what"):
        smelt.compile(model, options=smelt.Options(workers=0))


def test_switches_are_on_or_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, wanted in (("", False), ("0", False), ("1", True)):
        monkeypatch.setenv("SMELT_CHECK", text)
        assert check_wanted() == wanted
    monkeypatch.setenv("SMELT_CHECK", "yes")
    with pytest.raises(CompileError, match="SMELT_CHECK is 'yes'; legal: 0 or 1"):
        check_wanted()
