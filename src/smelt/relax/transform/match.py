"""Questions that graph rules ask about values."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.expr import Expr
from smelt.ir.types import TensorType
from smelt.relax.nodes import Call, Constant, RelaxExpr
from smelt.topi.registry import Op

Array = np.ndarray[Any, Any]


def is_op(x: object, *names: str) -> TypeGuard[Call]:
    """Whether a value is a call of one of these operators."""
    return isinstance(x, Call) and isinstance(x.op, Op) and x.op.name in names


def op_name(x: RelaxExpr | None) -> str:
    """The operator's name; empty for what is no call of one."""
    return x.op.name if isinstance(x, Call) and isinstance(x.op, Op) else ""


def given(n: Call) -> tuple[RelaxExpr, ...]:
    """The operands of a call; none of them is left out."""
    assert None not in n.args
    return n.args  # type: ignore[return-value]


def shape_of(x: RelaxExpr | None) -> tuple[Expr, ...]:
    """A tensor's extents; () for what is no tensor."""
    t = None if x is None else x.type
    return t.shape if isinstance(t, TensorType) else ()


def dims(x: RelaxExpr | None) -> tuple[int | None, ...]:
    """A tensor's extents as numbers, None where symbolic; () for what is no tensor."""
    return tuple([value_of(e) for e in shape_of(x)])


def rank_of(x: RelaxExpr | None) -> int:
    """A tensor's number of dimensions; -1 for what is no tensor."""
    return len(x.type.shape) if x is not None and isinstance(x.type, TensorType) else -1


def dtype_of(x: RelaxExpr | None) -> str:
    """A tensor's element type; empty for what is no tensor."""
    t = None if x is None else x.type
    return t.dtype if isinstance(t, TensorType) else ""


def is_float(x: RelaxExpr | None) -> bool:
    """Whether the elements are floats."""
    return dt.is_float(dtype_of(x))


def type_is(x: RelaxExpr | None, y: RelaxExpr | None) -> bool:
    """Whether two values have one type, known to be so."""
    return x is not None and y is not None and x.type is y.type


def all_are(x: RelaxExpr | None, value: Any) -> bool:
    """Whether a value is a constant, each of whose elements is this number."""
    if not isinstance(x, Constant):
        return False
    first = x.data.reshape(-1)[:1]
    return bool(first.size and first[0] == value and np.all(x.data == x.data.dtype.type(value)))


def scalar_of(x: RelaxExpr | None) -> float | None:
    """The value of a constant with one element."""
    if isinstance(x, Constant) and x.data.size == 1:
        return float(x.data.reshape(-1)[0])
    return None


def constant_operand(n: Call) -> tuple[RelaxExpr, Constant] | None:
    """The operands of `op(x, constant)`, in this order."""
    x, c = n.args
    if isinstance(c, Constant) and x is not None and not isinstance(x, Constant):
        return x, c
    return None


def other_scalar(n: Call) -> tuple[RelaxExpr, float] | None:
    """(x, number) of `op(x, number)` or `op(number, x)`; for operators that commute."""
    a, b = n.args
    for x, c in ((a, b), (b, a)):
        value = scalar_of(c)
        if value is not None and x is not None and not isinstance(x, Constant):
            return x, value
    return None


def strip_scale(x: RelaxExpr) -> tuple[RelaxExpr, float]:
    """(y, k) with x = y * k, where x is a chain of products and quotients with numbers."""
    k = 1.0
    while True:
        if is_op(x, "multiply"):
            found = other_scalar(x)
            if found is None or not type_is(found[0], x):
                return x, k
            x, k = found[0], k * found[1]
        elif is_op(x, "divide") and scalar_of(x.args[1]) and type_is(x.args[0], x):
            k /= scalar_of(x.args[1]) or 1.0
            x = given(x)[0]
        elif is_op(x, "negative"):
            x, k = given(x)[0], -k
        else:
            return x, k


def close(a: float, b: float, dtype: str = "float32") -> bool:
    """Whether a number of a model stands for a number of a formula."""
    return math.isclose(a, b, rel_tol=1e-5 if dt.bits(dtype) >= 32 else 1e-2)
