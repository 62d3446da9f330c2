"""Products of integers with factors that are fixed-point numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from inspect import Parameter
from typing import Any

import numpy as np

from smelt.ir.build import call, value_of
from smelt.ir.expr import Expr, cast, const
from smelt.te.tensor import Tensor

from .common import agree, axes_of, dtype_only, named, one_of, require, tensor
from .reference import Array
from .registry import attributes, op

WIDE = "int64"
FRACTION_BITS = 31
"""Of a multiplier: it stands for multiplier / 2 ** 31."""
LARGEST_SHIFT = 31
ROUNDINGS = ("upward", "away", "twice")


def _product(
    x: Expr, multiplier: Expr, left: Expr | None, right: Expr | None, rounding: str
) -> Expr:
    """x * 2 ** left * multiplier / 2 ** (31 + right), in int64, rounded to the nearest integer."""
    shift: Expr = const(FRACTION_BITS, WIDE)
    value = cast(WIDE, x)
    value = value if left is None else call("shift_left", value, cast(WIDE, left))
    shift = shift if right is None or rounding == "twice" else shift + cast(WIDE, right)
    half = call("shift_left", const(1, WIDE), shift - 1)
    value = value * cast(WIDE, multiplier)
    if rounding == "twice":
        high = cast("int32", call("shift_right", value + half, shift))
        return high if right is None else _halved(high, right)
    if rounding == "away":
        half = half - cast(WIDE, value < 0)
    return cast("int32", call("shift_right", value + half, shift))


def _halved(x: Expr, times: Expr) -> Expr:
    """x / 2 ** times, in int32, rounded to the nearest integer, halves away from zero."""
    times = cast("int32", times)
    rest = call("bitwise_not", call("shift_left", const(-1, "int32"), times))
    half = call("shift_right", rest, const(1, "int32")) + cast("int32", x < 0)
    up = call("bitwise_and", x, rest) > half
    return call("shift_right", x, times) + cast("int32", up)


@op
def fixed_point_multiply(
    x: Tensor, *, multiplier: int, shift: int, rounding: str = "upward"
) -> Tensor:
    """The integer nearest to x * multiplier / 2 ** 31 * 2 ** shift; x is int32.

    multiplier  at least -(2 ** 31) and below 2 ** 31
    shift       -31 to 31
    rounding    of two integers that are equally near: the larger one ("upward"), or the one that
                is farther from zero ("away"); "twice": the product with multiplier / 2 ** 31 is
                rounded first, halves up, and what a shift below 0 makes of it once more, halves
                away from zero

    The product is formed in int64 and what is rounded cut to 32 bits, as Relay does.
    """
    dtype_only("int32", x=x)
    one_of(ROUNDINGS, rounding=rounding)
    require(
        -(1 << 31) <= multiplier < 1 << 31,
        f"multiplier={multiplier}; it has to be at least -(2 ** 31) and below 2 ** 31",
    )
    require(
        -LARGEST_SHIFT <= shift <= LARGEST_SHIFT,
        f"shift={shift}; legal: {-LARGEST_SHIFT} to {LARGEST_SHIFT}",
    )
    factor = const(multiplier, WIDE)
    left = const(shift, WIDE) if shift > 0 else None
    right = const(-shift, WIDE) if shift < 0 else None
    return tensor(
        x.shape, lambda *i: _product(x[i], factor, left, right, rounding), "fixed_point_multiply"
    )


def _half_up(exact: Fraction) -> int:
    return math.floor(exact + Fraction(1, 2))


def _rescaled(value: int, multiplier: int, left: int, right: int, rounding: str) -> int:
    """The integer nearest to value * multiplier * 2 ** (left - right - 31), cut to 32 bits."""
    exact = int(value) * Fraction(int(multiplier), 1 << 31) * (1 << int(left))
    if rounding == "twice":
        exact = Fraction(_cut(_half_up(exact)))
    exact /= 1 << int(right)
    down = rounding in ("away", "twice") and exact < 0
    rounded = math.ceil(exact - Fraction(1, 2)) if down else _half_up(exact)
    return _cut(rounded)


def _cut(value: int) -> int:
    """The lowest 32 bits, as an int32."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


_RESCALED = np.vectorize(_rescaled, otypes=[np.int32])
"""The same of all elements of arrays that broadcast."""


def rounded_twice(value: Array, multiplier: Array, right: Array) -> Array:
    """value * multiplier / 2 ** (31 + right), rounded twice, of arrays that broadcast."""
    return np.asarray(_RESCALED(value, multiplier, 0, right, "twice")).astype(np.int64)


@fixed_point_multiply.numpy
def _(x: Array, *, multiplier: int, shift: int, rounding: str) -> Array:
    """x * multiplier * 2 ** (shift - 31) in exact fractions."""
    return np.asarray(_RESCALED(x, multiplier, max(shift, 0), max(-shift, 0), rounding))


def _agreed(x: Tensor, factors: dict[str, Tensor], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Axes, after a look at types and at the shapes of factors along them."""
    dtype_only("int32", x=x, **factors)
    axes = axes_of(axes, len(x.shape))
    for name, t in factors.items():
        own, count = named(**{name: t}), len(t.shape)
        require(count == len(axes), f"{own} has {count} dimensions; axes={axes} needs {len(axes)}")
        for a, e in zip(axes, t.shape, strict=True):
            agree(x.shape[a], e, f"{named(x=x)} and {own}: dimension {a} of x")
    return axes


@op
def fixed_point_multiply_per_axis(
    x: Tensor, multiplier: Tensor, left_shift: Tensor, right_shift: Tensor, *,
    is_lshift_required: bool = True, is_rshift_required: bool = True, axes: tuple[int, ...] = (1,),
    rounding: str = "upward",
) -> Tensor:  # fmt: skip
    """The integer nearest to x * 2 ** left_shift * multiplier / 2 ** (31 + right_shift), with
    factors that vary along `axes`; everything is int32.

    Shapes  multiplier, left_shift and right_shift [the extents of x along axes]
    left_shift, right_shift  0 to 31; not looked at where is_lshift_required, is_rshift_required
                             are false
    rounding  as in fixed_point_multiply
    """
    one_of(ROUNDINGS, rounding=rounding)
    factors = {"multiplier": multiplier, "left_shift": left_shift, "right_shift": right_shift}
    axes = _agreed(x, factors, axes)

    def body(*i: Expr) -> Expr:
        at: Sequence[Expr] = tuple([i[a] for a in axes])
        left = left_shift[at] if is_lshift_required else None
        right = right_shift[at] if is_rshift_required else None
        return _product(x[i], multiplier[at], left, right, rounding)

    return tensor(x.shape, body, "fixed_point_multiply_per_axis")


@fixed_point_multiply_per_axis.numpy
def _(
    x: Array, multiplier: Array, left_shift: Array, right_shift: Array, *,
    is_lshift_required: bool, is_rshift_required: bool, axes: Sequence[int], rounding: str,
) -> Array:  # fmt: skip
    """x * multiplier * 2 ** (left - right - 31) in exact fractions."""
    kept = sorted([a % x.ndim for a in axes])
    shape = [n if d in kept else 1 for d, n in enumerate(x.shape)]
    m, left, right = (t.reshape(shape) for t in (multiplier, left_shift, right_shift))
    return np.asarray(
        _RESCALED(x, m, left * is_lshift_required, right * is_rshift_required, rounding)
    )


BIAS, MULTIPLIER, OFFSET, SHIFT, MASK = range(5)
"""Where they stand among the factors of `requantize_sums`."""


@op
def requantize_sums(
    x: Tensor, factors: Tensor, *, axis: int = 1, away: bool = True, halved: bool = False
) -> Tensor:
    """(h - (h < 0) + offset) >> shift, where h is the integer nearest to (2 x + bias) * multiplier
    / 2 ** 32, halves up; everything is int32.

    With offset = 2 ** (shift - 1) it is `fixed_point_multiply_per_axis` of x + bias / 2 that rounds
    twice, for sums that leave room in 32 bits: a few instructions of a processor that gives the
    upper half of a product. Nothing is said of sums that overflow.

    Shapes  factors [the extent of x along the axis, 4 or 5]: bias, multiplier, offset, shift, mask
    shift   0 to 31
    mask    -1, or 0 where (h < 0) does not count, since nothing is rounded twice; -1 if left out
    away    whether (h < 0) counts at all: halves below zero are rounded away from it
    halved  whether factors are bias / 2 and -shift, as vector units want them
    """
    dtype_only("int32", x=x, factors=factors)
    (axis,) = axes_of((axis,), len(x.shape))
    require(len(factors.shape) == 2, f"{named(factors=factors)} has to have 2 dimensions")
    agree(x.shape[axis], factors.shape[0], f"{named(x=x)} and factors: dimension {axis} of x")
    columns = value_of(factors.shape[1])
    require(columns in (4, 5), f"{named(factors=factors)}: dimension 1 has to be 4 or 5")

    def body(*i: Expr) -> Expr:
        own = [factors[(i[axis], n)] for n in range(columns or 0)]
        return settle(x[i], *own, away=away, halved=halved)

    return tensor(x.shape, body, "requantize_sums")


def settle(
    x: Expr, bias: Expr, multiplier: Expr, offset: Expr, shift: Expr, mask: Expr | None = None,
    *, away: bool = True, halved: bool = False,
) -> Expr:  # fmt: skip
    """See `requantize_sums`."""
    high = call("high_product", (x + bias) * 2 if halved else x * 2 + bias, multiplier)
    if away:
        sign = call("shift_right", high, const(31, "int32"))
        sign = sign if mask is None else call("bitwise_and", sign, mask)
        high = high + sign
    return call("shift_right", high + offset, const(0, "int32") - shift if halved else shift)


@requantize_sums.numpy
def _(x: Array, factors: Array, *, axis: int, away: bool, halved: bool) -> Array:
    """By channels."""
    shape = [n if d == axis % x.ndim else 1 for d, n in enumerate(x.shape)]
    columns = [f.reshape(shape) for f in factors.T.astype(np.int64)]
    if halved:
        columns[BIAS], columns[SHIFT] = 2 * columns[BIAS], -columns[SHIFT]
    return _settled_array(x, *columns, away=away)


@op
@attributes(factors=Parameter.empty, away=True)
def requantize_sum(x: Tensor, *, factors: tuple[int, ...], away: bool = True) -> Tensor:
    """The same with factors for all sums: 4 or 5 numbers."""
    dtype_only("int32", x=x)
    require(len(factors) in (4, 5), f"factors={factors} has to have 4 or 5 numbers")
    given = [const(f, "int32") for f in factors]
    return tensor(x.shape, lambda *i: settle(x[i], *given, away=away), "requantize_sum")


@requantize_sum.numpy
def _(x: Array, *, factors: Sequence[int], away: bool) -> Array:
    return _settled_array(x, *factors, away=away)


def _settled_array(
    x: Array, bias: Any, multiplier: Any, offset: Any, shift: Any, mask: Any = -1,
    *, away: bool = True,
) -> Array:  # fmt: skip
    """In int64."""
    high = ((2 * x.astype(np.int64) + bias) * multiplier + (1 << 31)) >> 32
    sign = high >> 63 & mask if away else 0
    return np.asarray((high + sign + offset) >> shift).astype(np.int32)
