"""Element types as text: "float32", "int8", "bool", "bfloat16", vectors such as "float32x16"."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

__all__ = [
    "DTYPES",
    "bits",
    "bytes_of",
    "from_numpy",
    "is_float",
    "is_int",
    "is_signed",
    "kind",
    "lanes",
    "scalar",
    "to_numpy",
    "vector",
]

_EXTENSION: dict[str, np.dtype[Any]] = {
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "int4": np.dtype(ml_dtypes.int4),
    "uint4": np.dtype(ml_dtypes.uint4),
}

_BITS = {
    "bool": 8,
    "int8": 8,
    "int16": 16,
    "int32": 32,
    "int64": 64,
    "uint8": 8,
    "uint16": 16,
    "uint32": 32,
    "uint64": 64,
    "float16": 16,
    "bfloat16": 16,
    "float32": 32,
    "float64": 64,
    "float8_e4m3fn": 8,
    "float8_e5m2": 8,
    "int4": 4,
    "uint4": 4,
    "handle": 64,
}

DTYPES = tuple(d for d in _BITS if d != "handle")


@cache
def _split(dtype: str) -> tuple[str, int]:
    base, x, count = dtype.rpartition("x")
    if x and count.isdigit() and base in _BITS:
        return base, int(count)
    if dtype not in _BITS:
        raise TypeError(f"unknown dtype {dtype!r}; known: {', '.join(DTYPES)}")
    return dtype, 1


def scalar(dtype: str) -> str:
    """The element type of a vector type."""
    return _split(dtype)[0]


def lanes(dtype: str) -> int:
    """How many elements a value of this type has."""
    return _split(dtype)[1]


def vector(dtype: str, count: int) -> str:
    """The vector of `count` elements of `dtype`; `count` 1 is the scalar."""
    return scalar(dtype) if count == 1 else f"{scalar(dtype)}x{count}"


def bits(dtype: str) -> int:
    """Bits of one element as stored (a bool takes 8)."""
    return _BITS[scalar(dtype)]


def bytes_of(dtype: str) -> int:
    """Bytes of one value, all lanes."""
    base, count = _split(dtype)
    return (_BITS[base] * count + 7) // 8


@cache
def kind(dtype: str) -> str:
    """One of "float", "int", "uint", "bool", "handle"."""
    base = scalar(dtype)
    for name in ("uint", "int", "bool", "handle"):
        if base.startswith(name):
            return name
    return "float"


def is_float(dtype: str) -> bool:
    """Whether the elements are floating-point numbers."""
    return kind(dtype) == "float"


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
    return _EXTENSION[base] if base in _EXTENSION else np.dtype(base)


def from_numpy(dtype: np.dtype[Any]) -> str:
    """Our name of a numpy element type."""
    name = np.dtype(dtype).name
    _split(name)
    return name
