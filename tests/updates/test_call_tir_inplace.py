"""R.call_tir_inplace: programs that write to their operands, in every form and in every machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt
from smelt import relax
from smelt.ir.errors import ParseError, TypeMismatch, VerifyError
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Function, GlobalVar, Tuple, call
from smelt.relax.nodes import Var as GraphVar
from smelt.relax.verify import verify
from smelt.script import from_source

HEAD = """
@I.ir_module
class Module:
    @T.prim_func
    def bump(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("b"):
                v = T.axis.spatial(4, i)
                x[v] = x[v] + y[v]

    @T.prim_func
    def both(
        x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32"), z: T.Buffer((4,), "float32")
    ):
        for i in range(4):
            with T.block("b"):
                v = T.axis.spatial(4, i)
                z[v] = x[v] * y[v]
                y[v] = x[v]

    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
        cls = Module
"""
"""Programs: x += y; and y, z = x, x * y."""

F = 'R.Tensor((4,), "float32")'


def module(*lines: str) -> IRModule:
    made = from_source(HEAD + "\n".join([f"        {line}" for line in lines]) + "\n")
    assert isinstance(made, IRModule)
    return made


def given() -> list[np.ndarray]:
    return [np.arange(1, 5, dtype="float32"), np.arange(2, 6, dtype="float32")]


PROGRAMS = {
    "a parameter": (
        [f"r = R.call_tir_inplace(cls.bump, (x, y), 0, {F})", "return r"], "x",
    ),
    "a value": (
        ["a = R.add(x, y)", f"r = R.call_tir_inplace(cls.bump, (a, y), [0], {F})", "return r"], "",
    ),
    "read before": (
        ["a = R.multiply(x, x)", f"b = R.call_tir_inplace(cls.bump, (x, y), 0, {F})",
         "r = R.add(a, b)", "return r"], "",
    ),
    "read before, and a result": (
        ["a = R.multiply(x, x)", f"b = R.call_tir_inplace(cls.bump, (x, y), 0, {F})",
         "r = R.add(a, b)", "return r, b"], "x",
    ),
    "twice": (
        [f"a = R.call_tir_inplace(cls.bump, (x, y), 0, {F})",
         f"r = R.call_tir_inplace(cls.bump, (a, y), 0, {F})", "return r"], "x",
    ),
    "one of two results": (
        [f"r = R.call_tir_inplace(cls.both, (x, y), [1, -1], [{F}, {F}])", "return r"], "y",
    ),
    "a constant": (
        ['c = R.zeros((4,), "float32")',
         f"r = R.call_tir_inplace(cls.bump, (c, y), 0, {F})", "return r"], "",
    ),
    "a view": (
        ['a = R.reshape(x, (2, 2))', 'b = R.reshape(a, (4,))',
         f"c = R.call_tir_inplace(cls.bump, (b, y), 0, {F})", "r = R.add(c, c)", "return r"], "",
    ),
}  # fmt: skip
"""Bodies, and the parameters that are changed."""


def arrays(made: Any) -> list[np.ndarray]:
    return [np.asarray(m) for m in (made if isinstance(made, tuple | list) else [made])]


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_machines_give_the_same(name: str) -> None:
    lines, changed = PROGRAMS[name]
    mod = module(*lines)
    verify(mod)
    again: Any = from_source(mod.script())
    assert again.script() == mod.script()
    values = given()
    wanted = interpret(mod["main"], *values, module=mod)
    assert all(np.array_equal(a, b) for a, b in zip(values, given(), strict=True))
    exe: Any = smelt.compile(again)
    machine = relax.VirtualMachine(relax.build(mod, "llvm"), smelt.cpu())
    for run in (exe, machine["main"]):
        values = given()
        found = run(*values)
        for a, b in zip(arrays(found), wanted, strict=True):
            np.testing.assert_array_equal(a, b)
        for param, value, before in zip("xy", values, given(), strict=True):
            same = np.array_equal(value, before)
            assert same == (param != changed), f"{param} is {value}"


def test_an_update_is_the_same_memory() -> None:
    exe: Any = smelt.compile(module(*PROGRAMS["one of two results"][0]))
    x, y = given()
    first, second = exe(x, y)
    assert first.address == y.ctypes.data
    assert second.address not in (x.ctypes.data, y.ctypes.data)


def test_a_view_of_a_parameter_is_no_update() -> None:
    mod = module("r = R.broadcast_to(x, (2, 4))", "return r")
    exe = relax.build(mod, "llvm")
    assert not exe.metadata.get("updates")
    assert not smelt.compile(mod).metadata.get("updates")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([f"r = R.call_tir_inplace(cls.bump, (x, y), 0, {F})", "return R.add(x, r)"],
         "'x' is used after bump has updated it in place\n"),
        ([f"r = R.call_tir_inplace(cls.bump, (x, y), out_sinfo={F})", "return r"],
         "inplace_indices is missing"),
        ([f"r = R.call_tir_inplace(cls.bump, (x, y), [0, 1], {F})", "return r"],
         "2 indices for 1 results"),
        ([f"r = R.call_tir_inplace(cls.bump, (x, y), 2, {F})", "return r"],
         "the index of result 0 is 2; legal: -1, or an operand's from 0 to 1"),
        ([f"r = R.call_tir_inplace(cls.both, (x, y), [0, 0], [{F}, {F}])", "return r"],
         "operand 0 would be two results"),
        (['r = R.call_tir_inplace(cls.bump, (x, y), 0, R.Tensor((5,), "float32"))', "return r"],
         "operand 0 is .*4.*, and result 0, which is to be its memory, .*5"),
    ],
)  # fmt: skip
def test_wrong_texts(lines: list[str], message: str) -> None:
    with pytest.raises(ParseError, match=message):
        module(*lines)


def built(order: str) -> IRModule:
    """Graphs that no text can say: they use what has been updated."""
    t = tensor_type((4,), "float32")
    x, y = GraphVar("x", t), GraphVar("y", t)
    a = call("add", x, y)
    bump = GlobalVar("bump")
    b = relax.op.call_tir_inplace(bump, [a, y], [0], t)
    if order == "late":
        r: Any = call("multiply", a, b)
    elif order == "twice":
        r = Tuple((b, relax.op.call_tir_inplace(bump, [a, x], [0], t)))
    else:
        r = relax.op.call_tir_inplace(bump, [b, b], [0], t)
    return module("return x").with_functions({"main": Function((x, y), r)})


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("late", "what it updates in place is used by call of multiply"),
        ("twice", "what it updates in place is used by call of bump"),
        ("same", "what it updates in place is another operand, too"),
    ],
)
def test_the_verifier_refuses_a_use_after_an_update(order: str, message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        verify(built(order))
    with pytest.raises(VerifyError, match=message):
        smelt.compile(built(order))


def test_the_builder_checks_its_operands() -> None:
    t = tensor_type((4,), "float32")
    x = GraphVar("x", t)
    with pytest.raises(TypeMismatch, match="2 indices for 1 results"):
        relax.op.call_tir_inplace("bump", [x, x], [0, -1], t)
