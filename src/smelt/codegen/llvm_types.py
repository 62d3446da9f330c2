"""LLVM's names of our types, in registers and in memory, and its constants."""

from __future__ import annotations

import struct

from smelt.ir import dtype as dt

_NAMES = {"bool": "i1", "handle": "ptr", "bfloat16": "bfloat",
          "float16": "half", "float32": "float", "float64": "double"}  # fmt: skip


def each_lane(dtype: str, scalar: str) -> str:
    """LLVM's `scalar` in as many lanes as a type has."""
    lanes = dt.lanes(dtype)
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def literal(dtype: str, scalar: str, text: str) -> str:
    """A constant of an LLVM type in every lane of a type."""
    return text if dt.lanes(dtype) == 1 else f"splat ({scalar} {text})"


def zero(dtype: str) -> str:
    """The zero of a type."""
    return "zeroinitializer" if dt.lanes(dtype) > 1 else "0.0" if dt.is_float(dtype) else "0"


def mangled(dtype: str) -> str:
    """A type as it stands in the names of intrinsics."""
    name = llvm_type(dt.scalar(dtype))
    name = {"half": "f16", "float": "f32", "double": "f64"}.get(name, name)
    return name if dt.lanes(dtype) == 1 else f"v{dt.lanes(dtype)}{name}"


def llvm_type(dtype: str) -> str:
    """The type of a value in registers (a bool is one bit)."""
    scalar = dt.scalar(dtype)
    name = _NAMES.get(scalar) or f"i{dt.bits(scalar)}"
    return each_lane(dtype, name)


def mem_type(dtype: str) -> str:
    """The type of an element in memory (a bool is a byte)."""
    return "i8" if dt.scalar(dtype) == "bool" else llvm_type(dt.scalar(dtype))


def float_literal(dtype: str, value: float) -> str:
    """A floating-point constant in LLVM's hexadecimal form."""
    scalar = dt.scalar(dtype)
    if scalar in ("float32", "float64"):
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    kind, bits = "R" if scalar == "bfloat16" else "H", dt.to_numpy(scalar).type(value)
    return f"0x{kind}{int(bits.view('uint16')):04X}"
