"""Numbers out of shapes and expressions, under the classic names."""

from __future__ import annotations

from collections.abc import Iterable

from smelt.arith import Analyzer
from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import Expr, ExprLike, IntImm, convert
from smelt.tir.op import ceildiv as ceil_div

__all__ = ["ceil_div", "equal_const_int", "get_const_int", "get_const_tuple",
           "get_max_power2_factor", "get_shape", "simplify"]  # fmt: skip


def simplify(expr: ExprLike | Iterable[ExprLike]) -> ExprLike | tuple[ExprLike, ...]:
    """The simplest known form of an expression, or of each of several; numbers stay as they are."""
    if isinstance(expr, list | tuple):
        return tuple([simplify(e) for e in expr])  # type: ignore[misc]
    return Analyzer().simplify(expr) if isinstance(expr, Expr) else expr  # type: ignore[return-value]


def get_const_int(expr: ExprLike) -> int:
    """The integer behind an expression that simplifies to a constant."""
    found = Analyzer().simplify(convert(expr))
    if not isinstance(found, IntImm):
        raise TypeMismatch(f"get_const_int: {found} is no integer that is known here")
    return found.value


def equal_const_int(expr: ExprLike, value: int) -> bool:
    """Whether an expression is known to be this integer."""
    return Analyzer().can_prove_equal(expr, value)


def get_const_tuple(in_tuple: Iterable[ExprLike]) -> tuple[ExprLike, ...]:
    """Extents as Python integers; those that are not known here stay expressions."""
    found = [Analyzer().simplify(convert(e)) for e in in_tuple]
    return tuple([e.value if isinstance(e, IntImm) else e for e in found])


get_shape = get_const_tuple


def get_max_power2_factor(n: int, max_value: int | None = None) -> int:
    """The largest power of two that divides a number, and that is not above `max_value`."""
    return min(n & -n, n if max_value is None else 1 << max_value.bit_length() - 1)
