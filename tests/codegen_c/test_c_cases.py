"""Single expressions in C, at the edges of their types, against the interpreter."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from smelt.ir import dtype as dt
from smelt.tir.interpret import interpret
from smelt.tir.parser import parse

from .build import run_c

VALUES = {
    "int8": [-128, -7, -1, 0, 1, 3, 127],
    "uint8": [0, 1, 2, 7, 128, 200, 255],
    "int32": [-(2**31), -7, -1, 0, 1, 3, 2**31 - 1],
    "int64": [-(2**63), -7, -1, 0, 1, 3, 2**63 - 1],
    "uint32": [0, 1, 2, 7, 2**31, 2**32 - 2, 2**32 - 1],
    "uint64": [0, 1, 2, 7, 2**63, 2**64 - 2, 2**64 - 1],
}
EXPRESSIONS = (
    "x + y",
    "x - y",
    "x * y",
    "T.min(x, y)",
    "T.max(x, y)",
    "x // 3",
    "x % 3",
    "T.truncdiv(x, 3)",
    "T.truncmod(x, 3)",
    "T.bitwise_and(x, y)",
    "T.bitwise_or(x, y)",
    "T.bitwise_xor(x, y)",
    "T.bitwise_not(x)",
    "T.shift_left(x, 3)",
    "T.shift_right(x, 2)",
    "T.popcount(x)",
    "T.high_product(x, x - 5)",
    "T.clz(x)",
    "x + y * x - y",
    "T.select(x < y, x, y)",
    "T.sign(x)",
)
CASTS = ("int8", "uint8", "int32", "int64", "float32", "float64", "float16", "bfloat16", "bool")


def same(found: list[Any], expected: list[Any]) -> None:
    """Equal bits, but for the payloads of NaN."""
    for a, b in zip(found, expected, strict=True):
        wide = (
            np.float64
            if not isinstance(b, np.ndarray) or dt.is_float(dt.from_numpy(b.dtype))
            else b.dtype
        )
        np.testing.assert_array_equal(np.asarray(a).astype(wide), np.asarray(b).astype(wide))


def _loads(expression: str) -> str:
    return re.sub(r"\bx\b", "A[i]", re.sub(r"\by\b", "A[j]", expression))


@pytest.mark.parametrize("dtype", list(VALUES))
def test_integer_operators(dtype: str) -> None:
    values = np.array(VALUES[dtype], dtype)
    n = len(EXPRESSIONS)
    body = "".join([f"            C[i, j, {k}] = {_loads(e)}\n" for k, e in enumerate(EXPRESSIONS)])
    func = parse(
        f'def f(A: T.Buffer((7,), "{dtype}"), C: T.Buffer((7, 7, {n}), "{dtype}")):\n'
        f"    for i in range(7):\n        for j in range(7):\n{body}"
    )
    expected, found = (np.zeros((7, 7, n), dtype) for _ in range(2))
    interpret(func, values, expected)
    run_c(func, values, found)
    for k, e in enumerate(EXPRESSIONS):
        np.testing.assert_array_equal(found[..., k], expected[..., k], err_msg=e)


@pytest.mark.parametrize("target", CASTS)
@pytest.mark.parametrize("source", ["float32", "float64", "float16", "int8", "int64", "bool"])
def test_conversions(source: str, target: str) -> None:
    values = np.array(
        [0, 1, -1, 2.5, -2.5, 100.7, 1e9, -1e30, np.nan, np.inf, 65519, 65520, 1e-7, 0.1]
    )
    with np.errstate(all="ignore"):
        a = np.nan_to_num(values, posinf=77).clip(-99, 99) if source[0] == "i" else values
        a = a.astype(dt.to_numpy(source))
    func = parse(
        f'def f(A: T.Buffer((14,), "{source}"), B: T.Buffer((14,), "{target}")):\n'
        f'    for i in range(14):\n        B[i] = T.cast("{target}", A[i])\n'
    )
    expected, found = (np.zeros(14, dt.to_numpy(target)) for _ in range(2))
    interpret(func, a, expected)
    run_c(func, a, found)
    same([found], [expected])
