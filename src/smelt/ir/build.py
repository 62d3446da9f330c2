"""Functions that build expressions: comparisons, conjunctions, choices, intrinsics.

Operands may be Python numbers; both sides get one type and constants are folded, as with the
operators of `Expr`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from . import dtype as dt
from . import expr


def is_const(e: expr.ExprLike, value: float | None = None) -> bool:
    """Whether this is a scalar constant (of this value)."""
    if isinstance(e, int | float):
        return value is None or e == value
    return isinstance(e, expr.IntImm | expr.FloatImm) and (value is None or e.value == value)


def value_of(e: expr.ExprLike) -> int | None:
    """The integer behind a constant, or None."""
    if isinstance(e, int):
        return int(e)
    return e.value if isinstance(e, expr.IntImm) else None


def minimum(a: expr.ExprLike, b: expr.ExprLike) -> expr.Expr:
    """The smaller of two values."""
    return expr.binary(expr.Min, a, b)


def maximum(a: expr.ExprLike, b: expr.ExprLike) -> expr.Expr:
    """The larger of two values."""
    return expr.binary(expr.Max, a, b)


def ceildiv(lhs: expr.ExprLike, rhs: expr.ExprLike) -> expr.Expr:
    """lhs / rhs rounded up, for positive rhs."""
    lhs, rhs = expr.matched(lhs, rhs)
    if isinstance(lhs, expr.IntImm) and isinstance(rhs, expr.IntImm):
        return expr.IntImm(lhs.type, -(-lhs.value // rhs.value))
    return (lhs + (rhs - 1)) // rhs


def truncdiv(a: expr.ExprLike, b: expr.ExprLike) -> expr.Expr:
    """The integer quotient rounded toward zero."""
    return expr.binary(expr.TruncDiv, a, b)


def truncmod(a: expr.ExprLike, b: expr.ExprLike) -> expr.Expr:
    """The remainder with the sign of `a`."""
    return expr.binary(expr.TruncMod, a, b)


def product(extents: Iterable[expr.Expr]) -> expr.Expr:
    """All extents multiplied: the elements of a box."""
    total: expr.Expr = expr.const(1, expr.INDEX)
    for e in extents:
        total = total * e
    return total


def equal(a: expr.ExprLike, b: expr.ExprLike) -> expr.Expr:
    """a == b as an expression."""
    return expr.binary(expr.EQ, a, b)


def not_equal(a: expr.ExprLike, b: expr.ExprLike) -> expr.Expr:
    """a != b as an expression."""
    return expr.binary(expr.NE, a, b)


_FLIPPED: dict[type[expr.Expr], type[expr.Compare]] = {
    expr.LT: expr.GE,
    expr.GE: expr.LT,
    expr.GT: expr.LE,
    expr.LE: expr.GT,
    expr.EQ: expr.NE,
    expr.NE: expr.EQ,
}


def logical_not(a: expr.ExprLike) -> expr.Expr:
    """The negation; comparisons of integers are turned round."""
    a = expr.convert(a)
    if isinstance(a, expr.IntImm):
        return expr.const(not a.value, "bool")
    if isinstance(a, expr.Not):
        return a.a
    if isinstance(a, expr.Compare) and not dt.is_float(a.a.dtype):
        return _FLIPPED[type(a)](a.a, a.b)
    return expr.Not(a)


def all_of(*conditions: expr.ExprLike | Iterable[expr.ExprLike]) -> expr.Expr:
    """The conjunction; the empty one is true."""
    return _joined(expr.And, True, conditions)


def any_of(*conditions: expr.ExprLike | Iterable[expr.ExprLike]) -> expr.Expr:
    """The disjunction; the empty one is false."""
    return _joined(expr.Or, False, conditions)


def _joined(
    cls: type[expr.Binary],
    neutral: bool,
    conditions: Iterable[expr.ExprLike | Iterable[expr.ExprLike]],
) -> expr.Expr:
    """Conditions joined by one that a `neutral` one does not change, and any other decides."""
    result: expr.Expr = expr.const(neutral)
    for c in _flat(conditions):
        c = expr.convert(c)
        if is_const(c, not neutral):
            return c
        if not is_const(c):
            result = c if is_const(result) else cls(*expr.matched(result, c))
    return result


def _flat(conditions: Iterable[expr.ExprLike | Iterable[expr.ExprLike]]) -> Iterator[expr.ExprLike]:
    for c in conditions:
        if isinstance(c, Iterable):
            yield from c
        else:
            yield c


def select(
    condition: expr.ExprLike, true_value: expr.ExprLike, false_value: expr.ExprLike
) -> expr.Expr:
    """One of two values, both of which can be computed safely."""
    condition = expr.convert(condition)
    a, b = expr.matched(true_value, false_value)
    if isinstance(condition, expr.IntImm):
        return a if condition.value else b
    return a if a is b else expr.Select(condition, a, b)


def if_then_else(
    condition: expr.ExprLike, true_value: expr.ExprLike, false_value: expr.ExprLike
) -> expr.Expr:
    """One of two values; the other is not evaluated, so a load in it may be out of bounds."""
    condition = expr.convert(condition)
    a, b = expr.matched(true_value, false_value)
    if isinstance(condition, expr.IntImm):
        return a if condition.value else b
    return a if a is b else expr.Call(a.dtype, "if_then_else", (condition, a, b))


def call(op: str, *args: expr.ExprLike, dtype: str | None = None) -> expr.Expr:
    """A pure intrinsic on matched operands; its type is the first operand's unless given."""
    exprs = [expr.convert(a) for a in args]
    return expr.Call(dtype or exprs[0].dtype, op, tuple(exprs))
