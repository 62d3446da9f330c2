"""T.allocate_const: buffers of constants, from the text to machine code."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import smelt
from smelt.codegen.c_helpers import C_TYPE
from smelt.ir import dtype as dt
from smelt.ir.equal import structural_equal
from smelt.ir.errors import ParseError, VerifyError
from smelt.ir.expr import Var, const
from smelt.lowering.flatten import flatten_buffers
from smelt.tir import nodes, parse
from smelt.tir.interpret import interpret
from smelt.tir.schedule import Schedule
from smelt.tir.verify import verify
from tests.codegen_c.build import run_c

SPECIAL = (0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e-30, 0.1, -3.0)
TABLE = np.linspace(0, 1, 8, dtype="float32")


def copied(dtype: str, data: Any) -> nodes.PrimFunc:
    """A program that copies constants."""
    b, out = (nodes.Buffer(n, (const(2), const(4)), dtype) for n in ("table", "out"))
    i, j = (Var(n) for n in "ij")
    body: nodes.Stmt = nodes.BufferStore(out, nodes.BufferLoad(b, (i, j)), (i, j))
    body = nodes.For(i, const(0), const(2), nodes.For(j, const(0), const(4), body))
    return nodes.PrimFunc((out,), nodes.AllocateConst(b, data, body), {"name": "copied"})


@pytest.mark.parametrize("dtype", dt.DTYPES)
def test_elements_of_every_type(dtype: str) -> None:
    kind = dt.to_numpy(dtype)
    if dtype == "bool":
        data = np.arange(8) % 3 == 0
    elif dt.is_float(dtype):
        data = np.array(SPECIAL).astype(kind)
    else:
        low, high = dt.limits(dtype)
        data = np.array([low, high, 0, 1, *range(4)]).astype(kind)
    data = data.reshape(2, 4)
    func = verify(copied(dtype, data))
    assert structural_equal(parse(func.script()), func), func.script()
    out = np.zeros((2, 4), kind)
    interpret(func, out)
    assert structural_equal(out, data)
    if dtype in C_TYPE:
        found = np.zeros((2, 4), kind)
        assert run_c(flatten_buffers(func), found) == 0
        assert structural_equal(found, data)
    if dtype in ("bool", "int8", "uint16", "int64", "float16", "bfloat16", "float32", "float64"):
        given = smelt.nd.array(np.zeros((2, 4), kind))
        smelt.build(func, target="llvm")(given)
        assert structural_equal(given.numpy(), data)


looked_up = parse(
    """
@T.prim_func
def looked_up(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "float32")):
    table = T.allocate_const(TABLE, "float32", (2, 4))
    for i in range(64):
        with T.block("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = table[A[vi] // 4, A[vi] % 4]
""",
    env={"TABLE": TABLE},
)


@pytest.mark.parametrize("kind", ["parallel", "vectorize", "unroll"])
def test_schedules_and_kernels_see_a_captured_table(kind: str) -> None:
    s = Schedule(looked_up)
    outer, inner = s.split(s.get_loops("B")[0], [None, 8])
    getattr(s, kind)(outer if kind == "parallel" else inner)
    at = np.arange(64, dtype="int32") % 8
    found = smelt.nd.array(np.zeros(64, "float32"))
    smelt.build(s.mod["looked_up"], target="llvm")(smelt.nd.array(at), found)
    np.testing.assert_array_equal(found.numpy(), TABLE[at])


def test_a_table_in_an_unrolled_loop() -> None:
    func = parse("""
@T.prim_func
def f(B: T.Buffer((2, 3), "int32")):
    for i in T.unroll(2):
        with T.allocate_const([5, T.int32(6), -7], "int32", (3,)) as table:
            for j in range(3):
                B[i, j] = table[j]
""")
    found = smelt.nd.array(np.zeros((2, 3), "int32"))
    smelt.build(func, target="llvm")(found)
    np.testing.assert_array_equal(found.numpy(), [[5, 6, -7]] * 2)


@pytest.mark.parametrize(
    ("elements", "said"),
    [
        ('[1, 2, 3], "int32", (4,)', "does not fill table: int32[4]"),
        ('[1, 2, 300, 4], "int8", (4,)', "does not fill table: int8[4]"),
        ('[1.5, 2, 3, 4], "int32", (4,)', "does not fill table: int32[4]"),
        ('["a", "b", "c", "d"], "int32", (4,)', "does not fill table"),
        ('3, "int32", (4,)', "3 does not fill table"),
        ('[1, 2, 3, 4], "int32", (n,)', "does not fill table: int32[n]"),
    ],
)
def test_elements_that_do_not_fit_are_refused(elements: str, said: str) -> None:
    text = f"""
@T.prim_func
def f(A: T.Buffer((n,), "int32")):
    n = T.int64()
    table = T.allocate_const({elements})
    A[0] = table[0]
"""
    with pytest.raises(ParseError, match=re.escape(said)):
        parse(text)


def test_programs_that_break_the_rules_are_refused() -> None:
    with pytest.raises(VerifyError, match="table holds constants; nothing is stored there"):
        verify(parse(looked_up.script().replace("B[vi] = table", "table[0, 0] = table")))
    for data in (np.zeros((2, 3), "float32"), np.zeros((2, 4), "float64")):
        with pytest.raises(VerifyError, match=r"table is float32\[2, 4\], dense; its data are"):
            verify(copied("float32", data))
