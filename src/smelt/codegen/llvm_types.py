"""LLVM's names of our types, in registers and in memory, and its constants."""

from __future__ import annotations

import struct

from smelt.ir import dtype as dt

_FLOATS = {"float16": "half", "bfloat16": "i16", "float32": "float", "float64": "double"}


def llvm_type(dtype: str) -> str:
    """The type of a value in registers (a bool is one bit)."""
    scalar, lanes = dt.scalar(dtype), dt.lanes(dtype)
    name = _FLOATS.get(scalar) or (
        "i1" if scalar == "bool" else "ptr" if scalar == "handle" else f"i{dt.bits(scalar)}"
    )
    return name if lanes == 1 else f"<{lanes} x {name}>"


def mem_type(dtype: str) -> str:
    """The type of an element in memory (a bool is a byte)."""
    return "i8" if dt.scalar(dtype) == "bool" else llvm_type(dt.scalar(dtype))


def float_literal(dtype: str, value: float) -> str:
    """A floating-point constant in LLVM's hexadecimal form."""
    scalar = dt.scalar(dtype)
    if scalar in ("float32", "float64"):
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    bits = int(dt.to_numpy(scalar).type(value).view("uint16"))
    return str(bits) if scalar == "bfloat16" else f"0xH{bits:04X}"
