"""Operators of two operands that broadcast against each other."""

from __future__ import annotations

from smelt.ir import dtype as dt
from smelt.relax.compose.common import dtype_of
from smelt.relax.nodes import RelaxExpr, call
from smelt.topi import get_op

from ..dialect import RELAY, relay_op

# Relay's name: the core's
SAME = {
    **{
        n: n
        for n in (
            "add", "subtract", "multiply", "divide", "floor_divide", "power", "minimum", "maximum",
            "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and",
            "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift",
            "right_shift",
        )
    },
    "floor_mod": "mod",
    "mod": "fmod",
    "trunc_mod": "fmod",
}  # fmt: skip


def _enter(name: str, core: str) -> None:
    def body(lhs: RelaxExpr, rhs: RelaxExpr) -> RelaxExpr:
        return call(core, lhs, rhs)

    body.__doc__ = get_op(core).__doc__
    RELAY.op(name)(body).commutative = get_op(core).commutative


for _name, _core in SAME.items():
    _enter(_name, _core)


@relay_op("where")
def where(condition: RelaxExpr, x: RelaxExpr, y: RelaxExpr) -> RelaxExpr:
    """x where the condition is true, y elsewhere."""
    return call("where", condition, x, y)


@relay_op("trunc_divide")
def trunc_divide(lhs: RelaxExpr, rhs: RelaxExpr) -> RelaxExpr:
    """The quotient without its fraction: toward zero."""
    found = call("divide", lhs, rhs)
    return call("trunc", found) if dt.is_float(dtype_of(found)) else found
