"""Element types as text: "float32", "int8", "bool", "bfloat16", vectors such as "float32x16".

An element of a type narrower than 8 bits takes a byte of its own, as in arrays of ml_dtypes: its
bits are the low ones, the others are 0.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    "float4_e2m1fn", "int4", "uint4", "int2", "uint2",
)  # fmt: skip
"""Types of numbers. Texts ("string") exist in graphs for the virtual machine only."""
_WIDTH = {"bool": 1, "handle": 64, "string": 64}
_WIDTH |= {d: int(re.findall(r"\d+", d)[0]) for d in DTYPES if d != "bool"}


@cache
def _split(dtype: str) -> tuple[str, int]:
    base, x, count = dtype.rpartition("x")
    if x and count.isdigit() and base in _WIDTH:
        return base, int(count)
    if dtype not in _WIDTH:
        raise TypeError(f"unknown dtype {dtype!r}; known: {', '.join(DTYPES)}")
    return dtype, 1


@cache
def scalar(dtype: str) -> str:
    """The element type of a vector type."""
    return _split(dtype)[0]


@cache
def lanes(dtype: str) -> int:
    """How many elements a value of this type has."""
    return _split(dtype)[1]


@cache
def vector(dtype: str, count: int) -> str:
    """The vector of `count` elements of `dtype`; `count` 1 is the scalar."""
    return scalar(dtype) if count == 1 else f"{scalar(dtype)}x{count}"


@cache
def bits(dtype: str) -> int:
    """Bits of one element as stored: at least 8."""
    return max(8, width(dtype))


def width(dtype: str) -> int:
    """Bits that tell the values of a type apart: 4 for int4, 1 for bool, else those stored."""
    return _WIDTH[scalar(dtype)]


@cache
def limits(dtype: str) -> tuple[int, int]:
    """The smallest and the largest value of a type of integers, or of bool."""
    count = width(dtype)
    low = -(1 << (count - 1)) if kind(dtype) == "int" else 0
    return low, low + (1 << count) - 1


@cache
def bytes_of(dtype: str) -> int:
    """Bytes of one value, all lanes."""
    return bits(dtype) * lanes(dtype) // 8


@cache
def kind(dtype: str) -> str:
    """One of "float", "int", "uint", "bool", "handle", "string"."""
    base = scalar(dtype)
    for name in ("uint", "int", "bool", "handle", "string"):
        if base.startswith(name):
            return name
    return "float"


@cache
def is_float(dtype: str) -> bool:
    """Whether the elements are floating-point numbers."""
    return kind(dtype) == "float"


@cache
def is_int(dtype: str) -> bool:
    """Whether the elements are integers, signed or not (bool is not)."""
    return kind(dtype) in ("int", "uint")


def is_signed(dtype: str) -> bool:
    """Whether negative values exist."""
    return kind(dtype) in ("int", "float")


@cache
def to_numpy(dtype: str) -> np.dtype[Any]:
    """The numpy type of one element."""
    base = scalar(dtype)
    return np.dtype(np.str_ if base == "string" else getattr(ml_dtypes, base, base))


def converted(array: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """An array's elements as another type, by the rules of numpy and of ml_dtypes."""
    if width(from_numpy(array.dtype)) <= 8 and array.dtype.kind not in "biu":
        # ml_dtypes knows no way between two of its integer types
        array = array.astype(np.int8 if is_int(from_numpy(array.dtype)) else np.float32)
    return array.astype(to_numpy(dtype))


def from_numpy(dtype: np.dtype[Any]) -> str:
    """Our name of a numpy element type."""
    found = np.dtype(dtype)
    name = "string" if found.kind in "UO" else found.name
    _split(name)
    return name


# -------------------------------------------------------------------------- conversions

_MANTISSA = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
_EXPONENT = {"float16": 5, "bfloat16": 8, "float32": 8, "float64": 11}


def holds(wide: str, narrow: str) -> bool:
    """Whether every value of one element type is one of another."""
    if narrow == "bool" or wide == narrow:
        return True
    if wide in _MANTISSA:
        if narrow in _MANTISSA:
            return _MANTISSA[wide] >= _MANTISSA[narrow] and _EXPONENT[wide] >= _EXPONENT[narrow]
        return is_int(narrow) and width(narrow) <= _MANTISSA[wide]
    if is_int(wide) and is_int(narrow):
        spare = width(wide) - width(narrow)
        return spare > 0 and (is_signed(wide) or not is_signed(narrow))
    return False
