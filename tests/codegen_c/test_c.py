"""The C printer against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from smelt.ir import dtype as dt
from smelt.ir.errors import CompileError
from smelt.tir.interpret import interpret
from smelt.tir.nodes import PrimFunc
from smelt.tir.parser import parse
from tests.tir_text.generate import arguments, programs

from .build import run_c
from .test_c_cases import same


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(flat=True))
def test_c_agrees_with_the_interpreter(func: PrimFunc) -> None:
    expected, found = arguments(func, 3), arguments(func, 3)
    interpret(func, *expected)
    assert run_c(func, *found) == 0
    same(found, expected)


def test_blocks_are_refused() -> None:
    func = parse(
        'def f(A: T.Buffer((4,), "float32")):\n    for i in range(4):\n        with T.block("A"):\n'
        "            vi = T.axis.spatial(4, i)\n            A[vi] = 1.0\n"
    )
    with pytest.raises(CompileError, match="flat programs"):
        run_c(func, np.zeros(4, "float32"))


def test_an_assertion_is_a_status() -> None:
    func = parse('def f(n: T.int64):\n    assert n > 3, "n is small"\n')
    assert (run_c(func, 4), run_c(func, 3)) == (0, -1)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_transcendental_functions(dtype: str) -> None:
    ops = [
        "exp",
        "log",
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
        "log1p",
        "expm1",
        "log2",
        "log10",
        "floor",
        "ceil",
        "round",
        "trunc",
        "abs",
        "sign",
    ]
    body = "".join([f"        B[i, {j}] = T.{op}(A[i])\n" for j, op in enumerate(ops)])
    func = parse(
        f'def f(A: T.Buffer((33,), "{dtype}"), B: T.Buffer((33, {len(ops)}), "{dtype}")):\n'
        f"    for i in range(33):\n{body}"
    )
    a = np.linspace(-4, 4, 33).astype(dt.to_numpy(dtype))
    expected, found = (np.zeros((33, len(ops)), a.dtype) for _ in range(2))
    interpret(func, a, expected)
    run_c(func, a, found)
    tolerance = {"float32": 3e-7, "float64": 1e-15, "float16": 2e-3, "bfloat16": 1e-2}[dtype]
    np.testing.assert_allclose(
        found.astype("float64"), expected.astype("float64"), rtol=tolerance, atol=tolerance
    )
