"""What follows from constants alone is computed while a program is compiled."""

from __future__ import annotations

import math

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import SmeltError
from smelt.ir.limits import MOST, WORK, worth_computing
from smelt.ir.types import TensorType, TupleType, Type
from smelt.topi.registry import Op

from .graph_op import kind_of
from .interpret import interpret
from .nodes import Call, Constant, Function, RelaxExpr, Tuple, TupleGetItem, constant, values


def folded(value: RelaxExpr) -> RelaxExpr:
    """A tensor of operators as one constant of any size, where it follows from constants alone."""
    if isinstance(value, Constant) or not all(map(_plain, values(value))):
        return value
    return computed(value) or value


def _plain(e: RelaxExpr) -> bool:
    """Whether a value may stand between constants and what follows from them."""
    called = isinstance(e, Call) and isinstance(e.op, Op)
    return called or isinstance(e, Constant | Tuple | TupleGetItem)


def growth(n: Call, most: int = MOST) -> int | None:
    """Bytes by which the results of a call of constants, or tuples of them, exceed its operands.

    None: it is no such call, or stays one, as `ir/limits.py` says.

    most  bytes of the largest result
    """
    for a in n.args:  # asked of every call, and mostly told by the first operand
        if not isinstance(a, Constant | None) and not _constants(a):
            return None
    if not n.args:
        return None
    size, given = _bytes(n.type), sum(_bytes(a.type) or 0 for a in n.args if a is not None)
    if size is None or not worth_computing(size, given, most) or _work(n) > WORK:
        return None
    return max(size - given, 0)


def computed(n: RelaxExpr) -> RelaxExpr | None:
    """What follows from constants, as constants; None: it cannot be computed yet."""
    try:
        made = [constant(np.asarray(r, order="C")) for r in interpret(Function((), n))]
    except SmeltError:
        return None
    return Tuple(tuple(made)) if isinstance(n.type, TupleType) else made[0]


def _constants(e: RelaxExpr) -> bool:
    return isinstance(e, Tuple) and all(isinstance(i, Constant) for i in e.items)


def _bytes(t: Type) -> int | None:
    """Bytes of a value; None where a size is symbolic."""
    total = 0
    for part in t.items if isinstance(t, TupleType) else (t,):
        shape = part.fixed_shape() if isinstance(part, TensorType) else None
        if shape is None:
            return None
        total += math.prod(shape) * dt.bytes_of(part.dtype)  # type: ignore[attr-defined]
    return total


def _work(n: Call) -> float:
    """About how many multiplications a product takes: exactly so many for matrices."""
    if kind_of(n) != "contraction":
        return 0
    types = [n.type, *[a.type for a in n.args[:2] if a is not None]]
    shapes = [t.fixed_shape() or () for t in types if isinstance(t, TensorType)]
    return math.sqrt(math.prod([math.prod(s) for s in shapes]))
