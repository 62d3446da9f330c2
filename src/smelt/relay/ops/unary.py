"""Operators of one operand, element by element."""

from __future__ import annotations

from typing import Any

from smelt.relax.compose import index
from smelt.relax.compose.common import dtype_of, legal
from smelt.relax.nodes import RelaxExpr, call

from ..dialect import relay_op, same

for _name in (
    "exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "floor", "ceil", "trunc", "abs", "negative",
    "sign", "logical_not", "bitwise_not", "isnan", "isinf", "isfinite", "log2", "log10", "fast_exp",
    "fast_tanh", "fast_erf",
):  # fmt: skip
    same(_name, "data")

same("copy", "data", core="identity")
same("nn.relu", "data", core="relu")
same("nn.leaky_relu", "data", core="leaky_relu", alpha=0.25)
same("round", "data", fixed={"mode": "away"})
same("cast", "data", required="dtype")
same("reinterpret", "data", required="dtype")
same("fixed_point_multiply", "data", required="multiplier shift")


@relay_op("cast_like")
def cast_like(data: RelaxExpr, dtype_like: RelaxExpr) -> RelaxExpr:
    """The element type of another tensor."""
    return call("cast", data, dtype=dtype_of(dtype_like))


@relay_op("clip")
def clip(a: RelaxExpr, *, a_min: float, a_max: float) -> RelaxExpr:
    """Values brought into a_min .. a_max."""
    legal(a_min <= a_max, f"a_min={a_min}, a_max={a_max}; a_min has to be no more than a_max")
    return call("clip", a, min=a_min, max=a_max)


same("fixed_point_multiply_per_axis", "x y lshift rshift", along="axes", is_lshift_required=False,
     is_rshift_required=False, axes=())  # fmt: skip


relay_op("nn.prelu", order="axis")(index.prelu)


@relay_op("device_copy")
def device_copy(data: RelaxExpr, *, src_device: Any = "", dst_device: Any = "") -> RelaxExpr:
    """The tensor on another device; all of a program's tensors are on one, where it stays."""
    return call("identity", data)
