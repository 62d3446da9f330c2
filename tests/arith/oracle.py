"""Random integer expressions and their values: the oracle of the arithmetic tests."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hypothesis import strategies as st

from smelt.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Binary,
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
    TruncMod,
    Var,
    binary,
    const,
)

RULES: dict[type, Callable[[int, int], int]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
    Min: min,
    Max: max,
    TruncDiv: lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    TruncMod: lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
    EQ: lambda a, b: a == b,
    NE: lambda a, b: a != b,
    LT: lambda a, b: a < b,
    LE: lambda a, b: a <= b,
    GT: lambda a, b: a > b,
    GE: lambda a, b: a >= b,
    And: lambda a, b: a and b,
    Or: lambda a, b: a or b,
}


def evaluate(e: Expr, values: Mapping[Var, int]) -> int:
    """The value of an integer or bool expression."""
    match e:
        case Var():
            return values[e]
        case IntImm(_, v):
            return v
        case Binary(a, b):
            return int(RULES[type(e)](evaluate(a, values), evaluate(b, values)))
        case Not(a):
            return int(not evaluate(a, values))
        case Select(c, a, b) | Call(_, "if_then_else", (c, a, b)):
            return evaluate(a if evaluate(c, values) else b, values)
        case Cast(_, v):
            return evaluate(v, values)
    raise TypeError(type(e).__name__)


Box = dict[Var, tuple[int, int]]


def points(box: Box) -> Iterator[dict[Var, int]]:
    """Every assignment of a box of (low, extent)."""
    for p in itertools.product(*[range(low, low + n) for low, n in box.values()]):
        yield dict(zip(box, p, strict=True))


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    """Three variables with small ranges."""
    return {
        Var(name): (
            draw(st.integers(-3, 3) if name == "c" else st.just(0)),
            draw(st.integers(1, 8)),
        )
        for name in "abc"
    }


def _leaf(draw: st.DrawFn, box: Box) -> Expr:
    if draw(st.integers(0, 3)):
        return draw(st.sampled_from(list(box)))
    return const(draw(st.integers(-9, 17)), "int64")


def integers(draw: st.DrawFn, box: Box, depth: int, symbolic: Expr | None = None) -> Expr:
    """A random integer expression; `symbolic` may stand as a divisor."""
    if depth == 0:
        return _leaf(draw, box)
    kind: Any = draw(
        st.sampled_from(
            [
                Add,
                Add,
                Sub,
                Sub,
                Mul,
                Mul,
                FloorDiv,
                FloorDiv,
                FloorMod,
                FloorMod,
                Min,
                Max,
                TruncDiv,
                TruncMod,
                Select,
            ]
        )
    )
    a = integers(draw, box, depth - 1, symbolic)
    if kind is Select:
        c = conditions(draw, box, min(depth - 1, 1))
        b = integers(draw, box, depth - 1, symbolic)
        return Select(c, a, b) if draw(st.booleans()) else Call("int64", "if_then_else", (c, a, b))
    if kind in (FloorDiv, FloorMod, TruncDiv, TruncMod):
        if symbolic is not None and draw(st.booleans()):
            return binary(kind, a, symbolic)
        n = draw(st.sampled_from([2, 3, 4, 6, 8, 12, 16]))
        return binary(kind, a, -n if draw(st.integers(0, 9)) == 0 else n)
    if kind is Mul and draw(st.integers(0, 2)):
        return binary(Mul, a, draw(st.sampled_from([-4, -2, -1, 2, 3, 4, 6, 8, 16])))
    return binary(kind, a, integers(draw, box, depth - 1 if draw(st.booleans()) else 0, symbolic))


def conditions(draw: st.DrawFn, box: Box, depth: int, symbolic: Expr | None = None) -> Expr:
    """A random condition."""
    kind: Any = draw(st.sampled_from([LT, LE, GT, GE, EQ, NE, And, Or, Not]))
    if kind is Not and depth:
        return Not(conditions(draw, box, depth - 1, symbolic))
    if kind in (And, Or) and depth:
        a = conditions(draw, box, depth - 1, symbolic)
        return binary(kind, a, conditions(draw, box, depth - 1, symbolic))
    if kind in (And, Or, Not):
        kind = LT
    return binary(
        kind, integers(draw, box, depth, symbolic), integers(draw, box, min(depth, 1), symbolic)
    )
