"""Accumulators in registers, and vectors of any length: the loops, and what they compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smelt
from smelt import te
from smelt.lowering.flatten import flatten_buffers
from smelt.lowering.promote import promote_accumulators
from smelt.tir.interpret import interpret
from smelt.tir.nodes import PrimFunc
from smelt.tir.parser import parse
from smelt.tir.printer import script

Array = np.ndarray[Any, Any]

ROW_SUM = """
@T.prim_func
def main(A: T.Buffer((24,), "float32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        C[i] = 0.0
        for k in range(6):
            C[i] = C[i] + A[i * 6 + k]
"""

PROMOTED = """
@T.prim_func
def main(A: T.Buffer((24,), "float32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        C[i] = 0.0
        C_acc = T.allocate((1,), "float32", scope="local")
        C_acc[0] = C[i]
        for k in range(6):
            C_acc[0] = C_acc[0] + A[i * 6 + k]
        C[i] = C_acc[0]
"""


def test_a_sum_stays_in_a_register_while_it_grows() -> None:
    assert script(promote_accumulators(parse(ROW_SUM))).strip() == PROMOTED.strip()


@pytest.mark.parametrize(
    ("why", "body"),
    [
        ("the place moves", "C[k] = C[k] + A[k]"),
        ("stored only sometimes", "if A[k] > 0.0:\n            C[0] = C[0] + A[k]"),
        ("another element is read", "C[0] = C[0] + C[k]"),
        ("an element that may be the same is read", "C[0] = C[0] + C[n]"),
        ("data says where", "C[T.int64(A[0])] = A[k]"),
    ],
)
def test_what_is_not_surely_an_accumulator_stays(why: str, body: str) -> None:
    text = f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32"), n: T.int64):
    for k in range(8):
        {body}
"""
    func = parse(text)
    assert promote_accumulators(func) is func, why


def test_a_kept_element_that_says_where_another_is_stored() -> None:
    text = """
@T.prim_func
def main(C: T.Buffer((1,), "int64"), A: T.Buffer((8,), "int64")):
    for k in range(8):
        A[C[0]] = k
        C[0] = C[0] + 1
"""
    func = promote_accumulators(parse(text))
    assert "A[C_acc[0]] = k" in script(func)
    c, a = np.zeros(1, np.int64), np.zeros(8, np.int64)
    interpret(func, c, a)
    np.testing.assert_array_equal(a, np.arange(8))
    assert c[0] == 8


def test_a_loop_that_may_not_run_stores_nothing() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32"), n: T.int64):
    for k in range(n - 3):
        C[7] = C[7] + A[k]
"""
    func = promote_accumulators(parse(text))
    assert "if n - 3 > 0:" in script(func)
    a, c = np.ones(8, np.float32), np.full(8, 5, np.float32)
    for n, want in ((0, 5), (3, 5), (7, 9)):
        out = c.copy()
        interpret(func, a, out, n)
        assert out[7] == want


def test_places_that_are_apart_are_promoted_together() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((64,), "float32")):
    for i in range(4):
        for k in range(8):
            C[T.ramp(i * 16, 1, 8)] = C[T.ramp(i * 16, 1, 8)] + T.broadcast(A[k], 8)
            C[T.ramp(i * 16 + 8, 1, 8)] = C[T.ramp(i * 16 + 8, 1, 8)] - T.broadcast(A[k], 8)
"""
    func = parse(text)
    made = promote_accumulators(func)
    assert script(made).count("C_acc_1[") == 4
    _same(func, made, 8, 64)
    overlapping = parse(text.replace("i * 16 + 8", "i * 16 + 4"))
    assert promote_accumulators(overlapping) is overlapping


def _same(a: PrimFunc, b: PrimFunc, *sizes: int) -> None:
    rng = np.random.default_rng(0)
    first = [rng.integers(-4, 5, n).astype(np.float32) for n in sizes]
    second = [x.copy() for x in first]
    interpret(a, *first)
    interpret(b, *second)
    for x, y in zip(first, second, strict=True):
        np.testing.assert_array_equal(x, y)


@settings(max_examples=40)
@given(
    st.tuples(st.integers(1, 40), st.integers(1, 12), st.integers(1, 70)),
    st.booleans(),
    st.integers(1, 5),
)
def test_vectors_of_any_length(size: tuple[int, int, int], inner: bool, factor: int) -> None:
    """A vector loop around a serial reduction, or inside it, of any number of lanes."""
    m, k, n = size
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    if inner:
        outer, _ = s[c].split(r, factor=factor)
        s[c].reorder(i, outer, s[c].leaf_iter_vars[-1], j)
    s[c].vectorize(j)
    flat = smelt.lower(s, [a, b, c])["main"]
    rng = np.random.default_rng(1)
    x = rng.integers(-3, 4, (m, k)).astype(np.float32)
    y = rng.integers(-3, 4, (k, n)).astype(np.float32)
    out = np.zeros((m, n), np.float32)
    interpret(flat, x.reshape(-1), y.reshape(-1), out.reshape(-1))
    np.testing.assert_array_equal(out, x @ y)


@pytest.mark.parametrize("n", [3, 24, 48, 100, 300, 1000])
def test_vectors_of_any_length_are_compiled(n: int) -> None:
    a = te.placeholder((5, n), name="A")
    c = te.compute((5, n), lambda i, j: a[i, j] * 2.0 + 1.0, name="C")
    s = te.create_schedule(c.op)
    s[c].vectorize(c.op.axis[1])
    x, out = np.random.default_rng(0).standard_normal((5, n), np.float32), np.zeros((5, n), "f")
    smelt.build(s, [a, c])(x, out)
    np.testing.assert_allclose(out, x * 2 + 1, rtol=1e-6)


def test_a_buffer_with_gaps_between_its_rows_is_as_long_as_its_span() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((4, 4), "float32"), C: T.Buffer((4, 4), "float32")):
    B = T.allocate((4, 4), "float32", strides=(8, 1))
    for i in range(4):
        for j in range(4):
            B[i, j] = A[i, j] + 1.0
    for i_1 in range(4):
        for j_1 in range(4):
            C[i_1, j_1] = B[i_1, j_1] * 2.0
"""
    flat = flatten_buffers(parse(text))
    assert "B = T.allocate((28,)" in script(flat)
    a, c = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    interpret(flat, a, c)
    np.testing.assert_array_equal(c, (a + 1) * 2)


def test_the_pass_sees_flat_programs() -> None:
    func = flatten_buffers(parse(ROW_SUM))
    assert "C_acc" in script(promote_accumulators(func))
