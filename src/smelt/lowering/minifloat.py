"""Bit patterns of narrow element types: from and to a type that processors compute with.

bfloat16: 1 sign, 8 exponent, 7 fraction bits: the upper half of a float32. float16: 1, 5, 10.
float8_e5m2: 1, 5, 2, with infinities as in float16. float8_e4m3fn: 1, 4, 3; no infinity, its
largest value is 448 and only two patterns are NaN. The two `fnuz`: a bias larger by one, no
infinity, no minus zero, whose pattern is the only NaN. float8_e8m0fnu: powers of two, and one NaN.
float4_e2m1fn: 1, 2, 1; neither infinity nor NaN. Integers of 4 and 2 bits: low bits of a byte.
Sources: Micikevicius et al., FP8 Formats for Deep Learning (2022); Noune et al., 8-bit Numerical
Formats for Deep Neural Networks (2022); OCP Microscaling Formats (MX) Specification 1.0 (2023).
"""

from __future__ import annotations

from typing import NamedTuple

from smelt.ir import dtype as dt
from smelt.ir.build import call, select
from smelt.ir.expr import GT, LT, Call, Expr, Min, Or, binary, cast, const

_NAN, _INFINITY = 0x7FC00000, 0x7F800000


class _Format(NamedTuple):
    """fraction: bits; last: pattern of the largest value; beyond, nan: patterns without sign."""

    fraction: int
    bias: int
    last: int
    beyond: int
    nan: int


_FORMATS = {
    "float8_e4m3fn": _Format(3, 7, 0x7E, 0x7F, 0x7F),
    "float8_e4m3fnuz": _Format(3, 8, 0x7F, 0x80, 0x80),
    "float8_e5m2": _Format(2, 15, 0x7B, 0x7C, 0x7E),
    "float8_e5m2fnuz": _Format(2, 16, 0x7F, 0x80, 0x80),
    "float16": _Format(10, 15, 0x7BFF, 0x7C00, 0x7E00),
    "float4_e2m1fn": _Format(1, 1, 0x07, 0x07, 0x08),
}


def decoded(bits: Expr, kind: str) -> Expr:
    """What a pattern stands for: a float32; of integers an int8 or uint8."""
    if dt.is_int(kind):
        return _small_integer(bits, kind)
    word = cast("uint32", bits)
    if kind == "bfloat16":
        return _as(_shifted(word, 16, left=True), "float32")
    if kind == "float8_e8m0fnu":
        power = _where(word == _many(0, word), 0x00400000, _shifted(word, 23, left=True))
        return _as(_where(word == _many(0xFF, word), _NAN, power), "float32")
    f = _FORMATS[kind]
    sign_bit = 1 << (dt.width(kind) - 1)
    rest = _masked(word, sign_bit - 1)
    number = _shifted(rest, 23 - f.fraction, left=True) + _many((127 - f.bias) << 23, word)
    least = const(2.0 ** (1 - f.bias - f.fraction), dt.vector("float32", dt.lanes(bits.dtype)))
    small = _as(cast("float32", rest) * least, "uint32")
    value = select(rest < _many(1 << f.fraction, word), small, number)
    if kind in ("float8_e5m2", "float16"):
        special = call(
            "bitwise_or", _shifted(rest, 23 - f.fraction, left=True), _many(_INFINITY, word)
        )
        value = select(rest > _many(f.last, word), special, value)
    if kind == "float8_e4m3fn":
        value = _where(rest == _many(f.nan, word), _NAN, value)
    sign = _shifted(_masked(word, sign_bit), 32 - dt.width(kind), left=True)
    value = call("bitwise_or", value, sign)
    if kind.endswith("fnuz"):
        value = _where(word == _many(f.nan, word), _NAN, value)
    return _as(value, "float32")


def encoded(e: Expr, kind: str) -> Expr:
    """The pattern of a float32 rounded to nearest, ties to even; the low bits of an integer."""
    if dt.is_int(kind):
        return _masked(cast("uint8", e), dt.limits(f"uint{dt.width(kind)}")[1])
    bits = _as(e, "uint32")
    if kind == "bfloat16":
        odd = _masked(_shifted(bits, 16), 1)
        rounded = _shifted(bits + const(0x7FFF, bits.dtype) + odd, 16)
        nan = call("bitwise_or", _shifted(_masked(bits, 0x80000000), 16), const(0x7FC0, bits.dtype))
        isnan = Call(dt.vector("bool", dt.lanes(e.dtype)), "isnan", (e,))
        return cast("uint16", select(isnan, nan, rounded))
    if kind == "float8_e8m0fnu":
        return _power_of_two(bits)
    return _rounded(bits, kind)


def _small_integer(bits: Expr, kind: str) -> Expr:
    """The low bits; of signed types the highest of them is the sign."""
    word = cast("uint8", bits)
    if dt.kind(kind) == "uint":
        return _masked(word, dt.limits(kind)[1])
    above = 8 - dt.width(kind)
    return _shifted(cast("int8", _shifted(word, above, left=True)), above)


def _power_of_two(bits: Expr) -> Expr:
    """The exponent, rounded to nearest, ties up; what is not positive is NaN."""
    normal = cast("uint32", bits >= _many(1 << 23, bits))  # 2**-127 is no normal number
    power = _shifted(bits + _many((1 << 22) - 1, bits) + normal, 23)
    power = binary(Min, power, _many(0xFF, bits))
    return cast("uint8", _where(bits == _many(0, bits), 0xFF, power))


def _rounded(bits: Expr, kind: str) -> Expr:
    """The pattern of a float32 given by its bits.

    Normal numbers: the bits themselves, rounded. Below them a number is added whose last digit is
    the format's, which rounds; the difference of the patterns counts those digits.
    """
    f = _FORMATS[kind]
    size, shift = _masked(bits, 0x7FFFFFFF), 23 - f.fraction
    sign = _shifted(bits, 31)
    odd = _masked(_shifted(size, shift), 1)
    normal = _shifted(size + _many((1 << (shift - 1)) - 1, size) + odd, shift)
    normal = normal - _many((127 - f.bias) << f.fraction, size)
    digits = const(2.0 ** (24 - f.bias - f.fraction), dt.vector("float32", dt.lanes(bits.dtype)))
    small = _as(_as(size, "float32") + digits, "uint32") - _as(digits, "uint32")
    rest = select(size < _many((128 - f.bias) << 23, size), small, normal)
    nan = size > _many(_INFINITY, size)
    if kind.endswith("fnuz"):  # a NaN is beyond, too
        signed = call("bitwise_or", rest, _shifted(sign, 7, left=True))
        low = _where(rest == _many(0, rest), 0, signed)
        low = _where(rest > _many(f.last, rest), f.beyond, low)
    elif kind == "float4_e2m1fn":  # a NaN becomes zero
        low = call("bitwise_or", binary(Min, rest, _many(f.last, rest)), _shifted(sign, 3, True))
        low = select(nan, _shifted(_many(1, sign) - sign, 3, left=True), low)
    else:
        low = _where(nan, f.nan, binary(Min, rest, _many(f.beyond, rest)))
        low = call("bitwise_or", low, _shifted(sign, dt.width(kind) - 1, left=True))
    return cast("uint16" if kind == "float16" else "uint8", low)


def odd_single(e: Expr) -> Expr:
    """A float64 cut to float32, the last bit set where something is lost.

    Rounded again to a type of at most 22 bits, it gives what rounding once would.
    """
    near = cast("float32", e)
    back, bits = cast("float64", near), _as(near, "uint32")
    below, above = binary(LT, back, e), binary(GT, back, e)
    away = select(binary(LT, e, const(0.0, e.dtype)), below, above)
    bits = bits - cast("uint32", away)
    return _as(call("bitwise_or", bits, cast("uint32", binary(Or, below, above))), "float32")


# ----------------------------------------------------------------------------- small expressions


def _as(e: Expr, dtype: str) -> Expr:
    return Call(dt.vector(dtype, dt.lanes(e.dtype)), "reinterpret", (e,))


def _many(number: int, like: Expr) -> Expr:
    return const(number, like.dtype)


def _where(test: Expr, number: int, other: Expr) -> Expr:
    return select(test, _many(number, other), other)


def _shifted(e: Expr, bits: int, left: bool = False) -> Expr:
    return call("shift_left" if left else "shift_right", e, _many(bits, e))


def _masked(e: Expr, mask: int) -> Expr:
    return call("bitwise_and", e, _many(mask, e))
