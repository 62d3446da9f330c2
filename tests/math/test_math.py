"""The expanded functions against references of higher precision, and against LLVM bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.vector_math import Compiled
from smelt.ir.expr import (
    Add,
    And,
    Call,
    Cast,
    Compare,
    Div,
    Expr,
    FloatImm,
    IntImm,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    Var,
)
from smelt.ir.node import postorder
from smelt.tir.math import EXPANDED, expand
from tests.math.accuracy import (
    BINARY,
    FLOAT64,
    REFERENCES,
    measure,
    pairs,
    points32,
    points64,
    tree,
)
from tests.math.evaluate import evaluate, fma

PRIMITIVES = {
    "fma",
    "floor",
    "round",
    "sqrt",
    "abs",
    "copysign",
    "reinterpret",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "shift_left",
    "shift_right",
}
LIMIT = {"exp": 1.6, "log": 1.0, "tanh": 2.5, "sigmoid": 2.6, "erf": 2.5, "pow": 1.0, "fmod": 0.5}


def test_every_function_has_a_reference() -> None:
    assert set(REFERENCES) == set(EXPANDED)


@pytest.mark.parametrize("name", EXPANDED)
def test_float32_is_within_four_ulps(name: str) -> None:
    error, got, inputs = measure(name, "float32")
    worst = int(np.argmax(error))
    assert error[worst] <= LIMIT.get(name, 4.0), ([x[worst] for x in inputs], got[worst])


@pytest.mark.parametrize("name", FLOAT64)
def test_float64_is_within_four_ulps(name: str) -> None:
    error, got, inputs = measure(name, "float64")
    worst = int(np.argmax(error))
    assert error[worst] <= 4.0, ([x[worst] for x in inputs], got[worst])


@pytest.mark.parametrize("name", EXPANDED)
def test_only_primitives_are_left(name: str) -> None:
    allowed = (Add, Sub, Mul, Div, Compare, And, Or, Not, Select, Cast, Call, Var, IntImm, FloatImm)
    for dtype in ("float32", "float64") if name in FLOAT64 else ("float32",):
        for node in postorder(tree(name, dtype)[0]):
            assert isinstance(node, allowed)
            assert not isinstance(node, Call) or node.op in PRIMITIVES
            if isinstance(node, Cast):
                floats = [e.dtype.startswith("float") for e in (node.value, node)]
                assert floats != [True, False], "NaN has no integer"


@pytest.mark.parametrize("name", ["tanh", "erf", "sigmoid", "sin", "cos"])
def test_results_stay_in_range(name: str) -> None:
    e, (x,) = tree(name, "float32")
    values = evaluate(e, {x: points32()})
    assert np.nanmax(values) <= 1.0
    assert np.nanmin(values) >= (0.0 if name == "sigmoid" else -1.0)


def same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Bit for bit, any NaN for any NaN."""
    kind = {4: np.int32, 8: np.int64}[a.dtype.itemsize]
    return bool(np.all((a.view(kind) == b.view(kind)) | (np.isnan(a) & np.isnan(b))))


@pytest.mark.parametrize("name", EXPANDED)
def test_llvm_gives_the_same_bits(name: str) -> None:
    for dtype in ("float32", "float64") if name in FLOAT64 else ("float32",):
        e, operands = tree(name, dtype)
        x = points32(1 << 17) if dtype == "float32" else points64(5_000)
        inputs = pairs(x, 20_000) if name in BINARY else (x,)
        wanted = evaluate(e, dict(zip(operands, inputs, strict=True)))
        assert same(Compiled(name, dtype)(*inputs), wanted), dtype


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_are_computed_in_float32(dtype: str) -> None:
    x = Var("x", dtype)
    wide = Var("w", "float32")
    e = expand("exp", (x,))
    assert isinstance(e, Cast)
    assert e.dtype == dtype
    assert type(e.value) is type(expand("exp", (wide,)))


def test_what_is_not_expanded_gives_none() -> None:
    x = Var("x", "float64")
    assert expand("floor", (x,)) is None
    assert expand("sin", (x,)) is None
    assert expand("exp", (Var("n", "int32"),)) is None


def test_sign_of_integers() -> None:
    for dtype, wanted in (("int32", [-1, 0, 1]), ("uint8", [1, 0, 1])):
        n = Var("n", dtype)
        e = expand("sign", (n,))
        assert isinstance(e, Expr)
        values = np.array([-5, 0, 7]).astype(dtype)
        np.testing.assert_array_equal(evaluate(e, {n: values}), np.array(wanted, dtype))


def test_shared_parts_are_one_object() -> None:
    x = Var("x", "float32")
    assert expand("exp", (x,)) is expand("exp", (x,))


def test_the_evaluator_rounds_fma_once() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 20_000)).astype(np.float32)
    c = (-(a.astype(np.float64) * b)).astype(np.float32)
    exact = a.astype(np.longdouble) * b.astype(np.longdouble) + c.astype(np.longdouble)
    np.testing.assert_array_equal(fma(a, b, c), exact.astype(np.float32))
    one = np.array([1 + 2**-12], np.float32)
    tie = fma(one, one, np.array([2**-60], np.float32))
    assert tie[0] == np.float32(1 + 2**-11 + 2**-23)
