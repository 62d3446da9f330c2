"""Element types by name: their numpy form and their code in the C interface."""

from __future__ import annotations

import importlib
import importlib.util
import re
from functools import cache
from typing import Any

import numpy as np

from smelt.runtime.errors import LoadError

DType = np.dtype[Any]

_NAMES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "int4", "uint4", "int2", "uint2",
    "complex64", "complex128",
)  # fmt: skip
C_DTYPES = {name: f"SMELT_{name.upper()}" for name in _NAMES}

_KINDS = {"bool": 6, "int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5}
_SMALL = {
    "float8_e4m3fn": 10, "float8_e4m3fnuz": 11, "float8_e5m2": 12, "float8_e5m2fnuz": 13,
    "float8_e8m0fnu": 14, "float4_e2m1fn": 17,
}  # fmt: skip


def _code(name: str) -> int:
    kind, bits, _ = re.split(r"(\d+)", name + "_", maxsplit=1) if name != "bool" else (name, 8, "")
    return _SMALL.get(name, _KINDS.get(kind, 0)) << 8 | int(bits)


DTYPE_CODES = {name: _code(name) for name in _NAMES}
"""The numbers of enum smelt_dtype."""

_RAW = {"bfloat16": np.uint16} | {
    name: np.uint8
    for name in C_DTYPES
    if name.startswith(("float8", "float4")) or name.endswith(("int4", "int2"))
}


@cache
def numpy_dtype(name: str) -> DType:
    """The numpy dtype; without the package ml_dtypes a type numpy lacks shows as its raw bits."""
    if name not in C_DTYPES:
        raise LoadError(f"unknown dtype {name!r}\n  known: {', '.join(C_DTYPES)}")
    if name not in _RAW:
        return np.dtype(name)
    if importlib.util.find_spec("ml_dtypes") is None:
        return np.dtype(_RAW[name])
    extension = importlib.import_module("ml_dtypes")
    found: DType = np.dtype(getattr(extension, name))
    return found


def accepts(name: str, given: DType) -> bool:
    """Whether elements of `given` are the bits of `name` as they stand."""
    return given == numpy_dtype(name) or (name in _RAW and given == _RAW[name])
