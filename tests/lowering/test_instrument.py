"""SMELT_CHECK names the pass that changed a result; SMELT_DUMP writes what every pass made."""

# ruff: noqa: E501 (programs as texts)

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import smelt
from smelt.artifact import kernel
from smelt.ir.errors import CompileError, InternalError, VerifyError
from smelt.ir.expr import Var
from smelt.lowering.instrument import Check, StageWriter, check_wanted
from smelt.pipeline import lower_program as lower
from smelt.tir.nodes import PrimFunc
from smelt.tir.parser import parse
from smelt.tir.printer import script
from tests.schedule.support import matmul
from tests.tir_check.test_threads import TREE, TURN, tiled_on_threads

from .programs import BUILDERS, concat

MODEL = """<ir_version: 8, opset_import: ["": 17]>
net (float[n, 8] x, float[8, 3] w) => (float[n, 3] y) { a = MatMul(x, w)  y = Relu(a) }"""


@pytest.mark.parametrize("name", ["matmul", "argmax", "concat", "elementwise", "transposed"])
def test_right_passes_are_silent(name: str) -> None:
    func = BUILDERS[name](Var("n", "int64"), *([6, 5] if name in ("matmul", "concat") else [6]))
    check = Check(func)
    assert [t.sizes["n"] for t in check.trials] == [5, 1, 12]
    lower(func, check)


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
    assert check.trials
    lower(strided, check)


def test_what_is_not_compared_has_a_reason() -> None:
    check = Check(matmul(200, 200, 200))
    assert not check.trials
    assert check.reason == "it stores more than 1000000 times"
    gaps = parse(
        'def f(A: T.Buffer((4, 4), "float32", strides=(8, 1))):\n'
        "    for i, j in T.grid(4, 4):\n        A[i, j] = 1.0\n"
    )
    assert Check(gaps).reason == "a parameter's elements have gaps between them"
    never = parse(
        'def f(A: T.Buffer((4,), "float32")):\n    for i in range(5):\n        A[i] = 1.0\n'
    )
    check = Check(never)
    assert not check.trials
    assert check.reason == "f: A[4] is outside of its shape (4,), where i = 4"


def test_sizes_that_an_extent_does_not_allow_are_left_out() -> None:
    """n - 2 elements, of n = 1."""
    func = parse(
        'def f(A: T.Buffer((n,), "float32"), B: T.Buffer((n - 2,), "float32"), n: T.int64):\n'
        "    for i in range(n - 2):\n        B[i] = A[i] + A[i + 2]\n"
    )
    check = Check(func)
    assert [dict(t.sizes) for t in check.trials] == [{"n": 5}, {"n": 12}]
    lower(func, check)


GATHER = """
def gather(A: T.Buffer(({rows}, 3), "float32"), I: T.Buffer((6,), "{dtype}"), B: T.Buffer((6, 3), "float32")):
    for i, j in T.grid(6, 3):
        B[i, j] = A[{index}, j]
"""


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
@pytest.mark.parametrize("rows", [1, 3, 20])
def test_indices_that_are_data_are_chosen_within_bounds(rows: int, dtype: str) -> None:
    index = "I[i]" if dtype == "int64" else 'T.cast("int64", I[i])'
    func = parse(GATHER.format(rows=rows, dtype=dtype, index=index))
    check = Check(func)
    assert check.trials
    lower(func, check)
    if rows > 1:
        wrong = parse(script(func).replace("A[", "A[0 * "))
        with pytest.raises(InternalError, match="the pass zero changed what B holds"):
            check("zero", wrong)


def test_data_that_divides_is_not_zero() -> None:
    func = parse(
        'def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):\n'
        "    for i in range(8):\n        B[i] = 100 // A[i]\n"
    )
    assert Check(func).trials


@pytest.mark.parametrize("text", [TURN, TREE, script(tiled_on_threads().func)])
def test_programs_on_threads(text: str) -> None:
    """Passes keep what threads do with the memory they share; one that moves a barrier does not."""
    func = parse(text)
    check = Check(func)
    assert check.trials
    flat = lower(func, check)
    if text is TREE:
        lines = script(flat).splitlines()
        del lines[next(n for n, line in enumerate(lines) if "storage_sync" in line)]
        with pytest.raises(InternalError, match=r"the pass drop (changed what B|made a race)"):
            check("drop", parse("\n".join(lines) + "\n"))


def test_races_of_the_program_itself_are_the_users() -> None:
    func = parse(
        'def f(A: T.Buffer((8,), "int32"), I: T.Buffer((8,), "int64")):\n'
        "    for i in T.parallel(8):\n        A[{at}] = T.int32(1)\n".replace("{at}", "i // 2")
    )
    with pytest.raises(VerifyError, match="iterations of the parallel loop i race for A"):
        Check(func)
    unproved = parse(script(func).replace("i // 2", "I[i]"))
    with pytest.raises(VerifyError, match="a race for A"):
        Check(unproved)


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
    assert exe(np.ones((2, 8), "float32"), np.ones((8, 3), "float32")).numpy().shape == (2, 3)
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

    def broken(func: PrimFunc, steps: object, observe: object, context: object) -> PrimFunc:
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
