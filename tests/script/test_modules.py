"""Decorators and whole modules: `from smelt.script import ir as I, relax as R, tir as T`."""

# mypy: disable-error-code="valid-type, no-untyped-def, no-untyped-call, name-defined, index"
# ruff: noqa: F821 (names of the script language)

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import smelt
from smelt.ir import IRModule, assert_structural_equal
from smelt.ir.errors import ParseError, VerifyError
from smelt.relax.interpret import interpret as run_graph
from smelt.relax.nodes import Function
from smelt.script import from_source, parse
from smelt.script import ir as I
from smelt.script import relax as R
from smelt.script import tir as T
from smelt.script import tir as other_name
from smelt.tir.interpret import interpret
from smelt.tir.nodes import PrimFunc

N = 16
config = SimpleNamespace(tile=4, dtype="float32", scale=np.float32(2.5), shape=(N, 8))
weights = np.arange(8, dtype="float32").reshape(1, 8)


def twice(x):
    return x + x


@I.ir_module
class Module:
    """Two levels in one module."""

    I.module_attrs({"version": 1, "sizes": (N, 2.5, None)})

    @T.prim_func
    def add_one(x: T.handle, y: T.handle):
        T.func_attr({"tir.noalias": True})
        n = T.int64()
        X = T.match_buffer(x, (n, 8), config.dtype)
        Y = T.match_buffer(y, (n, 8), "float32")
        for i, j in T.grid(n, 8):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj] + 1.0

    @R.function
    def main(x: R.Tensor((N, 8), "float32"), *, weights: R.Constant((1, 8), "float32")):
        cls = Module
        y = R.add(x, weights)
        z = R.call_tir(cls.add_one, (y,), R.Tensor((N, 8), "float32"))
        return R.relu(z)

    @T.prim_func(private=True)
    def helper(A: T.Buffer((4,), "int8")):
        A[0] = 1


MODULE: Any = Module  # type checkers do not see what decorators make of a class


def test_a_class_is_a_module_in_its_order() -> None:
    assert isinstance(MODULE, IRModule)
    assert list(MODULE.functions) == ["add_one", "main", "helper"]
    assert MODULE.attrs == {"version": 1, "sizes": (N, 2.5, None)}
    assert isinstance(MODULE["add_one"], PrimFunc)
    assert isinstance(MODULE["main"], Function)
    assert MODULE["helper"].attrs["private"] is True


def test_its_text_is_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    text = MODULE.script()
    assert text == str(MODULE)
    assert text.startswith('@I.ir_module\nclass Module:\n    I.module_attrs({"version": 1, ')
    assert "    @T.prim_func(private=True)\n    def helper(" in text
    again = parse(text, constants={"w0": weights})
    assert isinstance(again, IRModule)
    assert_structural_equal(again, MODULE)
    assert again.script() == text
    MODULE.show()
    assert capsys.readouterr().out == text


def test_both_levels_run() -> None:
    x = np.linspace(-9, 9, N * 8, dtype="float32").reshape(N, 8)
    y = np.zeros_like(x)
    interpret(MODULE["add_one"], x, y)
    np.testing.assert_array_equal(y, x + 1)
    (found,) = run_graph(MODULE["main"], x, module=MODULE)
    np.testing.assert_allclose(found, np.maximum(x + weights + 1, 0), rtol=1e-6)


def test_one_function_alone() -> None:
    func = parse("@T.prim_func\ndef f(A: T.Buffer((4,), 'float32')):\n    A[0] = 1.0\n")
    assert isinstance(func, PrimFunc)
    assert_structural_equal(from_source(func.script()), func)


LEAVING = """def f(A: T.Buffer((4,), "float32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            A[v] = 1.0
"""


def test_the_rules_of_programs_are_checked_too() -> None:
    with pytest.raises(VerifyError, match="v of block B is i, which comes to 7"):
        parse(LEAVING)
    assert isinstance(parse(LEAVING, check_well_formed=False), PrimFunc)


def test_an_empty_module() -> None:
    assert_structural_equal(parse(IRModule().script() + "    pass\n"), IRModule())
    assert IRModule().script() == "@I.ir_module\nclass Module:\n    pass\n"


# ------------------------------------------------------------------------- the program around


def closure(size: int, fused: bool) -> PrimFunc:
    name, extents = f"B_{size}", (size // config.tile, config.tile)

    @other_name.prim_func
    def tiled(A: T.Buffer((size,), "float32"), B: T.Buffer((size,), "float32")):
        for i, j in other_name.grid(*extents):
            with T.block(name):
                v = T.axis.spatial(A.shape[0], i * config.tile + j)
                x = twice(A[v]) * config.scale
                y = x
                if fused:
                    y = T.max(x, 0.0)
                B[v] = y if size > 4 else 0.0

    return tiled


@pytest.mark.parametrize("fused", [True, False])
def test_values_and_functions_of_python(fused: bool) -> None:
    func = closure(N, fused)
    text = func.script()
    assert 'with T.block("B_16"):' in text
    assert ("T.max" in text) == fused
    a, b = np.linspace(-1, 1, N, dtype="float32"), np.zeros(N, "float32")
    interpret(func, a, b)
    np.testing.assert_allclose(b, np.maximum(a * 5, 0) if fused else a * 5, rtol=1e-6)


def test_classes_inside_of_functions() -> None:
    size, block, kind = 8, "C", "float16"

    @I.ir_module(check_well_formed=False)
    class Local:
        EXTENT = 4

        @T.prim_func
        def fill(A: T.Buffer((size, EXTENT), kind)):
            for i, j in T.grid(size, EXTENT):
                with T.block(block):
                    vi, vj = T.axis.remap("SS", [i, j])
                    A[vi, vj] = 0.0

    local: Any = Local
    assert isinstance(local, IRModule)
    assert local["fill"].buffers[0].fixed_shape() == (8, 4)
    assert local["fill"].buffers[0].dtype == "float16"


def test_what_is_wrong_has_its_place_in_the_file() -> None:
    with pytest.raises(ParseError) as caught:

        @T.prim_func
        def wrong(A: T.Buffer((4,), "float32")):
            A[0] = T.epx(A[1])

    line = test_what_is_wrong_has_its_place_in_the_file.__code__.co_firstlineno + 5
    shown = str(caught.value).split("\n")
    assert shown[0] == f"{__file__}:{line}:20: there is no T.epx"
    assert shown[1].strip() == "A[0] = T.epx(A[1])"
    assert shown[2].index("^") == shown[1].index("T.epx")


def test_a_function_of_python_that_raises() -> None:
    def broken(x):
        raise KeyError("no such thing")

    with pytest.raises(ParseError, match="broken raised KeyError: 'no such thing'"):

        @T.prim_func
        def wrong(A: T.Buffer((4,), "float32")):
            A[0] = broken(A[1])


def test_what_is_no_function_or_has_no_source() -> None:
    decorators: list[Any] = [T.prim_func, R.function]
    for decorate in decorators:
        with pytest.raises(ParseError, match="a int is decorated as a program; legal: a function"):
            decorate(3)
        with pytest.raises(ParseError, match="function"):
            decorate(lambda A: A)
        scope: dict[str, Any] = {}
        exec("def hidden(): pass", scope)
        with pytest.raises(ParseError, match=r"hidden: its source cannot be found .* parse\(text"):
            decorate(scope["hidden"])


def test_members_that_are_no_functions() -> None:
    def plain() -> None: ...

    with pytest.raises(ParseError, match="plain is neither a tensor program nor a graph function"):
        I.ir_module(type("M", (), {"plain": plain}))
    with pytest.raises(ParseError, match=r"I\.ir_module decorates a int; legal: a class"):
        I.ir_module(3)  # type: ignore[call-overload]
    with pytest.raises(ParseError, match=r"I\.module_attrs stands in the body of a class"):
        I.module_attrs({})


def test_a_call_of_a_function_that_is_not_there() -> None:
    with pytest.raises(ParseError, match=r"(?s)the module has no function ad_one.*legal: add_one"):

        @I.ir_module
        class Wrong:
            @T.prim_func
            def add_one(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
                B[0] = A[0]

            @R.function
            def main(x: R.Tensor((4,), "float32")):
                return R.call_tir(ad_one, (x,), R.Tensor((4,), "float32"))


def test_names_of_the_language_at_run_time() -> None:
    assert repr(T.Buffer) == "T.Buffer"
    assert repr(T.float32x4) == "T.float32x4"
    for module, name in ((T, "grid"), (R, "relu")):
        with pytest.raises(AttributeError, match="only inside of a function decorated with"):
            getattr(module, name)
    with pytest.raises(AttributeError, match=re.escape("in Python write smelt.tir.exp")):
        getattr(T, "exp")  # noqa: B009 (an attribute alone does nothing)


def test_a_graph_function_alone() -> None:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), *, weights: R.Constant((1, 8), "float32")):
        return R.relu(R.add(x, weights))

    assert isinstance(main, Function)
    assert_structural_equal(parse(main.script(), constants={"w0": weights}), main)
    assert smelt.ir.structural_equal(main, main)
