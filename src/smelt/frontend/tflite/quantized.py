"""Numbers q that stand for scale * (q - zero point), as TFLite's reference kernels compute them.

A kernel forms sums of products in int32 and multiplies them by a number of 31 bits and a power of
two. Most round twice: the product, and then what is shifted to the right; those of matrices round
once, halves up: see `requantize`. The factor is a ratio of scales, which are float32: whether a
kernel forms it in float32 or in float64 makes a difference in the last bit, and each converter does
as its kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from smelt.frontend.common import Value
from smelt.frontend.common.moves import as_type
from smelt.ir import dtype as dt

from . import fixed
from .node import Node
from .read import Tensor

EIGHT_BITS = ("int8", "uint8")
NARROW = (*EIGHT_BITS, "int16")

ZERO_TO_ONE = -1
"""What no node has fused: RELU_0_TO_1."""

ACTIVATIONS: dict[int, tuple[float | None, float | None]] = {
    0: (None, None), 1: (0.0, None), 2: (-1.0, 1.0), 3: (0.0, 6.0), ZERO_TO_ONE: (0.0, 1.0),
}  # fmt: skip
"""What a fused activation keeps of the numbers: all, RELU, RELU_N1_TO_1, RELU6."""

_NAMES = {0: "NONE", 1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH", 5: "SIGN_BIT"}


def bounds_of(g: Node, activation: int) -> tuple[float | None, float | None]:
    """The range that a fused activation keeps."""
    if activation not in ACTIVATIONS:
        name = _NAMES.get(activation, activation)
        g.unsupported(f"the fused activation {name}",
                      ", ".join([_NAMES[a] for a in ACTIVATIONS if a >= 0]))  # fmt: skip
    return ACTIVATIONS[activation]


def whole(x: Any) -> Any:
    """Rounded to whole numbers, halves away from zero."""
    return np.trunc(x + np.copysign(0.5, x))


def range_of(g: Node, t: Tensor, activation: int) -> tuple[int, int]:
    """The numbers that a quantized result may have behind its fused activation."""
    low, high = dt.limits(t.dtype)
    ends = []
    for bound, end, pick in zip(bounds_of(g, activation), (low, high), (max, min), strict=True):
        if bound is None:
            ends.append(end)
            continue
        steps = int(whole(np.float64(np.float32(bound) / g.scale(t)))) + g.zero(t)
        ends.append(pick(end, steps))
    return int(ends[0]), int(ends[1])


def clipped(g: Node, x: Value, low: float | None, high: float | None) -> Value:
    """The elements inside of a range; itself where its type has no others."""
    if not dt.is_float(x.dtype) and (low, high) == dt.limits(x.dtype):
        return x
    if low is None and high is None:
        return x
    return g.call("clip", x, min=low, max=high)


def activated(g: Node, x: Value, activation: int) -> Value:
    """Floats, or numbers that stand for themselves, behind a fused activation."""
    low, high = bounds_of(g, activation)
    if low == 0 and high is None:
        return g.call("relu", x)
    if not dt.is_float(x.dtype):
        return clipped(g, x, *[None if b is None else int(b) for b in (low, high)])
    return clipped(g, x, low, high)


def requantized(
    g: Node, sums: Value, ratio: Any, t: Tensor, activation: int = 0, axis: int = -1,
    rounding: str = "twice",
) -> Value:  # fmt: skip
    """Sums in int32, times a ratio of scales (one float64, or one for each index of an axis), as
    numbers of the result."""
    factor = np.asarray(ratio, np.float64)
    factor = factor.reshape(()) if factor.size == 1 else factor
    y = g.call("requantize", sums, g.known(factor), None, g.known(np.float32(1)),
               g.known(np.int32(g.zero(t))), axis=axis, out_dtype=t.dtype,
               rounding=rounding)  # fmt: skip
    return clipped(g, y, *range_of(g, t, activation))


def requantized_wide(
    g: Node, sums: Value, ratio: Any, t: Tensor, activation: int = 0, spatial: int = 0,
    bits: int = 15,
) -> Value:  # fmt: skip
    """Sums in int64, times a ratio of scales, as numbers of 16 bits: the factor has so many bits,
    and the product is rounded once, halves up. Channels stand in front of `spatial` dimensions."""
    form = (-1, *(1,) * spatial) if np.size(ratio) > 1 else ()
    pairs = [fixed.factor(float(v)) for v in np.atleast_1d(ratio)]
    cut = 31 - bits
    numbers = [min((m + (1 << cut >> 1)) >> cut, (1 << bits) - 1) for m, _ in pairs]
    shifts = np.array([bits - power for _, power in pairs]).reshape(form)
    y = g.call("multiply", sums, g.known(np.array(numbers).reshape(form), "int64"))
    y = g.call("add", y, g.known(np.int64(1) << (shifts - 1), "int64"))
    y = g.call("right_shift", y, g.known(shifts, "int64"))
    low, high = range_of(g, t, activation)
    y = g.call("clip", g.call("add", y, g.known(g.zero(t), "int64")), min=low, max=high)
    return as_type(g, y, t.dtype)


def scaled(g: Node, x: Value, ratio: float, rounding: str = "twice") -> Value:
    """An int32 times a float64, in int32."""
    return g.call("requantize", x, g.known(np.float64(ratio)), None, g.known(np.float32(1)), None,
                  out_dtype="int32", rounding=rounding)  # fmt: skip


def distance(g: Node, x: Value, zero: int) -> Value:
    """Numbers without their zero point, in int32."""
    wide = as_type(g, x, "int32")
    return g.call("subtract", wide, g.known(zero, "int32")) if zero else wide


def stored(g: Node, x: Value, t: Tensor, activation: int = 0) -> Value:
    """Whole numbers of int32 in steps of the result's scale, moved by its zero point, saturated."""
    zero = g.zero(t)
    moved = g.call("add", x, g.known(zero, "int32")) if zero else x
    low, high = range_of(g, t, activation)
    return as_type(g, g.call("clip", moved, min=low, max=high), t.dtype)


def by_table(g: Node, x: Value, fn: Callable[[np.ndarray], np.ndarray]) -> Value:
    """A function of numbers of 8 or 16 bits, looked up; `fn` gives the results of all numbers at
    once."""
    return looked_up_in(g, table_of(g, x.dtype, fn), x)


def table_of(g: Node, dtype: str, fn: Callable[[np.ndarray], np.ndarray]) -> Value:
    """The results of all numbers of a type."""
    lowest, highest = dt.limits(dtype)
    return g.known(np.asarray(fn(np.arange(lowest, highest + 1))))


def looked_up_in(g: Node, table: Value, x: Value) -> Value:
    """The results of numbers, from a table of all."""
    lowest = dt.limits(x.dtype)[0]
    index = as_type(g, x, "int32")
    index = g.call("subtract", index, g.known(lowest, "int32")) if lowest else index
    return g.call("gather", table, index, axis=0, mode="clip")


def same_numbers(g: Node, *tensors: Tensor) -> None:
    """Unsupported unless all tensors have one scale and one zero point."""
    one = tensors[0]
    for t in tensors[1:]:
        if t.quantized != one.quantized or (
            one.quantized and (g.scale(t), g.zero(t)) != (g.scale(one), g.zero(one))
        ):
            g.unsupported(f"{one.name!r} and {t.name!r} with different scales or zero points",
                          "the same ones")  # fmt: skip
