"""Expressions nested more deeply than the stack, and numbers larger than a word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from smelt.arith import Analyzer, Answer, ConstIntBound, detect_iter_map
from smelt.ir.expr import (
    EQ,
    LT,
    Add,
    And,
    Call,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    TruncDiv,
    Var,
    const,
    text_of,
)
from smelt.ir.node import postorder
from smelt.ir.walk import substitute
from tests.arith.oracle import evaluate

DEPTH = 1050
i, j, k, n = (Var(name) for name in "ijkn")


def chain(step: Callable[[Expr, int], Expr], start: Expr) -> Expr:
    for count in range(DEPTH):
        start = step(start, count)
    return start


INTEGERS: dict[str, Callable[[Expr, int], Expr]] = {
    "sum": lambda e, c: Add(e, j if c % 2 else k),
    "sum to the right": lambda e, c: Add(j if c % 2 else k, e),
    "difference": lambda e, c: Sub(j if c % 2 else k, e),
    "product": lambda e, c: Mul(e, j),
    "quotient": lambda e, c: FloorDiv(e, const(2)),
    "nested quotient": lambda e, c: Add(FloorDiv(e, const(3)), const(5)),
    "remainder": lambda e, c: FloorMod(e, const(7 + c % 3)),
    "truncated quotient": lambda e, c: TruncDiv(e, const(2)),
    "minimum": lambda e, c: Min(e, Add(j, const(c % 7))),
    "minimum and maximum": lambda e, c: Min(Max(e, j), Add(k, const(c % 5))),
    "choice": lambda e, c: Select(LT(j, const(c)), e, k),
    "condition": lambda e, c: Select(LT(e, const(c)), j, k),
    "branch": lambda e, c: Call("int64", "if_then_else", (LT(j, const(c)), k, e)),
    "conversion": lambda e, c: Cast("int64", Cast("int32", e)),
    "call": lambda e, c: Call("int64", "f", (e,)),
}
CONDITIONS: dict[str, Callable[[Expr, int], Expr]] = {
    "and": lambda e, c: And(e, LT(Add(j, const(c % 5)), k)),
    "or": lambda e, c: Or(LT(Add(j, const(c % 5)), k), e),
    "not": lambda e, c: Not(e),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_deep_integers(name: str) -> None:
    e = chain(INTEGERS[name], i)
    assert e.dtype == "int64"
    questions: list[Callable[[Analyzer], Any]] = [
        lambda an: an.simplify(e),
        lambda an: an.bounds(e),
        lambda an: an.modular_set(e),
        lambda an: an.prove(LT(e, const(3))),
        lambda an: an.can_prove_equal(e, i),
        lambda an: an.interval(e, {i: 10}),
        lambda an: an.linear(e, [i]),
        lambda an: an.solve_bounds(LT(e, const(9)), i),
    ]
    for question in questions:
        question(Analyzer({i: 100, j: 16, k: 8}))
    detect_iter_map([e], {i: 10, j: 16, k: 8})
    substitute(e, {i: j})


@pytest.mark.parametrize("name", CONDITIONS)
def test_deep_conditions(name: str) -> None:
    c = chain(CONDITIONS[name], LT(i, j))
    assert c.dtype == "bool"
    questions: list[Callable[[Analyzer], Any]] = [
        lambda an: an.simplify(c),
        lambda an: an.bounds(c),
        lambda an: an.prove(c),
        lambda an: an.solve_bounds(c, i),
    ]
    for question in questions:
        question(Analyzer({i: 100, j: 16, k: 8}))
    an = Analyzer({i: 100, j: 16, k: 8})
    with an.assume(c):
        an.simplify(i)


def test_deep_sums_keep_their_value() -> None:
    e = chain(INTEGERS["sum"], i)
    half = DEPTH // 2
    an = Analyzer({i: 100, j: 16, k: 8})
    assert text_of(an.simplify(e)) == f"j * {half} + k * {half} + i"
    assert an.bounds(e) == (0, 99 + 15 * half + 7 * half)
    assert an.prove(EQ(e, i)) is Answer.UNKNOWN
    assert an.prove(LT(e, const(-1))) is Answer.NO
    assert an.can_prove_equal(e, j * half + (k * half + i))


# ------------------------------------------------------------------------------ large numbers


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_simplified_constants_fit_their_type(dtype: str) -> None:
    bits = int(dtype[3:])
    v, large = Var("v", dtype), IntImm(dtype, 1 << (bits - 2))
    for e in (Mul(Mul(v, large), large), Add(Add(v, large), large), Sub(Sub(v, large), large)):
        simple = Analyzer().simplify(e)
        numbers = [x.value for x in postorder(simple) if isinstance(x, IntImm)]
        assert all(abs(x) < 1 << (bits - 1) for x in numbers)
        for value in (-3, 0, 5):
            assert evaluate(simple, {v: value}) == evaluate(e, {v: value})


def test_bounds_beyond_a_word() -> None:
    an = Analyzer({i: 10})
    huge = i * (1 << 70) + 5
    assert an.bounds(huge) == (5, 9 * (1 << 70) + 5)
    assert an.const_int_bound(huge) == ConstIntBound(5, ConstIntBound.POS_INF)
    assert an.const_int_bound(0 - huge) == ConstIntBound(ConstIntBound.NEG_INF, -5)
    assert an.const_int_bound(n) == ConstIntBound(ConstIntBound.NEG_INF, ConstIntBound.POS_INF)
    assert an.prove(huge < (1 << 75)) is Answer.YES
    assert an.prove(huge > (1 << 75)) is Answer.NO
    assert an.prove(EQ(huge, const(1 << 69))) is Answer.NO


def test_division_by_zero_says_nothing() -> None:
    an = Analyzer({i: 10})
    for e in (FloorDiv(i, const(0)), FloorMod(i * 4 + 3, const(0))):
        assert an.simplify(e) is an.simplify(an.simplify(e))
        assert an.prove(e < 100) is Answer.UNKNOWN
        assert an.modular_set(e).coeff == 1


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (FloorDiv(i * 8 + j, const(-8)), "j * (-1) // 8 - i"),
        (FloorMod(i * 8 + 5, const(-8)), "-3"),
        (FloorDiv(i * 8, const(-4)), "i * (-2)"),
        (FloorMod(i, const(-1)), "0"),
    ],
)
def test_negative_divisors(e: Expr, text: str) -> None:
    assert text_of(Analyzer().simplify(e)) == text
