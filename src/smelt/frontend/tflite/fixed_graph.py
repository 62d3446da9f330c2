"""Fixed-point arithmetic of `fixed` as operators of the graph, on int64: for factors that only the
run knows. Those of a row are few, so they cost little."""

from __future__ import annotations

from smelt.frontend.common import Build, Value
from smelt.frontend.common.moves import as_type

from . import fixed


def wide(g: Build, number: int) -> Value:
    """A number as a constant of int64."""
    return g.constant(number, "int64")


def times(g: Build, a: Value, b: Value) -> Value:
    """fixed.times; the product of both is not -(2 ** 31) by itself."""
    product = g.call("add", g.call("multiply", a, b), wide(g, 1 << 30))
    return g.call("right_shift", product, wide(g, 31))


def divided(g: Build, x: Value, bits: Value) -> Value:
    """fixed.divided, by so many bits, 0 or more."""
    rest = g.call("subtract", g.call("left_shift", wide(g, 1), bits), wide(g, 1))
    below = as_type(g, g.call("less", x, wide(g, 0)), "int64")
    half = g.call("add", g.call("right_shift", rest, wide(g, 1)), below)
    up = as_type(g, g.call("greater", g.call("bitwise_and", x, rest), half), "int64")
    return g.call("add", g.call("right_shift", x, bits), up)


def multiplied(g: Build, x: Value, number: Value, power: Value) -> Value:
    """fixed.multiplied."""
    left = g.call("maximum", power, wide(g, 0))
    right = g.call("maximum", g.call("negative", power), wide(g, 0))
    return divided(g, times(g, g.call("left_shift", x, left), number), right)


def bit_length(g: Build, x: Value) -> Value:
    """How many bits a positive number has; int32 holds it."""
    free = as_type(g, g.call("clz", as_type(g, x, "int32")), "int64")
    return g.call("subtract", wide(g, 32), free)


def reciprocal(g: Build, x: Value) -> tuple[Value, Value]:
    """1 / x of a positive int32 as a number of 31 bits, and by how many bits x was made larger for
    it."""
    free = g.call("subtract", wide(g, 32), bit_length(g, x))
    half = g.call("right_shift", g.call("left_shift", x, free), wide(g, 1))
    return _of_half(g, half), free


def _of_half(g: Build, half: Value) -> Value:
    """1 / (2 half) for numbers from 1 / 2 to 1, without integer bits: three of Newton's steps."""
    y = g.call("add", times(g, half, wide(g, -1010580540)), wide(g, 1515870810))
    for _ in range(3):
        rest = g.call("subtract", wide(g, 1 << 29), times(g, half, y))
        y = g.call("add", y, g.call("multiply", times(g, y, rest), wide(g, 4)))
    return _held(g, g.call("multiply", y, wide(g, 2)))


def _held(g: Build, x: Value) -> Value:
    """Positive numbers as far as int32 has them."""
    return g.call("minimum", x, wide(g, fixed.ONE))


def inverse_root(g: Build, x: Value) -> tuple[Value, Value]:
    """1 / sqrt(x) of whole numbers, as fixed.inverse_root: a number of 31 bits, a power of two."""
    one = wide(g, 1)
    length = bit_length(g, g.call("maximum", x, one))
    over = g.call("maximum", g.call("subtract", length, wide(g, 29)), wide(g, 0))
    fours = g.call("right_shift", g.call("add", over, one), one)
    small = g.call("right_shift", x, g.call("multiply", fours, wide(g, 2)))
    length = bit_length(g, g.call("maximum", small, one))
    free = g.call("right_shift", g.call("subtract", wide(g, 31), length), one)
    pairs = g.call("subtract", free, one)
    power = g.call("subtract", g.call("add", wide(g, 11), fours), pairs)
    grown = g.call("left_shift", small, g.call("multiply", pairs, wide(g, 2)))
    half = divided(g, g.call("right_shift", grown, one), one)
    y = wide(g, 1 << 28)
    for _ in range(5):
        cube = g.call("multiply", times(g, times(g, y, y), y), wide(g, 64))
        step = g.call("subtract", times(g, wide(g, 402653184), y), times(g, half, cube))
        y = g.call("multiply", step, wide(g, 8))
    y = times(g, y, wide(g, 1518500250))
    more = g.call("maximum", g.call("negative", power), wide(g, 0))
    y = g.call("left_shift", y, more)
    single = g.call("less_equal", x, one)
    power = g.call("where", single, wide(g, 0), g.call("maximum", power, wide(g, 0)))
    return g.call("where", single, wide(g, fixed.ONE), y), g.call("negative", power)


_ROOT, _FOURTH = 1518500250, 1805811301
"""The square root and the fourth root of 1 / 2."""


def logarithm(g: Build, x: Value) -> Value:
    """log of numbers from 1 on with 12 integer bits, with 5 of them.

    A number is r * 2 ** power with r near the fourth root of 1 / 2, of which the logarithm is a
    quotient of polynomials.
    """
    integer, quarter = wide(g, 12), wide(g, 1 << 23)

    def power(free: Value) -> Value:
        return g.call("left_shift", g.call("subtract", integer, free), wide(g, 25))

    first = g.call("subtract", wide(g, 31), bit_length(g, x))
    grown = times(g, g.call("left_shift", x, first), wide(g, _ROOT))
    r_a = _held(g, g.call("multiply", grown, wide(g, 2)))
    power_a = g.call("add", power(g.call("add", first, wide(g, 1))), quarter)
    second = g.call("subtract", wide(g, 31), bit_length(g, times(g, x, wide(g, _ROOT))))
    r_b = _held(g, g.call("left_shift", x, second))
    power_b = g.call("subtract", power(second), quarter)
    r, most = g.call("minimum", r_a, r_b), g.call("maximum", power_a, power_b)
    fourth, one = wide(g, _FOURTH), wide(g, 1)
    p = g.call("right_shift", g.call("add", g.call("add", r, fourth), one), one)
    q = g.call("multiply", g.call("subtract", r, fourth), wide(g, 2))
    square = times(g, q, q)
    above = g.call("add", times(g, q, r),
                   times(g, times(g, q, square), wide(g, 117049297)))  # fmt: skip
    inner = g.call("add", g.call("add", wide(g, 1057819769), q),
                   times(g, wide(g, 127690142), square))  # fmt: skip
    below = g.call("add", times(g, p, inner), times(g, wide(g, 638450708), q))
    half = g.call("right_shift", g.call("add", below, wide(g, fixed.ONE + 1)), one)
    share = times(g, divided(g, above, wide(g, 6)), _of_half(g, half))
    y = g.call("add", times(g, most, wide(g, 1488522236)), share)
    return g.call("multiply", y, wide(g, 2))
