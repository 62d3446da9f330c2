"""The text form of graph programs: goldens, the law of the round trip, errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from smelt import tir
from smelt.ir.errors import ParseError
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.ir.walk import free_vars
from smelt.relax.equal import structural_equal
from smelt.relax.nodes import Function, GlobalVar, Tuple, Var, call, call_tir, constant, values
from smelt.relax.parser import parse
from smelt.relax.printer import constant_names, script
from smelt.relax.verify import verify
from smelt.te.prim_func import create_prim_func
from smelt.te.tensor import compute, placeholder

from .graphs import functions

TEXT = """\
@R.function
def main(
    x: R.Tensor((n, 3, 8, 8), "float32"),
    *,
    w0: R.Constant((4, 3, 3, 3), "float32", name="conv.w"),
) -> R.Tensor((n, 4, 4, 4), "float32"):
    v0 = R.conv2d(x, w0, strides=(2, 2), pads=(1, 1, 1, 1))
    v1 = R.relu(v0)
    return v1
"""


def small() -> Function:
    x = Var("x", tensor_type((SizeVar("n"), 3, 8, 8)))
    w = constant(np.ones((4, 3, 3, 3), np.float32), "conv.w")
    return Function((x,), call("relu", call("conv2d", x, w, strides=(2, 2), pads=(1, 1, 1, 1))))


def again(f: Function) -> Function:
    arrays = {n: c.data for n, c in constant_names(f).items()}
    made: Function = parse(script(f), arrays)["main"]
    return made


def test_a_convolution_as_text() -> None:
    assert script(small()) == TEXT


def test_a_border_is_in_the_text() -> None:
    x, w = Var("x", tensor_type((1, 3, 8, 8), "int8")), Var("w", tensor_type((4, 3, 3, 3), "int8"))
    y = call("conv2d", x, w, pads=(1, 1, 1, 1), out_dtype="int32", border=-3)
    f = Function((x, w), y)
    assert 'pads=(1, 1, 1, 1), out_dtype="int32", border=-3)' in script(f)
    assert structural_equal(again(f), f)


def test_the_text_of_the_documentation_is_read() -> None:
    f = parse(TEXT, {"w0": np.ones((4, 3, 3, 3), np.float32)})["main"]
    assert structural_equal(f, small())
    zeros = parse(TEXT, "zeros")["main"]
    assert not structural_equal(zeros, small())
    assert structural_equal(zeros, small(), weights=False)


@given(functions())
@settings(max_examples=150, deadline=None)
def test_text_is_faithful(f: Function) -> None:
    g = again(f)
    assert structural_equal(f, g)
    assert [p.name for p in g.params] == [p.name for p in f.params]
    assert script(g) == script(f)
    sized = set().union(*[free_vars(p.type) for p in f.params])
    used = [free_vars(v.type) for v in values(f.body)]
    if all(u <= sized for u in used):
        verify(g)


def module() -> IRModule:
    a = placeholder((4, 8), name="A")
    program = create_prim_func([a, compute((4, 8), lambda i, j: a[i, j] + 1.0, "B")])
    x = Var("x", tensor_type((4, 8)))
    return IRModule(
        {
            "main": Function((x,), call_tir(GlobalVar("add_one"), [call("relu", x)], x.type)),
            "add_one": program,
        }
    )


def test_a_module_with_a_program() -> None:
    m = module()
    text = script(m)
    assert 'v1 = R.call_tir(add_one, (v0,), R.Tensor((4, 8), "float32"))' in text
    assert "    @T.prim_func\n    def add_one(" in text
    back = parse(text)
    assert structural_equal(back, m)
    verify(back)
    assert isinstance(back["add_one"], tir.nodes.PrimFunc)


def test_what_differs_is_not_equal() -> None:
    x = Var("x", tensor_type((SizeVar("n"), SizeVar("m"))))
    y = Var("x", tensor_type((SizeVar("n"),) * 2))
    n = SizeVar("k")
    same = Var("z", tensor_type((n, SizeVar("l"))))
    assert structural_equal(Function((x,), call("relu", x)), Function((same,), call("relu", same)))
    square = Var("s", tensor_type((n, n)))
    assert not structural_equal(
        Function((x,), call("relu", x)), Function((square,), call("relu", square))
    )
    assert structural_equal(
        Function((y,), call("relu", y)), Function((square,), call("relu", square))
    )
    assert not structural_equal(Function((x,), call("relu", x)), Function((x,), call("tanh", x)))
    twice, once = call("relu", x), call("relu", x)
    assert not structural_equal(
        Function((x,), Tuple((once, once))), Function((x,), Tuple((once, twice)))
    )
    assert not structural_equal(
        Function((x,), call("leaky_relu", x, alpha=0.0)),
        Function((x,), call("leaky_relu", x, alpha=-0.0)),
    )


HEAD = '@R.function\ndef main(x: R.Tensor((n, 4), "float32")) -> R.Tensor((n, 4), "float32"):\n'
NO_ATTRIBUTE = "clip has no attribute 'mim'; nearest: min; attributes: min, max"
OTHER_TYPE = "the result has another type than the function says"
BAD = {
    "return y": ("3:12", "'y' is not defined here", "y"),
    "v0 = R.frob(x)": ("3:10", "no operator 'frob'", "R.frob(x)"),
    "v0 = R.clip(x, mim=0.0)": ("3:10", NO_ATTRIBUTE, "R.clip(x, mim=0.0)"),
    "return R.sum(x)": ("2:45", OTHER_TYPE, 'R.Tensor((n, 4), "float32")'),
    "x = R.relu(x)": ("3:5", "the name x is defined twice", "x = R.relu(x)"),
    "v0 = R.relu(x)": ("2:1", "the function returns nothing", "d"),
    "return (": ("3:12", "'(' was never closed", "("),
    "x += x": ("3:5", "AugAssign is not a statement of the graph language", "x += x"),
}


@pytest.mark.parametrize("line", BAD)
def test_errors_show_the_place(line: str) -> None:
    where, message, marked = BAD[line]
    with pytest.raises(ParseError) as caught:
        parse(f"{HEAD}    {line}\n")
    row, column = map(int, where.split(":"))
    shown = f"{HEAD}    {line}".split("\n")[row - 1]
    place = f"  {shown}\n  {' ' * (column - 1)}{'^' * len(marked)}"
    assert shown[column - 1 :].startswith(marked)
    assert str(caught.value) == f"<script>:{where}: {message}\n{place}"


def test_constants_that_are_not_given() -> None:
    with pytest.raises(ParseError) as caught:
        parse(TEXT)
    assert str(caught.value) == (
        "<script>: no array for the constant w0; give constants={name: array} or constants='zeros'"
    )
    with pytest.raises(
        ParseError, match=r"constant w0: the array given is float32 \(2,\), the text says float32"
    ):
        parse(TEXT, {"w0": np.zeros(2, np.float32)})
