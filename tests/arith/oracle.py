"""Random integer expressions and their values: the oracle of the arithmetic tests."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st

from smelt.ir import dtype as dt
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
    Div,
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

EXAMPLES = int(os.environ.get("SMELT_EXAMPLES", "60"))
law = settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=tuple(Phase)[:3] if EXAMPLES > 500 else tuple(Phase),
)
"""How often a law is tried; SMELT_EXAMPLES asks for more."""

RULES: dict[type, Callable[[int, int], int]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
    Min: min,
    Max: max,
    Div: lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
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


CALLS: dict[str, Callable[..., int]] = {
    "shift_left": lambda a, b: a << b,
    "shift_right": lambda a, b: a >> b,
    "bitwise_and": lambda a, b: a & b,
    "abs": abs,
}


def evaluate(e: Expr, values: Mapping[Var, int]) -> int:
    """The value of an integer or bool expression; ZeroDivisionError where it has none.

    int32 and int64 are integers without end, narrower types wrap round.
    """
    match e:
        case Var():
            return values[e]
        case IntImm(_, v):
            return v
        case Binary(a, b):
            value = int(RULES[type(e)](evaluate(a, values), evaluate(b, values)))
            return wrapped(value, e.dtype)
        case Not(a):
            return int(not evaluate(a, values))
        case Select(c, a, b) | Call(_, "if_then_else", (c, a, b)):
            return evaluate(a if evaluate(c, values) else b, values)
        case Cast(t, v):
            return wrapped(evaluate(v, values), t)
        case Call(_, op, args):
            return CALLS[op](*[evaluate(a, values) for a in args])
    raise TypeError(type(e).__name__)


def wrapped(value: int, dtype: str) -> int:
    """A number as a narrow type holds it."""
    if dtype == "bool":
        return int(value != 0)
    if dtype in ("int32", "int64"):
        return value
    bits = dt.bits(dtype)
    value %= 1 << bits
    return value - (1 << bits) if dt.is_signed(dtype) and value >> (bits - 1) else value


def defined(e: Expr, values: Mapping[Var, int]) -> int | None:
    """The value, or None where something is divided by zero."""
    try:
        return evaluate(e, values)
    except ZeroDivisionError:
        return None


Box = dict[Var, tuple[int, int]]


def points(box: Box) -> Iterator[dict[Var, int]]:
    """Every assignment of a box of (low, extent)."""
    for p in itertools.product(*[range(low, low + n) for low, n in box.values()]):
        yield dict(zip(box, p, strict=True))


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    """Three variables with small ranges; the last one may be negative or zero."""
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


KINDS: list[Any] = [Add, Sub, Mul, FloorDiv, FloorMod] * 2
KINDS += [Min, Max, TruncDiv, TruncMod, Div, Select, Cast, Call]
DIVISIONS = (FloorDiv, FloorMod, TruncDiv, TruncMod, Div)


def integers(draw: st.DrawFn, box: Box, depth: int, symbolic: Expr | None = None) -> Expr:
    """A random integer expression; `symbolic` may stand as a divisor, rarely any variable."""
    if depth == 0:
        return _leaf(draw, box)
    kind: Any = draw(st.sampled_from(KINDS))
    if kind is Cast:
        return _converted(draw, box, depth - 1, symbolic)
    a = integers(draw, box, depth - 1, symbolic)
    if kind is Call:
        op = draw(st.sampled_from(list(CALLS)))
        count = const(draw(st.sampled_from([0, 1, 2, 3, 7])))
        return Call("int64", op, (a,) if op == "abs" else (a, count))
    if kind is Select:
        c = conditions(draw, box, min(depth - 1, 1))
        b = integers(draw, box, depth - 1, symbolic)
        return Select(c, a, b) if draw(st.booleans()) else Call("int64", "if_then_else", (c, a, b))
    if kind in DIVISIONS:
        if symbolic is not None and draw(st.booleans()):
            return binary(kind, a, symbolic)
        if draw(st.integers(0, 19)) == 0:
            return binary(kind, a, draw(st.sampled_from(list(box))))
        n = draw(st.sampled_from([2, 3, 4, 6, 8, 12, 16]))
        return binary(kind, a, -n if draw(st.integers(0, 9)) == 0 else n)
    if kind is Mul and draw(st.integers(0, 2)):
        return binary(Mul, a, draw(st.sampled_from([-4, -2, -1, 2, 3, 4, 6, 8, 16])))
    return binary(kind, a, integers(draw, box, depth - 1 if draw(st.booleans()) else 0, symbolic))


def _converted(draw: st.DrawFn, box: Box, depth: int, symbolic: Expr | None) -> Expr:
    """A truth value as a number; arithmetic in another type, which may wrap round."""
    t = draw(st.sampled_from(["bool", "int32", "int32", "int8", "uint8"]))
    if t == "bool":
        return Cast("int64", conditions(draw, box, min(depth, 1), symbolic))
    a, b = Cast(t, integers(draw, box, depth, symbolic)), Cast(t, _leaf(draw, box))
    return Cast("int64", binary(draw(st.sampled_from([Add, Sub, Min, Max])), a, b))


def conditions(draw: st.DrawFn, box: Box, depth: int, symbolic: Expr | None = None) -> Expr:
    """A random condition."""
    kind: Any = draw(st.sampled_from([LT, LE, GT, GE, EQ, NE, And, Or, Not]))
    if depth and kind in (And, Or, Not, EQ, NE) and draw(st.integers(0, 3)):
        a = conditions(draw, box, depth - 1, symbolic)
        if kind is Not:
            return Not(a)
        return binary(kind, a, conditions(draw, box, depth - 1, symbolic))
    if kind in (And, Or, Not):
        kind = LT
    return binary(
        kind, integers(draw, box, depth, symbolic), integers(draw, box, min(depth, 1), symbolic)
    )
