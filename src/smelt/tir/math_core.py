"""What the expansions of mathematical functions share: formats, constants and small builders.

The trees rely on strict arithmetic: every operation rounds once, "fma" rounds once in all, nothing
is reassociated or contracted. Comparisons are false for a NaN, except `not_equal`. Integer
arithmetic wraps; "shift_right" of a signed integer keeps the sign. No tree converts a NaN or an
out-of-range float to an integer: integers are read off the bits of a float that was rounded by
adding 1.5 * 2**fraction ("magic").
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from smelt.ir.build import call, equal, not_equal, select
from smelt.ir.expr import Call, Expr, ExprLike, const

LN2 = Fraction("0.693147180559945309417232121458176568075500134360255254120680009")
LOG2_E = Fraction("1.442695040888963407359924681001892137426645954152985934135449407")
LOG10_2 = Fraction("0.301029995663981195213738894724493026768189881462108541310427461")
LOG10_E = Fraction("0.434294481903251827651128918916605082294397005803666566114453783")
PI = Fraction("3.141592653589793238462643383279502884197169399375105820974944592")


@dataclass(frozen=True)
class Format:
    """A binary floating-point format with an integer type of the same width."""

    dtype: str
    integer: str
    fraction: int
    bias: int

    @property
    def magic(self) -> float:
        """Adding it rounds a number to an integer, which is then found in the low bits."""
        return 1.5 * 2.0**self.fraction

    @property
    def tiny(self) -> float:
        """The smallest normal number."""
        return 2.0 ** (1 - self.bias)

    @property
    def one(self) -> int:
        """The bits of 1.0."""
        return self.bias << self.fraction

    @property
    def sign(self) -> int:
        """The sign bit as a (negative) integer."""
        return -(1 << (self.fraction + (8 if self.fraction == 23 else 11)))

    @property
    def exponent_mask(self) -> int:
        """The sign and exponent bits as a (negative) integer."""
        return -(1 << self.fraction)

    def number(self, value: float) -> Expr:
        """A constant."""
        return const(value, self.dtype)

    def bits(self, x: Expr) -> Expr:
        """The bits of a float as an integer."""
        return Call(self.integer, "reinterpret", (x,))

    def from_bits(self, i: Expr) -> Expr:
        """The float with these bits."""
        return Call(self.dtype, "reinterpret", (i,))

    def bits_of(self, value: float) -> int:
        """The bits of a positive constant."""
        code = "<f" if self.fraction == 23 else "<d"
        return int.from_bytes(struct.pack(code, value), "little")

    def power(self, t: Expr) -> Expr:
        """2**n for t = n + magic, where -bias < n <= bias."""
        return self.from_bits(shift_left(self.bits(t), self.fraction) + self.one)


FLOAT32 = Format("float32", "int32", 23, 127)
FLOAT64 = Format("float64", "int64", 52, 1023)
FORMATS = {"float32": FLOAT32, "float64": FLOAT64}


def split(value: Fraction, bits: int) -> tuple[float, float]:
    """`value` as hi + lo, where hi has at most `bits` bits after the binary point."""
    hi = Fraction(round(value * 2**bits), 2**bits)
    return float(hi), float(value - hi)


def fma(a: ExprLike, b: ExprLike, c: ExprLike) -> Expr:
    """a * b + c, rounded once."""
    dtype = next(v.dtype for v in (a, b, c) if isinstance(v, Expr))
    return call("fma", *[v if isinstance(v, Expr) else const(v, dtype) for v in (a, b, c)])


def poly(x: Expr, coefficients: Sequence[float]) -> Expr:
    """c[0] + c[1] * x + c[2] * x**2 + ... by Horner's rule."""
    result = const(coefficients[-1], x.dtype)
    for c in reversed(coefficients[:-1]):
        result = fma(result, x, c)
    return result


def fabs(x: Expr) -> Expr:
    """The absolute value."""
    return call("abs", x)


def copysign(magnitude: Expr, sign: Expr) -> Expr:
    """`magnitude` with the sign of `sign`."""
    return call("copysign", magnitude, sign)


def _integer_call(op: str, a: Expr, b: Expr | int) -> Expr:
    return call(op, a, b if isinstance(b, Expr) else const(b, a.dtype))


def shift_left(a: Expr, b: int) -> Expr:
    """a * 2**b, the high bits lost."""
    return _integer_call("shift_left", a, b)


def shift_right(a: Expr, b: int) -> Expr:
    """a / 2**b rounded down."""
    return _integer_call("shift_right", a, b)


def bit_and(a: Expr, b: Expr | int) -> Expr:
    """Bits set in both."""
    return _integer_call("bitwise_and", a, b)


def bit_or(a: Expr, b: Expr | int) -> Expr:
    """Bits set in either."""
    return _integer_call("bitwise_or", a, b)


def bit_xor(a: Expr, b: Expr | int) -> Expr:
    """Bits that differ."""
    return _integer_call("bitwise_xor", a, b)


def is_nan(x: Expr) -> Expr:
    """Whether x is not a number."""
    return not_equal(x, x)


def is_inf(x: Expr) -> Expr:
    """Whether x is an infinity of either sign."""
    return equal(fabs(x), const(float("inf"), x.dtype))


def clamp(x: Expr, low: float | None, high: float | None) -> Expr:
    """x held between two constants; a NaN stays. Each bound is one vector instruction on x86."""
    if high is not None:
        x = select(const(high, x.dtype) < x, const(high, x.dtype), x)
    if low is not None:
        x = select(const(low, x.dtype) > x, const(low, x.dtype), x)
    return x


def keep_tiny(x: Expr, bound: float, result: Expr) -> Expr:
    """x where |x| < bound (where f(x) rounds to x, the sign of zero included), else `result`."""
    return select(fabs(x) < const(bound, x.dtype), x, result)
