"""Element types by name: their numpy form and their code in the C interface."""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from typing import Any

import numpy as np

from smelt.runtime.errors import LoadError

DType = np.dtype[Any]

C_DTYPES = {
    "bool": "SMELT_BOOL",
    "int8": "SMELT_INT8",
    "int16": "SMELT_INT16",
    "int32": "SMELT_INT32",
    "int64": "SMELT_INT64",
    "uint8": "SMELT_UINT8",
    "uint16": "SMELT_UINT16",
    "uint32": "SMELT_UINT32",
    "uint64": "SMELT_UINT64",
    "float16": "SMELT_FLOAT16",
    "float32": "SMELT_FLOAT32",
    "float64": "SMELT_FLOAT64",
    "bfloat16": "SMELT_BFLOAT16",
    "float8_e4m3fn": "SMELT_FLOAT8_E4M3FN",
    "float8_e4m3fnuz": "SMELT_FLOAT8_E4M3FNUZ",
    "float8_e5m2": "SMELT_FLOAT8_E5M2",
    "float8_e5m2fnuz": "SMELT_FLOAT8_E5M2FNUZ",
    "float8_e8m0fnu": "SMELT_FLOAT8_E8M0FNU",
    "float4_e2m1fn": "SMELT_FLOAT4_E2M1FN",
    "int4": "SMELT_INT4",
    "uint4": "SMELT_UINT4",
    "int2": "SMELT_INT2",
    "uint2": "SMELT_UINT2",
    "complex64": "SMELT_COMPLEX64",
    "complex128": "SMELT_COMPLEX128",
}

_RAW = {"bfloat16": np.uint16} | {
    name: np.uint8
    for name in C_DTYPES
    if name.startswith(("float8", "float4")) or name.endswith(("int4", "int2"))
}


def raw_dtype(name: str) -> DType | None:
    """The integers that hold the bits of a type numpy lacks; None for numpy's own types."""
    return np.dtype(_RAW[name]) if name in _RAW else None


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
    raw = raw_dtype(name)  # compared only if there is one: numpy takes None for float64
    return given == numpy_dtype(name) or (raw is not None and given == raw)
