"""Operators of two operands that broadcast against each other."""

from __future__ import annotations

from smelt.ir import dtype as dt
from smelt.relax.compose.common import dtype_of
from smelt.relax.nodes import RelaxExpr, call

from ..dialect import relay_op, same

for _name in (
    "add", "subtract", "multiply", "divide", "floor_divide", "power", "minimum", "maximum", "equal",
    "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
    "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift",
):  # fmt: skip
    same(_name, "lhs rhs")

same("floor_mod", "lhs rhs", core="mod")
same("mod trunc_mod", "lhs rhs", core="fmod")
same("where", "condition x y")


@relay_op("trunc_divide")
def trunc_divide(lhs: RelaxExpr, rhs: RelaxExpr) -> RelaxExpr:
    """The quotient without its fraction: toward zero."""
    found = call("divide", lhs, rhs)
    return call("trunc", found) if dt.is_float(dtype_of(found)) else found
