"""Converters of arithmetic on two operands, and of comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from smelt.frontend.common import Value
from smelt.frontend.common.moves import as_type
from smelt.ir import dtype as dt

from . import fixed
from .fixed_graph import bit_length, divided, reciprocal, times, wide
from .layout import elementwise
from .node import Node
from .quantized import (
    EIGHT_BITS,
    NARROW,
    activated,
    distance,
    range_of,
    requantized,
    same_numbers,
    scaled,
    stored,
)
from .registry import tflite_op

SHIFTS = {"int8": 20, "uint8": 20, "int16": 15}
"""By how many bits sums are finer than their operands."""


def shifted(g: Node, x: Value, k: int, bits: int, ratio: float) -> Value:
    """An operand's distance from its zero point, times 2 ** bits, times a ratio of scales."""
    wide = distance(g, x, g.zero(g.tensor(k)))
    wide = g.call("multiply", wide, g.known(1 << bits, "int32"))
    return scaled(g, wide, ratio)


def finer(g: Node) -> tuple[float, float, float]:
    """Twice the larger scale of both operands, and both scales in steps of it."""
    a, b = g.scale(g.tensor(0)), g.scale(g.tensor(1))
    twice = 2 * np.float64(max(a, b))
    return float(twice), float(np.float64(a) / twice), float(np.float64(b) / twice)


def _powers(g: Node) -> list[float] | None:
    """The scales of both operands in steps of the result's, where all are powers of two and one
    operand has the result's scale and the other one no larger one; None elsewhere."""
    tensors = (g.tensor(0), g.tensor(1), g.out)
    *ratios, _ = (float(g.scale(t)) / float(g.scale(g.out)) for t in tensors)
    powers = all(math.frexp(float(g.scale(t)))[0] == 0.5 for t in tensors)
    return ratios if powers and max(ratios) == 1 else None


def same_types(g: Node, *xs: Value) -> None:
    """ImportFailure unless the operands have one type."""
    if len({x.dtype for x in xs}) > 1:
        g.malformed(f"operands of {', '.join([x.dtype for x in xs])}; they have to be of one type")


def _of_floats(g: Node, op: str, a: Value, b: Value, activation: int) -> Value:
    return elementwise(g, lambda a, b: activated(g, g.call(op, a, b), activation), a, b)


def _computed(g: Node, op: str, a: Value, b: Value) -> Value:
    """An operator of the core's, which has a place in constants that shapes are made of."""
    if a.known is not None and b.known is not None:
        return g.compute(op, a, b)
    return elementwise(g, partial(g.call, op), a, b)


def _sum(name: str, op: str, newest: int) -> None:
    @tflite_op(name, newest)
    def converter(
        g: Node, a: Value, b: Value, *, fused_activation_function: int = 0,
        pot_scale_int16: bool = True,
    ) -> Value:  # fmt: skip
        """Sums or differences; of quantized numbers, in steps 2 ** 20 times as fine.

        pot_scale_int16  16-bit numbers with powers of two as scales are shifted, then summed
        """
        same_types(g, a, b)
        if not g.integers:
            return _of_floats(g, op, a, b, fused_activation_function)
        powers = _powers(g) if pot_scale_int16 and a.dtype == "int16" else None
        bits = SHIFTS[a.dtype]
        twice, *ratios = finer(g)
        back = twice / float(np.float32(1 << bits) * g.scale(g.out))

        def total(a: Value, b: Value) -> Value:
            if powers:
                parts = [distance(g, x, 0) for x in (a, b)]
                parts = [scaled(g, x, p, "away") for x, p in zip(parts, powers, strict=True)]
                return stored(g, g.call(op, *parts), g.out, fused_activation_function)
            parts = [shifted(g, x, k, bits, ratios[k]) for k, x in enumerate((a, b))]
            y = g.call(op, *parts)
            return requantized(g, y, back, g.out, fused_activation_function)

        return elementwise(g, total, a, b)


_sum("ADD", "add", 5)
_sum("SUB", "subtract", 5)


@tflite_op("MUL", 7)
def mul(g: Node, a: Value, b: Value, *, fused_activation_function: int = 0) -> Value:
    """Products; of quantized numbers, in int32 from the product of both scales."""
    same_types(g, a, b)
    if not g.integers:
        return _of_floats(g, "multiply", a, b, fused_activation_function)
    scales = [g.scale(g.tensor(k)) for k in (0, 1)]
    ratio = np.float64(scales[0] * scales[1] / g.scale(g.out))

    def times(a: Value, b: Value) -> Value:
        parts = [distance(g, x, g.zero(g.tensor(k))) for k, x in enumerate((a, b))]
        return requantized(g, g.call("multiply", *parts), ratio, g.out, fused_activation_function)

    return elementwise(g, times, a, b)


@tflite_op("DIV", 2)
def div(g: Node, a: Value, b: Value, *, fused_activation_function: int = 0) -> Value:
    """Quotients; of whole numbers, rounded toward zero."""
    same_types(g, a, b)
    if g.integers:
        return elementwise(g, lambda a, b: _quotients(g, a, b, fused_activation_function), a, b)
    return _of_floats(g, "divide", a, b, fused_activation_function)


def _quotients(g: Node, a: Value, b: Value, activation: int) -> Value:
    """Of quantized numbers: a is moved to the left as far as it goes, times the reciprocal of b."""
    sources = g.tensor(0), g.tensor(1)
    a, b = (
        as_type(g, distance(g, x, g.zero(t)), "int64") for x, t in zip((a, b), sources, strict=True)
    )
    below = g.call("less", b, wide(g, 0))
    a = g.call("where", below, g.call("negative", a), a)
    b = g.call("maximum", g.call("abs", b), wide(g, 1))
    inverse, free = reciprocal(g, b)
    negative = g.call("less", a, wide(g, 0))
    used = g.call("where", negative, g.call("bitwise_not", a), a)
    used = g.call("add", g.call("left_shift", used, wide(g, 1)), wide(g, 1))  # never 0
    room = g.call("subtract", wide(g, 32), bit_length(g, used))
    fine = times(g, g.call("left_shift", a, room), inverse)
    scales = [g.scale(t) for t in sources]
    number, power = fixed.factor(float(scales[0] / (scales[1] * g.scale(g.out))))
    back = g.call("subtract", g.call("add", room, wide(g, 31 - power)), free)
    y = divided(g, times(g, fine, wide(g, number)), g.call("clip", back, min=0, max=62))
    y = g.call("add", y, wide(g, g.zero(g.out)))
    low, high = range_of(g, g.out, activation)
    return as_type(g, g.call("clip", y, min=low, max=high), g.out.dtype)


@tflite_op("SQUARED_DIFFERENCE", 2)
def squared_difference(g: Node, a: Value, b: Value) -> Value:
    """(a - b) ** 2; of quantized numbers, in steps 2 ** 7 times as fine."""
    same_types(g, a, b)

    def square(y: Value) -> Value:
        return g.call("multiply", y, y)

    if not g.integers:
        return elementwise(g, lambda a, b: square(g.call("subtract", a, b)), a, b)
    twice, *ratios = finer(g)
    back = twice * twice / float(np.float32(1 << 14) * g.scale(g.out))

    def total(a: Value, b: Value) -> Value:
        parts = [shifted(g, x, k, 7, ratios[k]) for k, x in enumerate((a, b))]
        return requantized(g, square(g.call("subtract", *parts)), back, g.out)

    return elementwise(g, total, a, b)


# ---------------------------------------------------------------------------- no scale of its own


def _plain(name: str, op: str, newest: int, *, quantized: bool = False) -> None:
    """An operator of two operands that is one of the core's."""

    @tflite_op(name, newest)
    def converter(g: Node, a: Value, b: Value) -> Value:
        same_types(g, a, b)
        if g.integers and not quantized:
            g.unsupported(f"quantized {a.dtype}", "numbers that are not quantized")
        if g.integers:
            same_numbers(g, g.tensor(0), g.tensor(1), g.out)
        return _computed(g, op, a, b)


_plain("MAXIMUM", "maximum", 4, quantized=True)
_plain("MINIMUM", "minimum", 4, quantized=True)
_plain("POW", "power", 1)
_plain("LOGICAL_AND", "logical_and", 1)
_plain("LOGICAL_OR", "logical_or", 1)
_plain("BITWISE_XOR", "bitwise_xor", 1)
_plain("RIGHT_SHIFT", "right_shift", 1)


@tflite_op("FLOOR_DIV", 3)
def floor_div(g: Node, a: Value, b: Value) -> Value:
    """Quotients rounded down."""
    same_types(g, a, b)
    if dt.is_float(a.dtype):
        return elementwise(g, lambda a, b: g.call("floor", g.call("divide", a, b)), a, b)
    return elementwise(g, lambda a, b: g.call("floor_divide", a, b), a, b)


@tflite_op("FLOOR_MOD", 2)
def floor_mod(g: Node, a: Value, b: Value) -> Value:
    """What remains of a quotient rounded down; it has the divisor's sign."""
    same_types(g, a, b)
    return elementwise(g, lambda a, b: g.call("mod", a, b), a, b)


@tflite_op("ATAN2")
def atan2(g: Node, y: Value, x: Value) -> Value:
    """The angle of a point (x, y)."""
    same_types(g, y, x)
    zero = g.known(0, x.dtype)
    side = g.call("where", g.call("less", y, zero), -np.pi, g.known(np.pi, x.dtype))
    upright = g.call("equal", x, zero)
    near = g.call("atan", g.call("divide", y, g.call("where", upright, 1.0, x)))
    turned = g.call("where", g.call("less", x, zero), g.call("add", near, side), near)
    half = g.call("multiply", g.call("sign", y), np.pi / 2)
    return g.call("where", upright, half, turned)


@tflite_op("ADD_N")
def add_n(g: Node, *xs: Value) -> Value:
    """The sum of all operands."""
    same_types(g, *xs)
    y = xs[0]
    for x in xs[1:]:
        y = g.call("add", y, x)
    return y


# ------------------------------------------------------------------------------------ comparisons


def _comparison(name: str, op: str, newest: int, types: tuple[str, ...]) -> None:
    @tflite_op(name, newest)
    def converter(g: Node, a: Value, b: Value) -> Value:
        """Elements compared; quantized ones of some types as the numbers that they stand for."""
        same_types(g, a, b)
        first, second = g.tensor(0), g.tensor(1)
        if not (first.quantized and second.quantized and a.dtype in types):
            return _computed(g, op, a, b)

        def moved(a: Value, b: Value) -> Value:
            parts = [shifted(g, x, k, 8, float(g.scale(g.tensor(k)))) for k, x in
                     enumerate((a, b))]  # fmt: skip
            return g.call(op, *parts)

        return elementwise(g, moved, a, b)


for _name, _newest in (("EQUAL", 4), ("NOT_EQUAL", 3)):
    _comparison(_name, _name.lower(), _newest, NARROW)
for _name, _newest in (("LESS", 3), ("LESS_EQUAL", 2), ("GREATER", 2), ("GREATER_EQUAL", 2)):
    _comparison(_name, _name.lower(), _newest, EIGHT_BITS)


def unary(name: str, newest: int, fn: Callable[[Node, Value], Value]) -> Any:
    """Enter an operator of one operand that is not quantized."""

    def converter(g: Node, x: Value) -> Value:
        if g.integers:
            g.unsupported(f"quantized {x.dtype}", "numbers that are not quantized")
        if x.known is not None and x.small:
            return fn(g, x)
        return elementwise(g, lambda x: fn(g, x), x)

    return tflite_op(name, newest)(converter)


def _core(name: str, op: str, newest: int = 1) -> None:
    unary(name, newest, lambda g, x: g.compute(op, x))


for _name, _op in (("FLOOR", "floor"), ("CEIL", "ceil"), ("SIN", "sin"), ("COS", "cos"),
                   ("LOGICAL_NOT", "logical_not"), ("SIGN", "sign")):  # fmt: skip
    _core(_name, _op, 2)
unary("ROUND", 1, lambda g, x: g.call("round", x, mode="even"))
unary("SQUARE", 1, lambda g, x: g.compute("multiply", x, x))


@tflite_op("CAST", 7)
def cast(g: Node, x: Value, *, in_data_type: int = 0, out_data_type: int = 0) -> Value:
    """The elements as another type."""
    return as_type(g, x, g.out.dtype)


@tflite_op("ZEROS_LIKE")
def zeros_like(g: Node, x: Value) -> Value:
    """Zeros in the operand's shape."""
    return g.call("full", shape=x.shape, value=0.0, dtype=x.dtype)
