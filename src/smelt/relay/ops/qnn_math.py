"""Arithmetic and functions of quantized numbers."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter

import numpy as np

from smelt.relax.compose import quantize
from smelt.relax.compose.common import (
    cast_to,
    dtype_of,
    items_of,
    legal,
    normal_axis,
    rank_of,
    scalar,
)
from smelt.relax.compose.integer import centred, is_zero
from smelt.relax.folding import folded
from smelt.relax.nodes import RelaxExpr, call, constant

from ..dialect import RELAY, alias, relay_op
from .qnn_affine import integers, one_number, whole


def _same_types(lhs: RelaxExpr, rhs: RelaxExpr) -> None:
    for name, x in (("lhs", lhs), ("rhs", rhs)):
        integers(name, x)
    legal(
        dtype_of(lhs) == dtype_of(rhs),
        f"lhs is {dtype_of(lhs)}, rhs {dtype_of(rhs)}; they have to be of one type",
    )


# --------------------------------------------------------------------------------- two operands


def _binary(name: str, doc: str, joined: Callable[..., RelaxExpr]) -> None:
    """Enter an operator of two quantized tensors.

    joined  (lhs, rhs, their scales and zero points, the output's) -> the result
    """

    def body(
        lhs: RelaxExpr, rhs: RelaxExpr, lhs_scale: RelaxExpr, lhs_zero_point: RelaxExpr,
        rhs_scale: RelaxExpr, rhs_zero_point: RelaxExpr, output_scale: RelaxExpr,
        output_zero_point: RelaxExpr, *, lhs_axis: int = -1, rhs_axis: int = -1,
    ) -> RelaxExpr:  # fmt: skip
        _same_types(lhs, rhs)
        a, b = (
            (lhs, lhs_scale, lhs_zero_point, lhs_axis),
            (rhs, rhs_scale, rhs_zero_point, rhs_axis),
        )
        return joined(a, b, *whole("output_", output_scale, output_zero_point))

    body.__doc__ = doc
    RELAY.op(f"qnn.{name}")(body)


Side = tuple[RelaxExpr, RelaxExpr, RelaxExpr, int]
"""A tensor, its scale, its zero point, and the axis along which these may vary."""


def _sum(name: str) -> None:
    def joined(lhs: Side, rhs: Side, scale: RelaxExpr, zero: RelaxExpr) -> RelaxExpr:
        nothing = scalar(0, "int32")
        a, b = (quantize.requantized(x, s, z, scale, nothing, axis) for x, s, z, axis in (lhs, rhs))
        y = call(name, a, b)
        y = y if is_zero(zero) else call("add", y, cast_to(zero, "int32"))
        return quantize.saturated(y, dtype_of(lhs[0]))

    doc = f"""{name.capitalize()} with broadcasting.

    Both operands are requantized to output_scale in int32; the result is saturated to their type.
    Shapes  scales and zero points: scalars; those of lhs and rhs may be vectors along lhs_axis and
            rhs_axis
    """
    _binary(name, doc, joined)


_sum("add")
_sum("subtract")


def _product(lhs: Side, rhs: Side, scale: RelaxExpr, zero: RelaxExpr) -> RelaxExpr:
    parts = []
    for side, (x, s, z, axis) in (("lhs", lhs), ("rhs", rhs)):
        factor = cast_to(one_number(f"{side}_scale", s), "float32")
        parts.append((centred(x, quantize.along_axis(f"{side}_zero_point", z, x, axis)), factor))
    y, ratio = (call("multiply", *both) for both in zip(*parts, strict=True))
    return quantize.requantized(y, ratio, scalar(0, "int32"), scale, zero, dtype=dtype_of(lhs[0]))


_binary(
    "mul",
    """Products with broadcasting: formed in int32 and requantized from lhs_scale * rhs_scale.

    Shapes  scales: scalars; zero points of lhs and rhs may be vectors along lhs_axis and rhs_axis
    """,
    _product,
)


@relay_op("qnn.concatenate")
def concatenate(
    data: RelaxExpr, input_scales: RelaxExpr, input_zero_points: RelaxExpr,
    output_scale: RelaxExpr, output_zero_point: RelaxExpr, *, axis: int = 0,
) -> RelaxExpr:  # fmt: skip
    """Tensors behind each other along an axis, each requantized to the output's scale."""
    parts = items_of(data)
    scales, zeros = items_of(input_scales), items_of(input_zero_points)
    legal(
        len(parts) == len(scales) == len(zeros),
        f"{len(parts)} tensors, {len(scales)} scales and {len(zeros)} zero points; each tensor "
        "needs one of each",
    )
    output = whole("output_", output_scale, output_zero_point)
    made = []
    for x, s, z in zip(parts, scales, zeros, strict=True):
        integers("the data", x)
        made.append(quantize.requantized(x, *whole("input_", s, z), *output, dtype=dtype_of(x)))
    return call("concat", *made, axis=normal_axis(axis, rank_of(parts[0])))


# ------------------------------------------------------------------------------------ functions


@relay_op("qnn.leaky_relu")
def leaky_relu(
    data: RelaxExpr, input_scale: RelaxExpr, input_zero_point: RelaxExpr,
    output_scale: RelaxExpr, output_zero_point: RelaxExpr, *, alpha: float = 0.01,
) -> RelaxExpr:  # fmt: skip
    """x where it is positive, alpha * x elsewhere: requantized with one of two factors.

    alpha  positive
    """
    integers("the data", data)
    legal(alpha > 0, f"alpha={alpha}; it has to be positive")
    step, zero_in = whole("input_", input_scale, input_zero_point)
    step_out, zero = whole("output_", output_scale, output_zero_point)
    ratio = call("divide", cast_to(step, "float64"), cast_to(step_out, "float64"))
    x = centred(data, zero_in)
    narrow = dtype_of(data) != "int32"
    low = quantize.rescaled(x, call("multiply", ratio, scalar(alpha, "float64")), -1, narrow=narrow)
    high = quantize.rescaled(x, ratio, -1, narrow=narrow)
    y = call("where", call("less", x, scalar(0, "int32")), low, high)
    y = y if is_zero(zero) else call("add", y, cast_to(zero, "int32"))
    return quantize.saturated(y, dtype_of(data))


alias(
    "qnn.leaky_relu",
    "x=data alpha input_scale input_zero_point output_scale output_zero_point",
    alpha=Parameter.empty,
)


def _hardswish(x: RelaxExpr) -> RelaxExpr:
    inside = call("clip", call("add", x, scalar(3.0, "float32")), min=0.0, max=6.0)
    return call("divide", call("multiply", x, inside), scalar(6.0, "float32"))


def _plain(core: str) -> Callable[[RelaxExpr], RelaxExpr]:
    return lambda x: call(core, x)


TABLES: dict[str, Callable[[RelaxExpr], RelaxExpr]] = {
    **{n: _plain(n) for n in ("tanh", "exp", "sqrt", "rsqrt", "erf", "sigmoid", "log", "abs")},
    "hardswish": _hardswish,
}
"""Functions of one operand that are looked up."""


def looked_up(data: RelaxExpr, table: RelaxExpr) -> RelaxExpr:
    """The entries of a table of 256 numbers, in the order of the bits as an unsigned number."""
    index = cast_to(call("reinterpret", data, dtype="uint8"), "int32")
    return call("gather", table, index, axis=0, mode="clip")


def _function(name: str, fn: Callable[[RelaxExpr], RelaxExpr]) -> None:
    def body(
        x: RelaxExpr, scale: RelaxExpr, zero_point: RelaxExpr, output_scale: RelaxExpr,
        output_zero_point: RelaxExpr,
    ) -> RelaxExpr:  # fmt: skip
        dtype = dtype_of(x)
        integers("x", x, "int8", "uint8")
        inputs = whole("", scale, zero_point)
        outputs = whole("output_", output_scale, output_zero_point)
        codes = constant(np.arange(256, dtype="uint8").view(dtype))
        numbers = fn(quantize.dequantized(codes, *inputs, 0, "float32"))
        return looked_up(
            x, folded(quantize.quantized(_finite(numbers), *outputs, 0, dtype, "away"))
        )

    body.__doc__ = f"""{name} of 8-bit numbers, looked up: quantize({name}(dequantize(x))).

    What is no number (the logarithm of a negative one) becomes 0.
    """
    RELAY.op(f"qnn.{name}")(body)


def _finite(x: RelaxExpr) -> RelaxExpr:
    return call("where", call("isnan", x), scalar(0.0, "float32"), x)


for _name, _fn in TABLES.items():
    _function(_name, _fn)
