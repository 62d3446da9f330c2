"""Vectors: ramps, shuffles, masks, guards, math functions on odd numbers of lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt.codegen.llvm import resolve
from smelt.ir import dtype as dt
from smelt.target import Target
from smelt.tir.interpret import interpret
from smelt.tir.parser import parse

from .build import Array, agree, flat, run_llvm

FEW = settings(max_examples=15, deadline=None)


def ints(n: int, dtype: str = "float32", seed: int = 0) -> Array:
    values: Any = np.random.default_rng(seed).integers(-50, 50, n)
    return np.asarray(values).astype(dt.to_numpy(dtype))


@pytest.mark.parametrize("dtype", ["float32", "bool", "int8", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("lanes", [2, 3, 5, 7, 8, 13, 16, 33])
def test_copies_of_any_number_of_lanes(dtype: str, lanes: int) -> None:
    agree(
        f'def f(A: T.Buffer((40,), "{dtype}"), B: T.Buffer((40,), "{dtype}")):\n'
        f"    for i in T.vectorized({lanes}):\n        B[i + 1] = A[i + 3]\n",
        ints(40, dtype),
        ints(40, dtype, 1),
    )


@FEW
@given(st.integers(-4, 4), st.integers(-3, 3), st.integers(2, 9))
def test_strided_ramps(source: int, target: int, lanes: int) -> None:
    if target == 0:
        target = 2
    agree(
        'def f(A: T.Buffer((99,), "int32"), B: T.Buffer((99,), "int32"), n: T.int64):\n'
        f"    for i in T.vectorized({lanes}):\n"
        f"        B[50 + i * {target}] = A[50 + i * {source}] + A[n + i]\n",
        ints(99, "int32"),
        ints(99, "int32", 1),
        7,
    )


def test_a_stride_known_at_run_time() -> None:
    agree(
        'def f(A: T.Buffer((99,), "float32"), B: T.Buffer((99,), "float32"), n: T.int64):\n'
        "    for i in T.vectorized(8):\n        B[i * n] = A[i * n + 1]\n",
        ints(99),
        ints(99, seed=1),
        3,
    )


@pytest.mark.parametrize("index", ["int64", "int32", "uint8", "int8"])
def test_gathers_and_scatters(index: str) -> None:
    where = np.array([5, 1, 4, 0, 3, 2, 6]).astype(index)
    agree(
        f'def f(A: T.Buffer((7,), "float32"), I: T.Buffer((7,), "{index}"),'
        ' B: T.Buffer((7,), "float32"), C: T.Buffer((7,), "float32")):\n'
        "    for i in T.vectorized(7):\n"
        f'        B[i] = A[T.cast("int64", I[i])]\n        C[T.cast("int64", I[i])] = A[i]\n'
        f'    C[T.cast("int64", I[0])] = A[T.cast("int64", I[1])]\n',
        ints(7),
        where,
        ints(7),
        ints(7),
    )


@pytest.mark.parametrize("dtype", ["float32", "int64", "int8", "bool"])
@pytest.mark.parametrize(
    "index",
    [
        "n + i // 4 * 4 + 3", "n + i // 8 * 4", "n - i // 2 + 9", "i // 16 + n",
        "i % 4 - (0 - n) + 2",
        "n * 2 + i // 3", "i // 4 * 9 + n", "(i + n) // 4 * 4", "3 - i + n * 9", "i * 2 + n",
    ],
)  # fmt: skip
def test_lanes_that_stand_close_together(index: str, dtype: str) -> None:
    agree(
        f'def f(A: T.Buffer((40,), "{dtype}"), B: T.Buffer((16,), "{dtype}"), n: T.int64):\n'
        f"    for i in T.vectorized(16):\n        B[i] = A[{index}]\n",
        ints(40, dtype),
        ints(16, dtype, 1),
        3,
    )


@FEW
@given(st.integers(0, 31))
def test_lanes_close_together_under_guards(n: int) -> None:
    """What a guard forbids to read may not be there."""
    agree(
        'def f(A: T.Buffer((n,), "float32"), B: T.Buffer((16,), "float32"), n: T.int64):\n'
        "    for i in T.vectorized(16):\n"
        "        B[i] = T.if_then_else(i // 4 * 4 + 2 < n, A[i // 4 * 4 + 2], 1.5)\n"
        "    for i in T.vectorized(16):\n"
        "        B[i] = B[i] + T.if_then_else(n > 30, A[i // 4 * 4 + 18], 1.5)\n",
        ints(n),
        ints(16, seed=1),
        n,
    )


@FEW
@given(st.lists(st.integers(0, 11), min_size=2, max_size=9))
def test_shuffles(order: list[int]) -> None:
    n = len(order)
    agree(
        'def f(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):\n'
        f"    B[T.ramp(0, 1, {n})] = T.shuffle(A[T.ramp(0, 1, 6)], A[T.ramp(6, 1, 6)],"
        f" {tuple(order)})\n",
        ints(12),
        ints(12, seed=1),
    )


# ------------------------------------------------------------------------------ masks and guards


@FEW
@given(st.integers(0, 13), st.sampled_from(["float32", "int8", "bool", "bfloat16"]))
def test_masked_tails(n: int, dtype: str) -> None:
    """Memory behind the ends belongs to somebody else."""
    a, b = ints(n, dtype), ints(n, dtype, 1)
    agree(
        f'def f(A: T.Buffer((n,), "{dtype}"), B: T.Buffer((n,), "{dtype}"), n: T.int64):\n'
        "    for o in range(T.truncdiv(n + 7, 8)):\n        for i in T.vectorized(8):\n"
        "            if o * 8 + i < n:\n                B[o * 8 + i] = A[o * 8 + i]\n",
        a,
        b,
        n,
    )


@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3", "native"])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
@pytest.mark.parametrize("lanes", [16, 32, 64])
def test_masks_of_vectors_wider_than_registers(cpu: str, dtype: str, lanes: int) -> None:
    """They are cut into parts that registers hold."""
    n = lanes + lanes // 2 + 3
    func = flat(parse(
        f'def f(A: T.Buffer((n,), "{dtype}"), B: T.Buffer((n,), "{dtype}"), n: T.int64):\n'
        "    for o in range(2):\n"
        f"        for i in T.vectorized({lanes}):\n"
        f"            if o * {lanes} + i < n:\n"
        f"                B[o * {lanes} + i] = A[o * {lanes} + i]\n"
    ))  # fmt: skip
    a, b = ints(n, dtype), ints(n, dtype, 1)
    whole = np.concatenate([b, b])  # what is behind the end stays
    target = resolve(Target(f"llvm -mcpu={cpu}"))
    assert run_llvm(func, a, whole[:n], n, target=target) == 0
    np.testing.assert_array_equal(whole, np.concatenate([a, b]))


def test_both_branches_of_a_vector_condition() -> None:
    agree(
        'def f(A: T.Buffer((13,), "float32"), B: T.Buffer((26,), "float32")):\n'
        "    for i in T.vectorized(13):\n"
        "        if A[i] > 3.0:\n            B[i] = A[i] * 2.0\n            B[i * 2] = 5.0\n"
        "        else:\n            if A[i] > -20.0:\n                B[i] = 0.0 - A[i]\n"
        "            B[i + 13] = 7.0\n",
        ints(13),
        ints(26, seed=1),
    )


@pytest.mark.parametrize("limit", [-99.0, 0.0, 99.0])
def test_one_element_stored_below_a_vector_condition(limit: float) -> None:
    agree(
        'def f(A: T.Buffer((8,), "float32"), B: T.Buffer((2,), "float32"), x: T.float32):\n'
        "    for i in T.vectorized(8):\n        if A[i] > x:\n            B[1] = 5.0\n",
        ints(8),
        ints(2),
        limit,
    )


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
@pytest.mark.parametrize("source", ["A[i - 2]", "A[(i - 2) * 100000]", "A[2]"])
def test_guards_keep_loads_in_bounds(kind: str, source: str) -> None:
    text = (
        'def f(A: T.Buffer((8,), "float32"), B: T.Buffer((13,), "float32"), n: T.int64):\n'
        f"    for i in T.{kind}(13):\n"
        f"        B[i] = T.if_then_else(i >= n and i < 2 + 1, {source}, 3.0)\n"
        f"        B[i] = B[i] + T.if_then_else(i == 2, {source}, A[7])\n"
    )
    agree(text, ints(8), ints(13), 2)


def test_an_index_that_is_loaded_under_a_guard() -> None:
    agree(
        'def f(A: T.Buffer((8,), "float32"), I: T.Buffer((4,), "int64"),'
        ' B: T.Buffer((8,), "float32"), n: T.int64):\n    for i in range(8):\n'
        "        B[i] = T.if_then_else(i < n, A[I[i]], 0.0)"
        " + T.if_then_else(i < 2, A[I[i]], 5.0) + A[I[T.truncdiv(i, 2)]]\n",
        ints(8),
        np.array([7, 1, 3, 2]),
        ints(8, seed=1),
        4,
    )


def test_a_guarded_load_of_many_lanes() -> None:
    agree(
        'def f(A: T.Buffer((96,), "float64"), B: T.Buffer((96,), "float64"), n: T.int64):\n'
        "    for i in T.vectorized(96):\n"
        "        B[i] = T.if_then_else(n > 0, A[i + n * 1000000], 3.0)\n",
        ints(96, "float64"),
        ints(96, "float64"),
        0,
    )


# -------------------------------------------------------------------------------------- functions

FUNCTIONS = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "tanh",
    "sigmoid",
    "erf",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "floor",
    "ceil",
    "round",
    "trunc",
    "abs",
    "sign",
]
PAIRS = ["atan2", "pow", "fmod", "copysign", "hypot", "nextafter"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_functions_on_an_odd_number_of_lanes(dtype: str) -> None:
    """Polynomials are right to a few units in the last place; 16 bits are rounded from float32."""
    calls = [f"T.{op}(A[i])" for op in FUNCTIONS] + [f"T.{op}(A[i], 1.5)" for op in PAIRS]
    if dtype != "float64":  # the interpreter steps in float64
        calls = [c for c in calls if "nextafter" not in c]
    n = len(calls)
    body = "".join([f"        B[{k}, i] = {c}\n" for k, c in enumerate(calls)])
    func = flat(
        parse(
            f'def f(A: T.Buffer((33,), "{dtype}"), B: T.Buffer(({n}, 33), "{dtype}")):\n'
            f"    for i in T.vectorized(33):\n{body}"
        )
    )
    a = np.append(np.linspace(-4, 4, 30), [np.nan, np.inf, -np.inf]).astype(dt.to_numpy(dtype))
    expected, found = (np.zeros(n * 33, a.dtype) for _ in range(2))
    with np.errstate(all="ignore"):
        interpret(func, a, expected)
    assert run_llvm(func, a, found) == 0
    rtol = {"float32": 6e-7, "float64": 2e-15, "float16": 1e-3, "bfloat16": 8e-3}[dtype]
    for k, c in enumerate(calls):
        part = slice(k * 33, k * 33 + 33)
        x, y = (v[part].astype("float64") for v in (found, expected))
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol / 50, err_msg=c)


def test_where_lanes_are_stored_is_read_before_the_first_is() -> None:
    source = (
        'def f(A: T.Buffer((4, 4), "int64"), B: T.Buffer((4,), "int64")):\n'
        "    A[A[2, 2] % 4, T.ramp(0, 1, 4)] = T.broadcast(T.int64(9), 4)\n"
        "    B[B[T.ramp(0, 1, 4)]] = B[T.ramp(0, 1, 4)] + T.broadcast(T.int64(10), 4)\n"
    )
    rows = np.arange(16, dtype="int64").reshape(4, 4)
    a, b = agree(source, rows.copy(), np.array([1, 2, 3, 0]))
    expected = rows.copy()
    expected[2] = 9
    np.testing.assert_array_equal(a, expected)
    np.testing.assert_array_equal(b, [10, 11, 12, 13])


BOUNDED = [
    ("int8", "T.round(T.min(T.max(A[i], T.float32(-128)), T.float32(127)))"),
    ("uint8", "T.round(T.min(T.max(A[i], T.float32(0)), T.float32(255)))"),
    ("uint8", "T.min(T.float32(255), T.max(T.float32(0), A[i]))"),
    ("int16", "T.max(T.min(A[i], T.float32(32767)), T.float32(-32768))"),
    ("uint16", "T.round(T.min(T.max(A[i], T.float32(0.5)), T.float32(65535)))"),
    ("int8", "T.round(T.min(T.max(A[i], T.float32(-128)), T.float32(128)))"),
    ("int8", "T.round(T.max(A[i], T.float32(-128)))"),
    ("int32", "T.round(T.min(T.max(A[i], T.float32(-7)), T.float32(7)))"),
    ("uint8", 'T.cast("int32", T.round(T.min(T.max(A[i], T.float32(-9)), T.float32(246)))) + 9'),
    ("int8", 'T.cast("int32", T.round(T.min(T.max(A[i], T.float32(-9)), T.float32(246)))) + 9'),
]


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "llvm -mcpu=x86-64"])
@pytest.mark.parametrize("kind", ["serial", "vectorized"])
@pytest.mark.parametrize(("dtype", "value"), BOUNDED)
def test_bounded_floats_as_integers(dtype: str, value: str, kind: str, target: str) -> None:
    """Halves to even, NaN as 0 before it is moved: whether the processor's conversion does it."""
    text = (
        f'@T.prim_func\ndef f(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "{dtype}")):\n'
        f'    for i in T.{kind}(40):\n        B[i] = T.cast("{dtype}", {value})\n'
    )
    func = flat(parse(text))
    a = np.linspace(-300, 300, 40, dtype=np.float32)
    a[:16] = [0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.5, 254.5, 255.5, -128.5, -127.5, 1e30, -1e30,
              np.nan, np.inf, -np.inf]  # fmt: skip
    found, wanted = np.zeros(40, dtype), np.zeros(40, dtype)
    with np.errstate(all="ignore"):
        interpret(parse(text), a, wanted)
    assert run_llvm(func, a, found, target=resolve(Target(target))) == 0
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("by", [1, 2, 64])
def test_floors_of_powers_of_two_are_shifts(dtype: str, by: int) -> None:
    text = (
        f'@T.prim_func\ndef f(A: T.Buffer((40,), "{dtype}"), B: T.Buffer((40,), "{dtype}"),'
        f' C: T.Buffer((40,), "{dtype}")):\n    for i in T.vectorized(40):\n'
        f"        B[i] = T.floordiv(A[i], T.{dtype}({by}))\n"
        f"        C[i] = T.floormod(A[i], T.{dtype}({by}))\n"
    )
    a = ints(40, dtype) * 2 - 1
    a[:2] = np.iinfo(dtype).min, np.iinfo(dtype).max
    found, rest = np.zeros(40, dtype), np.zeros(40, dtype)
    assert run_llvm(flat(parse(text)), a, found, rest) == 0
    np.testing.assert_array_equal(found, a // by)
    np.testing.assert_array_equal(rest, a % by)
