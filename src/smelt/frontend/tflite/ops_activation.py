"""Converters of functions of one operand; those of 8-bit numbers are tables of all results."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from smelt.frontend.common import Value
from smelt.frontend.common.moves import as_type
from smelt.ir import dtype as dt

from . import fixed, lines
from .layout import elementwise
from .node import Node
from .quantized import (
    EIGHT_BITS,
    NARROW,
    ZERO_TO_ONE,
    by_table,
    clipped,
    distance,
    requantized,
    scaled,
    whole,
)  # fmt: skip
from .registry import tflite_op

Array = np.ndarray[Any, Any]


def only(g: Node, x: Value, types: tuple[str, ...]) -> None:
    """Unsupported for quantized numbers of other types."""
    if x.dtype not in types or g.out.dtype != x.dtype:
        legal = ", ".join(("float32", *types))
        g.unsupported(f"quantized {x.dtype} as {g.out.dtype}", legal)


Function = Callable[[Node, Value], Value]


def _function(name: str, newest: int, op: str) -> Callable[[Function], Function]:
    """Enter what an operator of one operand does with quantized numbers; floats are the core's."""

    def enter(quantized: Function) -> Function:
        @tflite_op(name, newest)
        def converter(g: Node, x: Value) -> Value:
            return quantized(g, x) if g.integers else elementwise(g, partial(g.call, op), x)

        return quantized

    return enter


def looked_up(
    g: Node, x: Value, fn: Callable[[Array], Array], types: tuple[str, ...] = NARROW
) -> Value:
    """A table of numbers in steps of the result's scale, from the distances from the zero point."""
    only(g, x, types)
    t, zero = g.out, g.zero(g.tensor(0))
    low, high = dt.limits(t.dtype)

    def results(codes: Array) -> Array:
        y = np.clip(fn(codes - zero), low, high)
        return np.asarray(y).astype(t.dtype)

    return elementwise(g, lambda x: by_table(g, x, results), x)


def of_floats(g: Node, fn: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A table of a function of the numbers that are stood for, in float32; of 16 bits, on lines."""
    scale, step, zero = g.scale(g.tensor(0)), g.scale(g.out), g.zero(g.out)
    if g.tensor(0).dtype == "int16":
        own = g.zero(g.tensor(0))
        low, high = (scale * np.float32(end - own) for end in dt.limits("int16"))
        table = lines.lines(fn, (low, high), step, zero)
        return lambda away: lines.on_lines(away + own, table)

    def results(away: Array) -> Array:
        with np.errstate(all="ignore"):
            y = fn((scale * away.astype(np.float32)).astype(np.float32)).astype(np.float32)
            steps = np.clip(whole(y / step), -(1 << 30), 1 << 30)
        return np.where(np.isnan(steps), 0, steps).astype(np.int64) + zero

    return results


# ---------------------------------------------------------------------------- logistic and tanh


def _on_lines(g: Node, fn: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A function of 16-bit numbers, which are brought to steps of 1 / 12288."""
    source, step = g.tensor(0), g.scale(g.out)
    if g.zero(source) or g.zero(g.out) or step != np.float32(1 / 32768):
        given = f"zero points {g.zero(source)}, {g.zero(g.out)} and the scale {step} of the result"
        g.unsupported(given, "0, 0 and 1 / 32768")
    number, bits = float(g.scale(source)) * 12288, 0
    while number <= 32767 / 2 and bits <= 30:
        number, bits = number * 2, bits + 1
    half = 1 << bits >> 1
    return lambda away: fn((away * int(number) + half) >> bits)


def _by_fixed_point(g: Node, fn: Callable[[Array, int], Array], bits: int) -> Any:
    """A function of numbers with 4 integer bits, brought to so many bits."""
    number, power = fixed.factor(float(g.scale(g.tensor(0))) * (1 << 27))
    radius = math.floor(15 * (1 << 27) / 2.0**power)
    low, high = dt.limits(g.out.dtype)
    # uint8 has its zero point at the end of its range, int8 in the middle of logistic's
    base = low if fn is fixed.logistic else (low + high + 1) // 2

    def results(away: Array) -> Array:
        y = fixed.divided(fn(fixed.multiplied(away, number, power), 4), 31 - bits) + base
        return np.where(away <= -radius, low, np.where(away >= radius, high, y))

    return results


@_function("LOGISTIC", 3, "sigmoid")
def logistic(g: Node, x: Value) -> Value:
    """1 / (1 + exp(-x))."""
    if x.dtype == "int16":
        return looked_up(g, x, _on_lines(g, lines.logistic))
    return looked_up(g, x, _by_fixed_point(g, fixed.logistic, 8))


@_function("TANH", 3, "tanh")
def tanh(g: Node, x: Value) -> Value:
    """The hyperbolic tangent."""
    if x.dtype == "int16":
        return looked_up(g, x, _on_lines(g, lines.tanh))
    return looked_up(g, x, _by_fixed_point(g, fixed.tanh, 7))


# ----------------------------------------------------------------------- tables through float32


def precise(fn: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A function of float32 by way of float64, so that its last bit is right, too."""
    return lambda x: fn(x.astype(np.float64)).astype(np.float32)


def _elu(x: Array) -> Array:
    return np.where(x < 0, np.expm1(x), x)


@_function("EXP", 2, "exp")
def exp(g: Node, x: Value) -> Value:
    """e to the power x."""
    return looked_up(g, x, of_floats(g, precise(np.exp)))


@_function("ELU", 1, "elu")
def elu(g: Node, x: Value) -> Value:
    """x where x > 0, exp(x) - 1 elsewhere."""
    return looked_up(g, x, of_floats(g, _elu), EIGHT_BITS)


def _of_positive(g: Node, fn: Callable[[Array], Array], end: int) -> Callable[[Array], Array]:
    """A function of numbers above 0; of others, the first or the last number of the result."""
    other = g.scale(g.out) * np.float32(dt.limits(g.out.dtype)[end] - g.zero(g.out))
    return of_floats(g, lambda v: np.where(v > 0, fn(np.where(v > 0, v, 1)), other))


@_function("LOG", 2, "log")
def log(g: Node, x: Value) -> Value:
    """The natural logarithm."""
    return looked_up(g, x, _of_positive(g, precise(np.log), 0))


@_function("SQRT", 2, "sqrt")
def sqrt(g: Node, x: Value) -> Value:
    """The square root; of quantized numbers, cut off."""
    scale, step, zero = g.scale(g.tensor(0)), g.scale(g.out), g.zero(g.out)

    def results(away: Array) -> Array:
        root = np.sqrt(np.maximum(scale * away.astype(np.float32), 0))
        return np.asarray(np.trunc(root / step).astype(np.int64) + zero)

    return looked_up(g, x, results)


def _gelu(approximate: bool) -> Callable[[Array], Array]:
    def exact(x: Array) -> Array:
        bell = [math.erfc(v) for v in (x * np.float32(-math.sqrt(0.5))).ravel()]
        return np.asarray(np.float32(0.5) * x * np.array(bell, np.float32).reshape(x.shape))

    def near(x: Array) -> Array:
        inside = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
        return np.asarray(np.float32(0.5) * x * (1 + precise(np.tanh)(inside)))

    return near if approximate else exact


@tflite_op("GELU", 2)
def gelu(g: Node, x: Value, *, approximate: bool = False) -> Value:
    """x times the share of a normal distribution that lies below it."""
    if not g.integers:
        form = "tanh" if approximate else "none"
        return elementwise(g, lambda x: g.call("gelu", x, approximate=form), x)
    return looked_up(g, x, of_floats(g, _gelu(approximate)))


@_function("RSQRT", 3, "rsqrt")
def rsqrt(g: Node, x: Value) -> Value:
    """1 / sqrt(x)."""
    if x.dtype == "int16":
        return looked_up(g, x, _of_positive(g, lambda v: 1 / np.sqrt(v), 1))
    root = np.sqrt(g.scale(g.tensor(0)))
    number, power = fixed.factor(float(np.float32(1) / (root * g.scale(g.out))))
    zero, high = g.zero(g.out), dt.limits(g.out.dtype)[1]

    def results(away: Array) -> Array:
        own, left = fixed.inverse_root(np.maximum(away, 1))
        fine = fixed.multiplied(1, own, left + 20)
        y = fixed.multiplied(fine, number, power - 20) + zero
        return np.where(away <= 0, high, y)

    return looked_up(g, x, results)


# ------------------------------------------------------------------------------ relu and its kin


def _relu(
    name: str, activation: int, low: float, high: float | None, types: tuple[str, ...] = NARROW
) -> None:
    @tflite_op(name, 3)
    def converter(g: Node, x: Value) -> Value:
        if not g.integers:
            if low == 0 and high is None:
                return elementwise(g, lambda x: g.call("relu", x), x)
            return elementwise(g, lambda x: clipped(g, x, low, high), x)
        only(g, x, types)
        ratio = np.float64(g.scale(g.tensor(0)) / g.scale(g.out))

        def held(x: Value) -> Value:
            return requantized(g, distance(g, x, g.zero(g.tensor(0))), ratio, g.out, activation)

        return elementwise(g, held, x)


_relu("RELU", 1, 0.0, None)
_relu("RELU6", 3, 0.0, 6.0)
_relu("RELU_N1_TO_1", 2, -1.0, 1.0, EIGHT_BITS)
_relu("RELU_0_TO_1", ZERO_TO_ONE, 0.0, 1.0, EIGHT_BITS)


@tflite_op("LEAKY_RELU", 2)
def leaky_relu(g: Node, x: Value, *, alpha: float = 0.0) -> Value:
    """x where it is positive, alpha * x elsewhere."""
    if not g.integers:
        return elementwise(g, lambda x: g.call("leaky_relu", x, alpha=alpha), x)
    step, own = g.scale(g.tensor(0)), g.scale(g.out)
    zero = g.zero(g.out)
    high, low = (fixed.factor(float(v)) for v in (step / own, step * np.float32(alpha) / own))

    def results(away: Array) -> Array:
        return (
            np.where(away >= 0, fixed.multiplied(away, *high), fixed.multiplied(away, *low)) + zero
        )

    return looked_up(g, x, results)


@tflite_op("PRELU", 1)
def prelu(g: Node, x: Value, slope: Value) -> Value:
    """x where it is positive, slope * x elsewhere."""
    if not g.integers:
        return elementwise(g, lambda x, s: g.call(
            "where", g.call("less", x, 0.0), g.call("multiply", x, s), x), x, slope)  # fmt: skip
    only(g, x, NARROW)
    fit = "int8" if x.dtype == "int16" else x.dtype
    if slope.dtype != fit:
        g.unsupported(f"slopes of {slope.dtype} for {x.dtype}", fit)
    steps = [g.scale(g.tensor(k)) for k in (0, 1)]
    own = g.scale(g.out)
    zeros = [g.zero(g.tensor(k)) for k in (0, 1)]

    def both(x: Value, s: Value) -> Value:
        away = distance(g, x, zeros[0])
        high = scaled(g, away, float(steps[0] / own))
        product = g.call("multiply", away, distance(g, s, zeros[1]))
        low = scaled(g, product, float(steps[0] * steps[1] / own))
        y = g.call("where", g.call("less", away, g.known(0, "int32")), low, high)
        moved = g.call("add", y, g.known(g.zero(g.out), "int32"))
        ends = dt.limits(g.out.dtype)
        return as_type(g, g.call("clip", moved, min=ends[0], max=ends[1]), g.out.dtype)

    return elementwise(g, both, x, slope)


@_function("ABS", 5, "abs")
def abs_(g: Node, x: Value) -> Value:
    """The magnitude."""
    step, own = g.scale(g.tensor(0)), g.scale(g.out)
    ratio, zero = fixed.factor(float(step / own)), g.zero(g.out)
    return looked_up(g, x, lambda away: fixed.multiplied(np.abs(away), *ratio) + zero)


@tflite_op("NEG", 2)
def neg(g: Node, x: Value) -> Value:
    """The number with the other sign; quantized ones as they are, whatever their zero point."""
    return elementwise(g, lambda x: g.call("negative", x), x)


@tflite_op("HARD_SWISH")
def hard_swish(g: Node, x: Value) -> Value:
    """x * relu6(x + 3) / 6."""
    if not g.integers:

        def floats(x: Value) -> Value:
            inside = g.call("clip", g.call("add", x, 3.0), min=0.0, max=6.0)
            return g.call("multiply", g.call("multiply", x, inside), float(np.float32(1 / 6)))

        return elementwise(g, floats, x)
    fine = np.float32(1 / 128) * g.scale(g.tensor(0))
    (out, out_power), (relu, relu_power) = (
        fixed.factor(float(v))
        for v in (fine / g.scale(g.out), fine / (np.float32(3) / np.float32(32768)))
    )
    out, relu = (fixed.ONE >> 16 if v >= fixed.ONE - (1 << 15) else (v + (1 << 15)) >> 16
                 for v in (out, relu))  # fmt: skip

    def results(away: Array) -> Array:
        hires = fixed.saturated(away << 7, 16)
        before, inside = fixed.times(hires, out, 16), hires
        if relu_power > 0:
            inside = fixed.moved(inside, relu_power - 1, 16)
        inside = fixed.times(inside, relu, 16)
        if relu_power > 0:
            inside = fixed.moved(inside, 1, 16)
        elif relu_power < 0:
            inside = fixed.divided(inside, -relu_power)
        share = (inside + (1 << 15)) >> 1
        product = share * before
        y = np.sign(product) * (np.abs(product) >> 15)
        return fixed.moved(y, out_power, 16) + g.zero(g.out)

    return looked_up(g, x, results, EIGHT_BITS)


# ------------------------------------------------------------------------------- quantized <-> not


@tflite_op("QUANTIZE", 4)
def quantize(g: Node, x: Value) -> Value:
    """Floats as quantized numbers, or these with another scale, zero point or type."""
    t, source = g.out, g.tensor(0)
    if not t.quantized:
        g.unsupported(f"the result {t.name!r} without a scale", "quantized tensors")
    if dt.is_float(x.dtype):
        return g.call("quantize", x, _scales(g, t), _zeros(g, t), axis=t.axis, out_dtype=t.dtype,
                      rounding="away")  # fmt: skip
    ratio = np.float64(g.scale(source)) / np.float64(g.scale(t))
    return elementwise(g, lambda x: requantized(g, distance(g, x, g.zero(source)), ratio, t), x)


def _scales(g: Node, t: Any) -> Value:
    return g.known(t.scales if t.scales.size > 1 else t.scales[0], "float32")


def _zeros(g: Node, t: Any) -> Value:
    return g.known(t.zeros if t.zeros.size > 1 else t.zeros[0], "int32")


@tflite_op("DEQUANTIZE", 6)
def dequantize(g: Node, x: Value) -> Value:
    """The numbers that are stood for."""
    t = g.tensor(0)
    if dt.is_float(x.dtype):
        return as_type(g, x, "float32")
    if not t.quantized:
        g.unsupported(f"the operand {t.name!r} without a scale", "quantized tensors")
    return g.call("dequantize", x, _scales(g, t), _zeros(g, t), axis=t.axis)


@tflite_op("FAKE_QUANT", 2)
def fake_quant(
    g: Node, x: Value, *, min: float = 0.0, max: float = 0.0, num_bits: int = 0,
    narrow_range: bool = False,
) -> Value:  # fmt: skip
    """Floats rounded to the steps that numbers of so many bits would have."""
    if not 2 <= num_bits <= 16 or not min < max:
        g.malformed(f"num_bits={num_bits}, min={min}, max={max}")
    low, high = float(narrow_range), float((1 << num_bits) - 1)
    step = np.float32((max - min) / (high - low))
    zero = float(np.clip(whole(low - np.float32(min) / step), low, high))
    ends = [float(np.float32((e - zero) * step)) for e in (low, high)]
    y = g.call("clip", x, min=ends[0], max=ends[1])
    inverse = float(np.float32(1) / step)
    y = g.call("multiply", g.call("subtract", y, ends[0]), inverse)
    y = g.call("round", y, mode="away")
    return g.call("add", g.call("multiply", y, float(step)), ends[0])
