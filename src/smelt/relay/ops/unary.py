"""Operators of one operand, element by element."""

from __future__ import annotations

from smelt.relax.nodes import RelaxExpr, call
from smelt.topi import get_op

from ..dialect import RELAY, relay_op

# Relay's name: the core's
SAME = {
    **{
        n: n
        for n in (
            "exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos", "tan", "asin",
            "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "floor", "ceil", "trunc",
            "round", "abs", "negative", "sign", "logical_not", "bitwise_not", "isnan", "isinf",
        )
    },
    "copy": "identity",
    "nn.relu": "relu",
}  # fmt: skip


def _enter(name: str, core: str) -> None:
    def body(data: RelaxExpr) -> RelaxExpr:
        return call(core, data)

    body.__doc__ = get_op(core).__doc__
    RELAY.op(name)(body)


for _name, _core in SAME.items():
    _enter(_name, _core)


@relay_op("cast")
def cast(data: RelaxExpr, *, dtype: str) -> RelaxExpr:
    """Another element type."""
    return call("cast", data, dtype=dtype)


@relay_op("clip")
def clip(a: RelaxExpr, *, a_min: float, a_max: float) -> RelaxExpr:
    """Values brought into a_min .. a_max."""
    return call("clip", a, min=a_min, max=a_max)


@relay_op("nn.leaky_relu")
def leaky_relu(data: RelaxExpr, *, alpha: float = 0.01) -> RelaxExpr:
    """x where it is positive, alpha * x elsewhere."""
    return call("leaky_relu", data, alpha=alpha)
