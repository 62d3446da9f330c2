"""Arithmetic of the interpreter: every function takes and gives plain Python numbers.

Values of a narrow float type are Python floats that the type can hold; `rounder(dtype)` rounds a
double to one of them. Doubles have more than twice the digits of float32, so that rounding the
double result of + - * / sqrt gives exactly the float32 result.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from smelt.ir import dtype as dt

Number = Any


@cache
def rounder(dtype: str) -> Callable[[float], float]:
    """What rounds a double to a value of a float type."""
    if dtype == "float64":
        return float
    if dtype == "float32":
        pack = struct.Struct("=f")

        def to_single(x: float) -> float:
            try:
                return float(pack.unpack(pack.pack(x))[0])
            except OverflowError:
                return math.copysign(math.inf, x)

        return to_single
    kind = dt.to_numpy(dtype).type

    def to_narrow(x: float) -> float:
        return float(kind(x))

    return to_narrow


@cache
def codec(dtype: str) -> tuple[list[Number], Callable[[Number], int], Any] | None:
    """Table, encoder and raw type of element types that memoryview does not know; else None."""
    kind = dt.to_numpy(dtype)
    if (kind.kind in "biu" and kind.char in "?bBhHiIlLqQ") or kind in (np.float32, np.float64):
        return None
    raw = np.dtype(f"u{kind.itemsize}")
    every = np.arange(1 << (8 * kind.itemsize), dtype=raw).view(kind)
    with np.errstate(all="ignore"):
        table = every.astype(np.float64 if dt.is_float(dtype) else np.int64).tolist()

    def encode(x: Number) -> int:
        return int(np.array(x).astype(kind).view(raw))

    if dt.is_int(dtype):
        small = {v: encode(v) for v in range(-(1 << dt.width(dtype) - 1), 1 << dt.width(dtype))}
        return table, small.__getitem__, raw
    return table, encode, raw


@cache
def wrapper(dtype: str) -> Callable[[int], int]:
    """What reduces an integer to a type, as its bits in two's complement do."""
    low, high = dt.limits(dtype)
    return lambda x: ((x - low) & (high - low)) + low


def memory_size(shape: Sequence[int], steps: Sequence[int]) -> int:
    """The elements from the first to the last one of an array."""
    if 0 in shape:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, steps, strict=True))


def float_to_int(x: float, low: int, high: int) -> int:
    """Truncation; what no value of the type is near becomes the nearest one, a NaN 0."""
    if x != x:
        return 0
    if x in (math.inf, -math.inf):
        return high if x > 0 else low
    return min(max(int(x), low), high)


def int_to_single(x: int) -> float:
    """An integer as a double that is one of float32, or becomes the nearest one when rounded."""
    if abs(x) <= 1 << 53:
        return float(x)
    kind = np.uint64 if x > 0 else np.int64
    return float(kind(x).astype(np.float32))


def divide(a: float, b: float) -> float:
    """IEEE division: x / 0 is an infinity, 0 / 0 a NaN."""
    try:
        return a / b
    except ZeroDivisionError:
        if a == 0 or a != a:
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)


def int_divide(a: int, b: int) -> int:
    """The quotient rounded toward zero."""
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def int_remainder(a: int, b: int) -> int:
    """What the quotient rounded toward zero leaves."""
    return a - int_divide(a, b) * b


def float_floor_mod(a: float, b: float) -> float:
    """a - floor(a / b) * b: the sign of b."""
    return a % b if b and math.isfinite(a) else math.nan


def fmod(a: float, b: float) -> float:
    """C's fmod: the sign of a."""
    return math.fmod(a, b) if b and math.isfinite(a) else math.nan


def least(a: Number, b: Number) -> Number:
    """The smaller one; a NaN wins."""
    return a if a < b or a != a else b


def greatest(a: Number, b: Number) -> Number:
    """The larger one; a NaN wins."""
    return a if a > b or a != a else b


def _safe(fast: Callable[..., float], exact: Callable[..., Any]) -> Callable[..., float]:
    """`fast`, and numpy's answer where Python's math raises."""

    def run(*args: float) -> float:
        try:
            return float(fast(*args))
        except (ValueError, OverflowError, ZeroDivisionError):
            return float(exact(*map(np.float64, args)))

    return run


def _sigmoid(x: float) -> float:
    if x >= 0:
        return 1.0 / (1.0 + math.exp(-x))
    e = math.exp(x)
    return e / (1.0 + e)


def _rounding(fn: Callable[[float], Any]) -> Callable[[float], float]:
    """Rounding to an integer that keeps the sign of zero, infinities and NaN."""

    def run(x: Number) -> Number:
        if isinstance(x, int) or not math.isfinite(x):
            return x
        return math.copysign(float(fn(x)), x)

    return run


def _sign(x: Number) -> Number:
    if x != x:
        return x
    return (x > 0) - (x < 0) if isinstance(x, int) else float((x > 0) - (x < 0))


def _rsqrt(x: float) -> float:
    return divide(1.0, math.sqrt(x)) if x >= 0 else math.nan


_SAME_NAMES = """exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan sinh cosh tanh
hypot"""
FUNCTIONS: dict[str, Callable[..., Number]] = {
    **{name: _safe(getattr(math, name), getattr(np, name)) for name in _SAME_NAMES.split()},
    **{
        name: _safe(getattr(math, name), getattr(np, "arc" + name[1:]))
        for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh", "atan2")
    },
    "pow": _safe(math.pow, np.power),
    "fmod": fmod,
    "rsqrt": _rsqrt,
    "erf": math.erf,
    "sigmoid": _sigmoid,
    "copysign": math.copysign,
    "floor": _rounding(math.floor),
    "ceil": _rounding(math.ceil),
    "round": _rounding(round),
    "trunc": _rounding(math.trunc),
    "abs": abs,
    "sign": _sign,
    "ldexp": _safe(lambda x, n: math.ldexp(x, int(n)), lambda x, n: np.ldexp(x, int(n))),
    "isnan": lambda x: x != x,
    "isinf": lambda x: x in (math.inf, -math.inf),
    "isfinite": lambda x: isinstance(x, int) or math.isfinite(x),
    "likely": lambda x: x,
}
"""Intrinsics whose result depends on values only; it is rounded to the type afterwards."""


def _fma(dtype: str) -> Callable[[float, float, float], float]:
    """a * b + c, rounded once."""

    def wide(a: float, b: float, c: float) -> float:
        if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
            return a * b + c
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        try:
            return float(exact) if exact else a * b + c
        except OverflowError:
            return math.inf if exact > 0 else -math.inf

    def narrow(a: float, b: float, c: float) -> float:
        # The product is exact; a sum that is not is rounded to odd, so that the rounding to the
        # narrow type, which is still to come, is as good as the only one.
        p = a * b
        s = p + c
        if s - s != 0.0:
            return s
        t = s - p
        rest = (p - (s - t)) + (c - t)
        if rest and not struct.unpack("<q", struct.pack("<d", s))[0] & 1:
            return math.nextafter(s, math.inf if rest > 0 else -math.inf)
        return s

    return wide if dtype == "float64" else narrow


def _nextafter(dtype: str) -> Callable[[float, float], float]:
    """The next value of the type."""
    if not dt.is_float(dtype) or dtype == "float64":
        return math.nextafter
    kind = dt.to_numpy(dtype).type
    return lambda a, b: float(np.nextafter(kind(a), kind(b)))


def _reinterpret(source: str, target: str) -> Callable[[Number], Number]:
    def run(x: Number) -> Number:
        return np.array(x).astype(dt.to_numpy(source)).view(dt.to_numpy(target)).item()

    return run


@cache
def typed_function(op: str, dtype: str, source: str) -> Callable[..., Number] | None:
    """The intrinsic for a result type and a first operand's type; None if there is no such one."""
    whole = not dt.is_float(dtype) and dtype != "handle"
    n, wrap = dt.width(dtype), wrapper(dtype) if whole else int

    table: dict[str, Callable[..., Number]] = {
        "fma": _fma(dtype) if dt.is_float(dtype) else lambda a, b, c: wrap(a * b + c),
        "popcount": lambda x: bin(x & ((1 << dt.width(source)) - 1)).count("1"),
        "clz": lambda x: dt.width(source) - (x & ((1 << dt.width(source)) - 1)).bit_length(),
        "bitwise_and": lambda a, b: a & b,
        "bitwise_or": lambda a, b: a | b,
        "bitwise_xor": lambda a, b: a ^ b,
        "bitwise_not": lambda a: (not a) if dtype == "bool" else wrap(~a),
        "shift_left": lambda a, b: wrap(a << b) if 0 <= b < n else _bad_shift(b, dtype),
        "shift_right": lambda a, b: a >> b if 0 <= b < n else _bad_shift(b, dtype),
        "high_product": lambda a, b: wrap((a * b + (1 << (n - 1))) >> n),
        "reinterpret": _reinterpret(source, dtype),
        "nextafter": _nextafter(dtype),
    }
    if dt.is_int(dtype):
        table["abs"] = lambda a: wrap(abs(a))
        table["pow"] = lambda a, b: wrap(pow(a, b, 1 << n) if b >= 0 else int(float(a) ** b))
    return table.get(op, FUNCTIONS.get(op))


def _bad_shift(b: int, dtype: str) -> int:
    raise ArithmeticError(f"shift by {b} of a value of {dtype}")
