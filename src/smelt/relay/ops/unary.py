"""Operators of one operand, element by element."""

from __future__ import annotations

from typing import Any

from smelt.relax.compose import index
from smelt.relax.compose.common import (
    axes_of,
    dtype_of,
    legal,
    rank_of,
)
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
            "abs", "negative", "sign", "logical_not", "bitwise_not", "isnan", "isinf", "isfinite",
            "log2", "log10", "fast_exp", "fast_tanh", "fast_erf",
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


@relay_op("round")
def round_(data: RelaxExpr) -> RelaxExpr:
    """The nearest integer, halves away from zero."""
    return call("round", data, mode="away")


@relay_op("cast")
def cast(data: RelaxExpr, *, dtype: str) -> RelaxExpr:
    """Another element type."""
    return call("cast", data, dtype=dtype)


@relay_op("cast_like")
def cast_like(data: RelaxExpr, dtype_like: RelaxExpr) -> RelaxExpr:
    """The element type of another tensor."""
    return call("cast", data, dtype=dtype_of(dtype_like))


@relay_op("reinterpret")
def reinterpret(data: RelaxExpr, *, dtype: str) -> RelaxExpr:
    """The bits as another element type of the same width."""
    return call("reinterpret", data, dtype=dtype)


@relay_op("clip")
def clip(a: RelaxExpr, *, a_min: float, a_max: float) -> RelaxExpr:
    """Values brought into a_min .. a_max."""
    legal(a_min <= a_max, f"a_min={a_min}, a_max={a_max}; a_min has to be no more than a_max")
    return call("clip", a, min=a_min, max=a_max)


@relay_op("fixed_point_multiply")
def fixed_point_multiply(data: RelaxExpr, *, multiplier: int, shift: int) -> RelaxExpr:
    """data * multiplier / 2 ** 31 * 2 ** shift, rounded; data is int32."""
    return call("fixed_point_multiply", data, multiplier=multiplier, shift=shift)


@relay_op("fixed_point_multiply_per_axis")
def fixed_point_multiply_per_axis(
    x: RelaxExpr,
    y: RelaxExpr,
    lshift: RelaxExpr,
    rshift: RelaxExpr,
    *,
    is_lshift_required: bool = False,
    is_rshift_required: bool = False,
    axes: Any = (),
) -> RelaxExpr:
    """fixed_point_multiply with multipliers y and shifts that vary along axes."""
    return call(
        "fixed_point_multiply_per_axis", x, y, lshift, rshift, axes=axes_of(axes, rank_of(x)),
        is_lshift_required=is_lshift_required, is_rshift_required=is_rshift_required,
    )  # fmt: skip


@relay_op("nn.leaky_relu")
def leaky_relu(data: RelaxExpr, *, alpha: float = 0.25) -> RelaxExpr:
    """x where it is positive, alpha * x elsewhere."""
    return call("leaky_relu", data, alpha=alpha)


@relay_op("nn.prelu")
def prelu(data: RelaxExpr, alpha: RelaxExpr, *, axis: int = 1) -> RelaxExpr:
    """x where it is positive, alpha * x elsewhere; alpha varies along an axis."""
    return index.prelu(data, alpha, axis)


@relay_op("device_copy")
def device_copy(data: RelaxExpr, *, src_device: Any = "", dst_device: Any = "") -> RelaxExpr:
    """The tensor on another device; all of a program's tensors are on one, where it stays."""
    return call("identity", data)
