"""Single operators at the edges of their types, in LLVM against the interpreter."""

from __future__ import annotations

import re

import numpy as np
import pytest

from smelt.ir import dtype as dt
from smelt.ir.expr import Var, cast, const
from smelt.tir.nodes import Buffer, BufferStore, For, PrimFunc
from tests.codegen_c.build import run_c

from .build import Array, agree, flat

INTEGERS = {
    "int8": [-128, -7, -1, 0, 1, 3, 127],
    "uint8": [0, 1, 2, 7, 128, 200, 255],
    "int16": [-32768, -7, -1, 0, 1, 3, 32767],
    "uint16": [0, 1, 2, 7, 32768, 65534, 65535],
    "int32": [-(2**31), -7, -1, 0, 1, 3, 2**31 - 1],
    "uint32": [0, 1, 2, 7, 2**31, 2**32 - 2, 2**32 - 1],
    "int64": [-(2**63), -7, -1, 0, 1, 3, 2**63 - 1],
    "uint64": [0, 1, 2, 7, 2**63, 2**64 - 2, 2**64 - 1],
}
FLOATS = ("float32", "float64", "float16", "bfloat16")
EDGES = [0.0, -0.0, 1.0, -1.5, 2.5, np.nan, np.inf, -np.inf, 1e-7, -3.0]
_ARITHMETIC = (
    "x + y | x - y | x * y | T.min(x, y) | T.max(x, y) | x + y * x - y | T.select(x < y, x, y)"
)
_DIVISIONS = (
    "x // 3 | x % 3 | T.truncdiv(x, 3) | T.truncmod(x, 3) | x // 8 | x % 8 | x // y | x % y"
    " | T.truncdiv(x, y) | T.truncmod(x, y)"
)
_BITS = (
    "T.bitwise_and(x, y) | T.bitwise_or(x, y) | T.bitwise_xor(x, y) | T.bitwise_not(x)"
    " | T.shift_left(x, 3) | T.shift_right(x, 2) | T.popcount(x) | T.clz(x) | T.sign(x) | T.abs(x)"
    " | T.high_product(x, T.bitwise_not(x))"
)
_COMPARISONS = "x < y | x <= y | x > y | x >= y | x == y | x != y"
_FLOAT = (
    "x + y | x - y | x * y | x / y | T.select(x < y, x, y)"
    " | T.floor(x) | T.ceil(x) | T.trunc(x) | T.round(x) | T.abs(x) | T.sqrt(T.abs(x))"
    " | T.copysign(x, y) | x % y | T.truncmod(x, y) | T.fmod(x, y) | T.sign(x) | 0.0 - x"
)


def _cases(text: str) -> list[str]:
    return [e.strip() for e in text.split(" | ")]


def _vector(expression: str, i: str, j: str) -> str:
    """The expression on elements of A, as text."""
    return re.sub(r"\bx\b", f"A[{i}]", re.sub(r"\by\b", f"A[{j}]", expression))


def check(
    values: Array, expressions: list[str], result: str, skip: str = "", signs: bool = True
) -> None:
    """Every expression on every pair of values: scalars, then vectors of an odd number of lanes."""
    n, source = len(values), dt.from_numpy(values.dtype)
    nan = "".join([f"                {s}\n" for s in ([f"if {skip}:"] if skip else [])])
    inner = "                    " if skip else "                "
    pair = "".join([f"{inner}C[{k}, i, j] = {e}\n" for k, e in enumerate(expressions)])
    pair = re.sub(r"\bx\b", "A[i]", re.sub(r"\by\b", "A[j]", nan + pair))
    for loop in ("serial", "vectorized"):
        agree(
            f'def f(A: T.Buffer(({n},), "{source}"), C: T.Buffer(({len(expressions)}, {n}, {n}),'
            f' "{result}")):\n    for i in range({n}):\n        for j in T.{loop}({n}):\n'
            f"            if True:\n{pair}",
            values,
            np.zeros((len(expressions), n, n), dt.to_numpy(result)),
            signs=signs,
        )


@pytest.mark.parametrize("dtype", list(INTEGERS))
def test_integer_arithmetic_wraps(dtype: str) -> None:
    check(np.array(INTEGERS[dtype], dtype), _cases(_ARITHMETIC), dtype)


_INDICES = """
def f(N: T.Buffer((1,), "TYPE"), B: T.Buffer((9, 6, 4), "int64")):
    n = N[0]
    for i in T.serial(TYPE(MAX - 6), TYPE(MAX), dtype="TYPE"):
        d = i + TYPE(5)
        for j in T.serial(TYPE(0), TYPE(4), dtype="TYPE"):
            p = T.cast("int64", i - TYPE(MAX - 6))
            q = T.cast("int64", j)
            e = d * i + j
            B[0, p, q] = T.cast("int64", i + TYPE(3))
            B[1, p, q] = T.cast("int64", d)
            B[2, p, q] = T.cast("int64", e)
            B[3, p, q] = T.cast("int64", (i + j) // TYPE(3))
            B[4, p, q] = T.cast("int64", (i * i + j) % TYPE(7))
            B[5, p, q] = T.cast("int64", i + j < d)
            B[6, T.cast("int64", i + TYPE(7) - TYPE(MIN)) % 6, q] = T.cast("int64", T.min(d, e))
            B[7, p, q] = T.cast("int64", (i + n) * n - j)
            if i + j > n:
                B[8, p, q] = T.cast("int64", T.truncdiv(d - n, n))
"""


@pytest.mark.parametrize("dtype", [t for t in INTEGERS if t != "uint64"])
def test_integer_arithmetic_of_loop_variables_wraps(dtype: str) -> None:
    """What loop variables and names give is of their type before it becomes an index."""
    low, high = dt.limits(dtype)
    text = _INDICES.replace("MAX - 6", str(high - 6)).replace("MAX", str(high))
    text = text.replace("MIN", str(low)).replace("TYPE", f"T.{dtype}")
    text = text.replace('"T.', '"')
    [_, found] = agree(text, np.array([3], dtype), np.zeros((9, 6, 4), "int64"))
    first = np.array([high - 6], dtype)
    assert found[0, 0, 0] == found[0, 0, 3] == first[0] + 3
    assert found[0, 5, 0] == (first + first.dtype.type(8))[0] == low + 1


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_a_loop_may_reach_the_last_value_of_its_type(dtype: str) -> None:
    low = dt.limits(dtype)[1] - 5
    i, to = Var("i", dtype), Buffer("B", (const(8, "int64"),), "int64")
    value = cast("int64", i)
    body = BufferStore(to, value, (value - low,))
    func = PrimFunc(
        (to,), For(i, const(low, dtype), const(6, dtype), body, "serial"), {"name": "f"}
    )
    [found] = agree(func, np.zeros(8, "int64"))
    assert found.tolist() == [*range(low, low + 6), 0, 0]
    again = np.zeros(8, "int64")
    assert run_c(flat(func), again) == 0
    assert again.tolist() == found.tolist()


@pytest.mark.parametrize("dtype", list(INTEGERS))
def test_quotients_round_down_or_toward_zero(dtype: str) -> None:
    check(np.array(INTEGERS[dtype], dtype), _cases(_DIVISIONS), dtype, skip="y != 0")


@pytest.mark.parametrize("dtype", list(INTEGERS))
def test_bits(dtype: str) -> None:
    check(np.array(INTEGERS[dtype], dtype), _cases(_BITS), dtype)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_comparisons(dtype: str) -> None:
    values = np.array(INTEGERS.get(dtype, EDGES)).astype(dt.to_numpy(dtype))
    check(values, _cases(_COMPARISONS), "bool")


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_operators(dtype: str) -> None:
    values = np.array(EDGES).astype(dt.to_numpy(dtype))
    with np.errstate(all="ignore"):
        check(values, _cases(_FLOAT), dtype)
    check(
        values,
        _cases("T.min(x, y) | T.max(x, y) | T.min(x, 0.0) | T.max(1.0, x)"),
        dtype,
        signs=False,
    )
    check(values, _cases("T.isnan(x) | T.isinf(x) | T.isfinite(x)"), "bool")


def test_booleans() -> None:
    text = "x and y | x or y | not x | x == y | x != y | T.bitwise_not(x) | T.bitwise_xor(x, y)"
    check(np.array([False, True]), _cases(text), "bool")


CASTS = (*INTEGERS, *FLOATS, "bool")
NUMBERS = [0, -0.0, 1, -1, 2.5, -2.5, 3.5, 100.7, 127.5, 255.5, 32767.5, 65519, 65520, 1e-7, 0.1]
NUMBERS += [2147483647.5, 1e9, 1e19, 1e20, -1e30, np.nan, np.inf, -np.inf, 1 + 2**-9, 1 + 2**-11]


@pytest.mark.parametrize("source", CASTS)
def test_conversions_saturate(source: str) -> None:
    with np.errstate(all="ignore"):
        if source in INTEGERS:
            values = np.array([*INTEGERS[source], 9, 77][:9], source)
        else:
            values = np.array(NUMBERS).astype(dt.to_numpy(source))
    n = len(values)
    for loop in ("serial", "vectorized"):
        for target in CASTS:
            agree(
                f'def {loop}_{source}_{target}(A: T.Buffer(({n},), "{source}"),'
                f' B: T.Buffer(({n},), "{target}")):\n    for i in T.{loop}({n}):\n'
                f'        B[i] = T.cast("{target}", A[i])\n',
                values,
                np.zeros(n, dt.to_numpy(target)),
            )


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_fused_multiply_add_rounds_once(dtype: str) -> None:
    rng = np.random.default_rng(1)
    a = rng.standard_normal((3, 37)).astype(dt.to_numpy(dtype))
    agree(
        f'def f(A: T.Buffer((3, 37), "{dtype}"), B: T.Buffer((37,), "{dtype}")):\n'
        "    for i in T.vectorized(37):\n        B[i] = A[0, i] * A[1, i] + A[2, i]\n",
        a,
        np.zeros(37, dt.to_numpy(dtype)),
        fused=True,
    )


def test_reinterpretation() -> None:
    a = np.array([1.0, -0.0, np.inf, 3.5], "float32")
    agree(
        'def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "int32")):\n'
        '    for i in T.vectorized(4):\n        B[i] = T.call("int32", "reinterpret", A[i])\n',
        a,
        np.zeros(4, "int32"),
    )
