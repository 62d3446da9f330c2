"""Functions that build expressions: comparisons, conjunctions, choices, intrinsics.

Operands may be Python numbers; both sides get one type and constants are folded, as with the
operators of `Expr`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from . import dtype as dt
from .expr import (
    EQ,
    GE,
    GT,
    INDEX,
    LE,
    LT,
    NE,
    And,
    Call,
    Compare,
    Expr,
    ExprLike,
    FloatImm,
    IntImm,
    Max,
    Min,
    Not,
    Or,
    Select,
    TruncDiv,
    TruncMod,
    binary,
    const,
    convert,
    matched,
)


def is_const(e: ExprLike, value: float | None = None) -> bool:
    """Whether this is a scalar constant (of this value)."""
    if isinstance(e, int | float):
        return value is None or e == value
    return isinstance(e, IntImm | FloatImm) and (value is None or e.value == value)


def value_of(e: ExprLike) -> int | None:
    """The integer behind a constant, or None."""
    if isinstance(e, int):
        return int(e)
    return e.value if isinstance(e, IntImm) else None


def minimum(a: ExprLike, b: ExprLike) -> Expr:
    """The smaller of two values."""
    return binary(Min, a, b)


def maximum(a: ExprLike, b: ExprLike) -> Expr:
    """The larger of two values."""
    return binary(Max, a, b)


def ceildiv(a: ExprLike, b: ExprLike) -> Expr:
    """a / b rounded up, for positive b."""
    a, b = matched(a, b)
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return IntImm(a.type, -(-a.value // b.value))
    return (a + (b - 1)) // b


def truncdiv(a: ExprLike, b: ExprLike) -> Expr:
    """The integer quotient rounded toward zero."""
    return binary(TruncDiv, a, b)


def truncmod(a: ExprLike, b: ExprLike) -> Expr:
    """The remainder with the sign of `a`."""
    return binary(TruncMod, a, b)


def product(extents: Iterable[Expr]) -> Expr:
    """All extents multiplied: the elements of a box."""
    total: Expr = const(1, INDEX)
    for e in extents:
        total = total * e
    return total


def equal(a: ExprLike, b: ExprLike) -> Expr:
    """a == b as an expression."""
    return binary(EQ, a, b)


def not_equal(a: ExprLike, b: ExprLike) -> Expr:
    """a != b as an expression."""
    return binary(NE, a, b)


_FLIPPED: dict[type[Expr], type[Compare]] = {LT: GE, GE: LT, GT: LE, LE: GT, EQ: NE, NE: EQ}


def logical_not(a: ExprLike) -> Expr:
    """The negation; comparisons of integers are turned round."""
    a = convert(a)
    if isinstance(a, IntImm):
        return const(not a.value, "bool")
    if isinstance(a, Not):
        return a.a
    if isinstance(a, Compare) and not dt.is_float(a.a.dtype):
        return _FLIPPED[type(a)](a.a, a.b)
    return Not(a)


def all_of(*conditions: ExprLike | Iterable[ExprLike]) -> Expr:
    """The conjunction; the empty one is true."""
    result: Expr = const(True)
    for c in _flat(conditions):
        c = convert(c)
        if is_const(c, 0):
            return c
        if not is_const(c):
            result = c if is_const(result) else And(*matched(result, c))
    return result


def any_of(*conditions: ExprLike | Iterable[ExprLike]) -> Expr:
    """The disjunction; the empty one is false."""
    result: Expr = const(False)
    for c in _flat(conditions):
        c = convert(c)
        if is_const(c, 1):
            return c
        if not is_const(c):
            result = c if is_const(result) else Or(*matched(result, c))
    return result


def _flat(conditions: Iterable[ExprLike | Iterable[ExprLike]]) -> Iterator[ExprLike]:
    for c in conditions:
        if isinstance(c, Iterable):
            yield from c
        else:
            yield c


def select(condition: ExprLike, true_value: ExprLike, false_value: ExprLike) -> Expr:
    """One of two values, both of which can be computed safely."""
    condition = convert(condition)
    a, b = matched(true_value, false_value)
    if isinstance(condition, IntImm):
        return a if condition.value else b
    return a if a is b else Select(condition, a, b)


def if_then_else(condition: ExprLike, true_value: ExprLike, false_value: ExprLike) -> Expr:
    """One of two values; the other is not evaluated, so a load in it may be out of bounds."""
    condition = convert(condition)
    a, b = matched(true_value, false_value)
    if isinstance(condition, IntImm):
        return a if condition.value else b
    return a if a is b else Call(a.dtype, "if_then_else", (condition, a, b))


def call(op: str, *args: ExprLike, dtype: str | None = None) -> Expr:
    """A pure intrinsic on matched operands; its type is the first operand's unless given."""
    exprs = [convert(a) for a in args]
    return Call(dtype or exprs[0].dtype, op, tuple(exprs))
