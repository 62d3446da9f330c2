"""Fixed-point functions as TFLite's reference kernels compute them, on numpy's int64.

A number with i integer bits is an int32 in steps of 2 ** (i - 31). Every product of two is rounded
to 31 bits, halves up, and every shift to the right rounds halves away from zero.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

ONE = (1 << 31) - 1
"""The largest number without integer bits, which stands for 1."""


def saturated(x: Any, bits: int = 32) -> Array:
    """Held in the range of so many bits."""
    end = 1 << (bits - 1)
    return np.asarray(np.clip(np.asarray(x, np.int64), -end, end - 1))


def times(a: Any, b: Any, bits: int = 32) -> Array:
    """The upper half of a product of two numbers of so many bits, doubled, rounded to the nearest,
    halves up."""
    a, b = np.asarray(a, np.int64), np.asarray(b, np.int64)
    return saturated((a * b + (1 << bits - 2)) >> bits - 1, bits)


def divided(x: Any, bits: Any) -> Array:
    """x / 2 ** bits, rounded to the nearest, halves away from zero."""
    x = np.asarray(x, np.int64)
    rest = (np.int64(1) << np.asarray(bits, np.int64)) - 1
    return np.asarray((x >> bits) + ((x & rest) > (rest >> 1) + (x < 0)))


def moved(x: Any, bits: int, width: int = 32) -> Array:
    """x * 2 ** bits, saturated; rounded where the bits are negative."""
    return saturated(np.asarray(x, np.int64) << bits, width) if bits >= 0 else divided(x, -bits)


def factor(ratio: float) -> tuple[int, int]:
    """A number of 31 bits and a power of two whose product is the nearest to a ratio."""
    part, power = math.frexp(ratio)
    number = math.floor(part * (1 << 31) + 0.5)
    if number == 1 << 31:
        number, power = number // 2, power + 1
    return (0, 0) if power < -31 else (number, power)


def multiplied(x: Any, number: Any, power: Any) -> Array:
    """x * number / 2 ** 31 * 2 ** power, rounded twice."""
    left = np.asarray(x, np.int64) << np.maximum(power, 0)
    return divided(times(left, number), np.maximum(-np.asarray(power), 0))


# ------------------------------------------------------------ exp and what is made of it
# `bits` is the width of all numbers: 32, or 16 with constants that are rounded to so many


def _rounded(number: int, bits: int) -> int:
    """A constant of 32 bits in so many."""
    cut = 32 - bits
    return (number + (1 << cut >> 1)) >> cut


def exp_of_quarter(a: Array, bits: int = 32) -> Array:
    """exp of numbers from -1/4 to 0, without integer bits."""
    x = np.asarray(a, np.int64) + (1 << bits - 4)
    x2 = times(x, x, bits)
    x3, x4 = times(x2, x, bits), times(x2, x2, bits)
    third = _rounded(715827883, bits)  # 1 / 3
    rest = divided(times(divided(x4, 2) + x3, third, bits) + x2, 1)
    eighth = _rounded(1895147668, bits)  # exp(-1 / 8)
    return saturated(eighth + times(eighth, x + rest, bits), bits)


_FACTORS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""exp of -1/4, -1/2, -1, -2, -4, -8, -16."""


def exp_of_negative(a: Any, integer: int, bits: int = 32) -> Array:
    """exp of numbers up to 0 with so many integer bits, without integer bits."""
    a = np.asarray(a, np.int64)
    fraction = bits - 1 - integer
    quarter = 1 << (fraction - 2)
    rest = (a & (quarter - 1)) - quarter
    y = exp_of_quarter(moved(rest, integer, bits), bits)
    away = rest - a
    for n, f in enumerate(_FACTORS):
        if integer > n - 2:
            less = times(y, _rounded(f, bits), bits)
            y = np.where(away & (1 << (fraction - 2 + n)), less, y)
    if integer > 5:
        y = np.where(a < -(1 << (fraction + 5)), 0, y)
    return np.where(a == 0, (1 << bits - 1) - 1, y)


def _half_of_reciprocal(a: Any, bits: int) -> Array:
    """1 / (1 + a) with two integer bits, for numbers from 0 to 1 without: three of Newton's steps
    for half the denominator."""
    half = (np.asarray(a, np.int64) + (1 << bits - 1)) >> 1  # rounded half of a sum
    factor = _rounded(-1010580540, bits)
    x = _rounded(1515870810, bits) + times(half, factor, bits)  # 48 / 17 - 32 / 17 d
    for _ in range(3):
        rest = (1 << bits - 3) - times(half, x, bits)
        x = x + moved(times(x, rest, bits), 2, bits)
    return x


def logistic(a: Any, integer: int, bits: int = 32) -> Array:
    """1 / (1 + exp(-a)), without integer bits."""
    a, one = np.asarray(a, np.int64), (1 << bits - 1) - 1
    e = exp_of_negative(-np.abs(a), integer, bits)
    y = moved(_half_of_reciprocal(e, bits), 1, bits)
    return np.where(a == 0, 1 << bits - 2, np.where(a > 0, y, one - y))


def tanh(a: Any, integer: int, bits: int = 32) -> Array:
    """tanh, without integer bits."""
    a = np.asarray(a, np.int64)
    e = exp_of_negative(-np.abs(a), integer + 1, bits)  # of 2 a
    # (1 - e) / (1 + e) = 2 / (1 + e) - 1
    y = moved(_half_of_reciprocal(e, bits) - (1 << bits - 3), 2, bits)
    return np.where(a == 0, 0, np.where(a > 0, y, -y))


def inverse_root(x: Any) -> tuple[Array, Array]:
    """1 / sqrt(x) of whole numbers below 2 ** 29, as numbers of 31 bits and powers of two."""
    x = np.asarray(x, np.int64)
    bits = np.frexp(np.maximum(x, 1).astype(np.float64))[1]
    pairs = (31 - bits) // 2 - 1  # pairs of bits that are free
    power = 11 - pairs
    half = divided((x << 2 * pairs) >> 1, 1)  # half of the number with three integer bits
    y = np.full(x.shape, 1 << 28)
    for _ in range(5):
        cube = moved(times(times(y, y), y), 6)
        y = moved(times(402653184, y) - times(half, cube), 3)
    y = times(y, 1518500250)  # sqrt(1 / 2)
    y = saturated(y << np.maximum(-power, 0))
    return np.where(x <= 1, ONE, y), np.where(x <= 1, 0, -np.maximum(power, 0))
