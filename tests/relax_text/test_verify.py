"""The rules of graph programs, each broken once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smelt.ir.errors import VerifyError
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax.nodes import (
    Constant,
    Function,
    GlobalVar,
    If,
    Tuple,
    TupleGetItem,
    Var,
    call,
    call_tir,
)
from smelt.relax.verify import verify

from .test_text import module, small

X = Var("x", tensor_type((2, 3)))
C = Var("c", tensor_type((), "bool"))
RELU = call("relu", X, name="act")


def fails(program: Any, text: str) -> None:
    with pytest.raises(VerifyError) as caught:
        verify(program if isinstance(program, Function | IRModule) else Function((X,), program))
    assert str(caught.value) == text


def test_what_is_right() -> None:
    verify(small())
    verify(module())
    branch = If(C, Function((), RELU), Function((), X), X.type)
    verify(Function((C, X), branch))


def test_parameters() -> None:
    fails(Function((X, Var("x", X.type)), RELU), "main: two parameters are called 'x'")
    fails(Function((), RELU), "main: the variable 'x' is no parameter of the function")


def test_types() -> None:
    fails(
        RELU.replace(type=tensor_type((2, 4))),
        "main: call of relu ('act'): the type is float32[2, 4], inference gives float32[2, 3]",
    )
    fails(
        RELU.replace(attrs={"slope": 1}),
        "main: call of relu ('act'): relu has no attribute 'slope'; attributes: none",
    )
    fails(
        call("clip", X).replace(attrs={"max": None, "min": None}),
        "main: call of clip: the attributes are {'max': None, 'min': None}; "
        "complete and in order they are "
        "{'min': None, 'max': None}",
    )
    fails(
        Constant(np.zeros(3, np.float32), tensor_type((4,)), "w"),
        "main: constant 'w': the array is float32[3], the type float32[4]",
    )
    wrong = TupleGetItem(call("topk", X, k=1), 2)
    with pytest.raises(VerifyError, match="item 2 of a value of type"):
        _check(wrong)
    fails(
        Function((X, C), If(X, Function((), X), Function((), X), X.type)),
        "main: If: the condition is float32[2, 3], it has to be bool[]",
    )


def _check(value: TupleGetItem) -> None:
    """A foreign item makes `type` fail, so it is looked at before its type is."""
    verify(Function((X,), value))


def test_sizes() -> None:
    n = SizeVar("n")
    fails(
        call("full", shape=(n, 2)),
        "main: call of full: uses the size n, which no parameter's type mentions",
    )


def test_cycles() -> None:
    a = call("relu", X)
    b = call("tanh", a)
    a.args = (b,)  # type: ignore[misc]
    fails(b, "main: call of tanh: a value depends on itself")


def test_programs() -> None:
    m = module()
    t = tensor_type((4, 8))
    y = Var("y", t)
    bad = m.with_functions({"main": Function((y,), call_tir(GlobalVar("lost"), [y], t))})
    fails(bad, "main: call of lost: the module has no function 'lost'; it has: main, add_one")
    bad = m.with_functions({"main": Function((y,), call_tir(GlobalVar("add_one"), [y, y], t))})
    fails(bad, "main: call of add_one: 2 operands and 1 results for the 2 buffers of add_one")
    bad = m.with_functions(
        {"main": Function((y,), call_tir(GlobalVar("add_one"), [y], tensor_type((4, 9))))}
    )
    fails(bad, "main: call of add_one: the buffer B is float32[4, 8], float32[4, 9] is given")
    z = Var("z", tensor_type((SizeVar("n"), 8)))
    verify(m.with_functions({"main": Function((z,), call_tir(GlobalVar("add_one"), [z], z.type))}))
    fails(
        Function((X,), Tuple((X, RELU.replace(args=(Tuple((X,)),))))),
        "main: call of relu ('act'): relu: operand 0 is a tuple; take one of its items",
    )
