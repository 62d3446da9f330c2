"""Converters of softmax and of its logarithm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from smelt.frontend.common import Build, Value
from smelt.frontend.common.moves import as_type
from smelt.ir import dtype as dt

from . import fixed, lines
from .fixed_graph import bit_length, divided, logarithm, multiplied, reciprocal, times, wide
from .node import Node
from .ops_activation import only
from .quantized import NARROW, by_table
from .registry import tflite_op

Array = np.ndarray[Any, Any]

INTEGER = 5
"""Integer bits of scaled distances from the largest number."""


@tflite_op("SOFTMAX", 4)
def softmax(g: Node, x: Value, *, beta: float = 0.0) -> Value:
    """exp(beta x) over its sum along the last dimension."""
    if beta <= 0:
        g.unsupported(f"beta={beta}", "numbers above 0")
    if not g.integers:
        y = x if beta == 1 else g.call("multiply", x, beta)
        return g.call("softmax", y, axis=x.rank - 1)
    only(g, x, NARROW)
    if x.dtype == "int16":
        return _softmax_on_lines(g, x, beta)
    return shares(g, x, exponentials(*scaling(float(beta) * float(g.scale(g.tensor(0))))))


def shares(g: Build, x: Value, exps: Array) -> Value:
    """Softmax of 8-bit numbers; exps: of the 256 distances from the largest one, in 31 bits."""
    away, total = _summed(g, x, exps)
    parts = g.call("gather", g.constant(exps, "int32"), away, axis=0, mode="clip")
    share, free = reciprocal(g, as_type(g, total, "int64"))
    shift = g.call("subtract", wide(g, 12 + 31 - 8), free)
    low, high = dt.limits(x.dtype)
    y = times(g, share, as_type(g, parts, "int64"))
    half = g.call("left_shift", wide(g, 1), g.call("subtract", shift, wide(g, 1)))
    y = as_type(g, g.call("right_shift", g.call("add", y, half), shift), "int32")
    y = g.call("add", y, g.constant(low, "int32")) if low else y
    return as_type(g, g.call("clip", y, min=low, max=high), x.dtype)


def _softmax_on_lines(g: Node, x: Value, beta: float) -> Value:
    """Of 16-bit numbers: exponentials and the reciprocal of their sum by tables of lines, with 15
    bits behind the point."""
    step, real, last = 2 / 65535, np.float64, (x.rank - 1,)
    codes = as_type(g, x, "int32")
    away = g.call("subtract", g.call("max", codes, axes=last, keepdims=True), codes)
    table = lines.lines(np.exp, (-10, 0), step, real=real)
    number, power = fixed.factor(float(g.scale(g.tensor(0)) * np.float32(beta)) / (10 / 65535))
    scaled = fixed.multiplied(-np.arange(1 << 16), number, power)
    exps = lines.on_lines(np.clip(scaled + 32767, -32768, 32767), table)
    parts = g.call("gather", g.known(exps, "int32"), away, axis=0, mode="clip")
    total = as_type(g, g.call("sum", parts, axes=last, keepdims=True), "int64")
    bits = bit_length(g, total)
    grown = g.call("left_shift", total, g.call("subtract", wide(g, 31), bits))
    grown = g.call("right_shift", g.call("add", grown, wide(g, 1 << 13)), wide(g, 14))
    around = g.call("subtract", grown, wide(g, (1 << 15) + (1 << 16)))
    around = as_type(g, g.call("clip", around, min=-32768, max=32767), "int16")
    table = lines.lines(lambda v: 1 / (1 + v), (0, 1), step, real=real)
    share = as_type(g, by_table(g, around, lambda v: lines.on_lines(v, table)), "int64")
    shift = g.call("subtract", bits, wide(g, 1))
    half = g.call("left_shift", wide(g, 1), g.call("subtract", shift, wide(g, 1)))
    y = g.call("add", g.call("multiply", as_type(g, parts, "int64"), share), half)
    y = g.call("clip", g.call("right_shift", y, shift), min=0, max=32767)
    return as_type(g, y, "int16")


def scaling(step: float) -> tuple[int, int]:
    """What brings distances to numbers with 5 integer bits."""
    return fixed.factor(min(step * (1 << 31 - INTEGER), (1 << 31) - 1.0))


def radius(power: int) -> int:
    """The largest distance that has such a number."""
    return math.floor(((1 << INTEGER) - 1) * (1 << 31 - INTEGER) / 2.0**power)


def exponentials(number: int, power: int) -> Array:
    """exp of the 256 distances from the largest number, in 31 bits; 0 for those too far away."""
    away = -np.arange(256)
    near = np.maximum(away, -radius(power))
    found = fixed.exp_of_negative(fixed.multiplied(near, number, power), INTEGER)
    return np.where(away < -radius(power), 0, found)


def _summed(g: Build, x: Value, exps: Array) -> tuple[Value, Value]:
    """Distances from the largest number of each row, and the row's sum of exponentials, with 12
    integer bits."""
    codes, last = as_type(g, x, "int32"), (x.rank - 1,)
    away = g.call("subtract", g.call("max", codes, axes=last, keepdims=True), codes)
    rounded = g.constant(fixed.divided(exps, 12), "int32")
    parts = g.call("gather", rounded, away, axis=0, mode="clip")
    return away, g.call("sum", parts, axes=last, keepdims=True)


@tflite_op("LOG_SOFTMAX", 2)
def log_softmax(g: Node, x: Value) -> Value:
    """The logarithm of softmax along the last dimension; of 8-bit numbers in steps of 1 / 16."""
    if not g.integers:
        return g.call("log_softmax", x, axis=x.rank - 1)
    if x.dtype != "int8" or g.out.dtype != "int8":
        g.unsupported(f"quantized {x.dtype} as {g.out.dtype}", "float32, int8")
    number, power = scaling(float(g.scale(g.tensor(0))))
    away, total = _summed(g, x, exponentials(number, power))
    log = logarithm(g, as_type(g, total, "int64"))
    # the distance from which on the kernel does not look: its numbers have no place for more
    back, left = fixed.factor((1 << 31 - power) / number)
    far = multiplied(g, g.call("subtract", log, wide(g, 1 << 31)), wide(g, back), wide(g, left))
    far = g.call("maximum", far, wide(g, -radius(power) - 1))
    distances = g.known(fixed.multiplied(-np.arange(256), number, power), "int64")
    y = g.call("subtract", g.call("gather", distances, away, axis=0, mode="clip"), log)
    y = g.call("add", divided(g, y, wide(g, 22)), wide(g, 127))
    y = g.call("clip", y, min=-128, max=127)
    near = g.call("greater", g.call("negative", as_type(g, away, "int64")), far)
    return as_type(g, g.call("where", near, y, wide(g, -128)), "int8")
