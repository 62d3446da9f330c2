"""Cast, CastLike and BitCast: the rules of ONNX for element types of few bits.

Floats of 8 bits saturate unless told otherwise: what lies beyond the largest value, infinities
included, becomes it. The type of scales, float8_e8m0fnu, has a rounding of its own. Integers of
4 and 2 bits keep the low bits of a number.
"""

from __future__ import annotations

import ml_dtypes

from smelt.frontend.common import Build, Value, evaluate
from smelt.frontend.common.moves import as_type
from smelt.ir import dtype as dt

from .ops_string import text_cast
from .read import dtype_of
from .registry import onnx_op

_SATURATE = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
_INFINITY, _FRACTION = 0x7F800000, 0x7FFFFF


def element_type(g: Build, number: int, attribute: str) -> str:
    """The element type behind ONNX's number for it."""
    found = dtype_of(number)
    if found is None:
        g.unsupported(f"{attribute}={number}", ", ".join(dt.DTYPES))
    return found


def saturated(g: Build, x: Value, dtype: str) -> Value:
    """The value as a float of 8 bits; what is beyond its largest value becomes that."""
    if not dt.is_float(x.dtype) or dt.width(x.dtype) < 16:
        x = as_type(g, x, "float32")
    most = float(ml_dtypes.finfo(dt.to_numpy(dtype)).max)
    return as_type(g, g.call("clip", x, min=-most, max=most), dtype)


def _scale(g: Build, x: Value, saturate: bool, round_mode: str) -> Value:
    """The power of two near a number without its sign; infinities become NaN."""
    bits = g.call("reinterpret", as_type(g, x, "float32"), dtype="uint32")
    size = g.call("bitwise_and", bits, 0x7FFFFFFF)
    moved = size
    if round_mode == "up":
        moved = g.call("add", size, _FRACTION)
    elif round_mode == "nearest":  # a tie goes up, except below the smallest normal number
        normal = g.call("greater", size, _FRACTION)
        moved = g.call("add", size, _FRACTION >> 1)
        moved = g.call("add", moved, g.call("cast", normal, dtype="uint32"))
    exponent = g.call("right_shift", moved, 23)
    exponent = g.call("minimum", exponent, 0xFE if saturate else 0xFF)
    special = g.call("greater_equal", size, _INFINITY)
    exponent = g.call("where", special, 0xFF, exponent)
    return g.call("reinterpret", g.call("cast", exponent, dtype="uint8"), dtype="float8_e8m0fnu")


def _cast(
    g: Build, x: Value, dtype: str, saturate: int, round_mode: str, known: bool = True
) -> Value:
    """known: elements of x that are known stay so."""
    return evaluate.either(
        lambda: evaluate.converted(x, dtype) if known else None,
        lambda: _in_graph(g, x, dtype, saturate, round_mode),
    )


def _in_graph(g: Build, x: Value, dtype: str, saturate: int, round_mode: str) -> Value:
    if x.dtype == dtype:
        return x
    if "string" in (x.dtype, dtype):
        return text_cast(g, x, dtype)
    if dtype == "float8_e8m0fnu":
        g.one_of("round_mode", round_mode, ("up", "down", "nearest"))
        return _scale(g, x, bool(saturate), round_mode)
    if dtype in _SATURATE and saturate:
        return saturated(g, x, dtype)
    if dt.is_float(dtype) and dt.width(dtype) > 8:  # constants stay known: they may be attributes
        return as_type(g, x, dtype)
    return g.call("cast", x, dtype=dtype)


@onnx_op("Cast", since=6)
def cast(g: Build, x: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    """Another element type."""
    return _cast(g, x, element_type(g, to, "to"), saturate, round_mode)


@onnx_op("CastLike", since=15)
def cast_like(
    g: Build, x: Value, target: Value, *, saturate: int = 1, round_mode: str = "up"
) -> Value:
    """The element type of another value."""
    return _cast(g, x, target.dtype, saturate, round_mode, known=target.small)


@onnx_op("BitCast", since=26)
def bit_cast(g: Build, x: Value, *, to: int) -> Value:
    """The bits read as another element type of the same width."""
    dtype = element_type(g, to, "to")
    if x.dtype == dtype:
        return x
    widths = [8 if d == "bool" else dt.width(d) for d in (x.dtype, dtype)]
    if widths[0] != widths[1]:
        legal = [d for d in dt.DTYPES if dt.width(d) == widths[0]]
        g.malformed(f"the bits of {x.dtype} cannot be read as {dtype}; legal: {', '.join(legal)}")
    if x.dtype == "bool":
        x = g.call("cast", x, dtype="uint8")
    if dtype == "bool":
        return g.call("cast", g.call("reinterpret", x, dtype="uint8"), dtype="bool")
    return x if x.dtype == dtype else g.call("reinterpret", x, dtype=dtype)
