"""Sizes known only at run time broadcast in every face: Relay, Relax, te and topi, libraries."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import relax, relay, te, topi
from smelt.ir.module import IRModule
from smelt.relax.parser import parse
from smelt.relax.printer import script
from smelt.runtime.errors import InputError
from smelt.script import ir as I
from smelt.script import relax as R

Array = np.ndarray[Any, Any]
ROWS = list(itertools.product((1, 5), repeat=2))
ADD = "sizes that do not fit: add needs .* or one of them 1, but these are"


def rows(n: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).random((n, 3), np.float32)


def check(f: Callable[[Array, Array], Any], want: Callable[[Array, Array], Array]) -> None:
    """The rows of one operand may be one; other numbers that differ are refused."""
    for n, m in ROWS:
        a, b = rows(n), rows(m, 1)
        np.testing.assert_allclose(f(a, b).numpy(), want(a, b), rtol=1e-6)
    for n, m in ((4, 5), (5, 4), (2, 3)):
        with pytest.raises(InputError, match=ADD):
            f(rows(n), rows(m))


def relay_module() -> IRModule:
    a, b = (relay.var(n, shape=(relay.Any(), 3)) for n in "ab")
    total = relay.add(a, b)
    return IRModule.from_expr(relay.Function([a, b], relay.multiply(relay.nn.relu(total), b)))


@pytest.mark.parametrize("form", ["graph", "aot", "vm"])
def test_relay(form: str) -> None:
    f = relay.create_executor(form, relay_module()).evaluate()
    check(f, lambda a, b: np.maximum(a + b, 0) * b)


def test_relay_broadcasts_to_a_shape_that_is_computed() -> None:
    a, b = (relay.var(n, shape=(relay.Any(), 3)) for n in "ab")
    body = relay.broadcast_to(relay.add(a, b), relay.shape_of(b))
    f = relay.create_executor("vm", IRModule.from_expr(relay.Function([a, b], body))).evaluate()
    for n, m in ((1, 1), (1, 5), (5, 5)):
        np.testing.assert_array_equal(f(rows(n), rows(m)).numpy(), rows(n) + rows(m))
    with pytest.raises(InputError, match=r"dyn.broadcast_to: the shape asks for .1, 3., which"):
        f(rows(5), rows(1))


@I.ir_module
class Written:
    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), y: R.Tensor(("m", 3), "float32")):
        with R.dataflow():
            z = R.add(x, y)
            w = R.multiply(z, x)
            R.output(w)
        return w


def test_relax() -> None:
    machine = relax.VirtualMachine(relax.build(Written, "llvm"), smelt.cpu())
    check(machine["main"], lambda a, b: (a + b) * a)
    check(smelt.compile(Written), lambda a, b: (a + b) * a)


def test_the_type_of_a_relax_call_is_an_expression_and_reads_back() -> None:
    n, m = smelt.tir.Var("n", "int64"), smelt.tir.Var("m", "int64")
    x, y = (
        relax.Var(name, relax.TensorStructInfo((e, 3), "float32"))
        for name, e in (("x", n), ("y", m))
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        builder.emit_func_output(builder.emit(relax.op.add(x, y)))
    text = script(builder.get())
    assert ') -> R.Tensor((T.select(m == 1, n, m), 3), "float32"):' in text
    assert script(parse(text)) == text


def function(a: te.Tensor, b: te.Tensor, c: te.Tensor) -> Callable[[Array, Array], Any]:
    """A program of these tensors as a function that makes its result."""
    f = smelt.build(te.create_prim_func([a, b, c]))

    def run(x: Array, y: Array) -> Any:
        out = smelt.nd.array(np.zeros((max(len(x), len(y)), 3), np.float32))
        f(smelt.nd.array(x), smelt.nd.array(y), out)
        return out

    return run


def test_tensor_expressions() -> None:
    a, b = te.placeholder((te.var("n"), 3), name="A"), te.placeholder((te.var("m"), 3), name="B")
    check(function(a, b, topi.add(a, b)), lambda x, y: x + y)


def test_tensor_expressions_with_a_number() -> None:
    a, b = te.placeholder((te.var("n"), 3), name="A"), te.placeholder((5, 3), name="B")
    run = function(a, b, topi.add(a, b))
    for n in (1, 5):
        np.testing.assert_array_equal(run(rows(n), rows(5, 1)).numpy(), rows(n) + rows(5, 1))
    with pytest.raises(InputError) as e:
        run(rows(3), rows(5))
    assert str(e.value) == (
        "main: sizes that do not fit: add needs 5 = n or one of them 1, but these are 5 and 3\n"
        "  sizes: n = 3; inputs: A float32[n, 3]; B float32[5, 3]; add float32[5, 3]"
    )


def test_a_library(tmp_path: Path) -> None:
    smelt.compile(Written).export_library(tmp_path / "sum.so")
    check(smelt.runtime.load_module(tmp_path / "sum.so"), lambda a, b: (a + b) * a)
