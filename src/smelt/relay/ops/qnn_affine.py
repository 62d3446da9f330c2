"""Affine numbers: a tensor of integers q stands for scale * (q - zero point).

A scale and a zero point are scalars, or vectors along one axis. Where they are constants their
arithmetic is done when the operator is expanded; elsewhere the program does it, and finds the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from smelt.ir import dtype as dt
from smelt.relax.compose.common import dtype_of, legal, one_of
from smelt.relax.compose.integer import known
from smelt.relax.compose.quantize import parameter
from smelt.relax.nodes import RelaxExpr

QUANTIZED = ("int8", "uint8", "int16", "uint16", "int32")
"""Element types of tensors that stand for numbers."""

ROUNDINGS = {"UPWARD": "up", "TONEAREST": "away"}
"""Of a number between two integers, equally near: the larger one, or the one farther from zero."""

COMPUTE_TYPES = ("int64", "float32", "float64")

config: ContextVar[tuple[str, str]] = ContextVar("requantize_config", default=("UPWARD", "int64"))
"""What qnn.requantize means by rounding="None" and by compute_dtype="None"."""


@contextmanager
def requantize_config(rounding: str = "UPWARD", compute_dtype: str = "int64") -> Iterator[None]:
    """Calls of qnn.requantize made inside that do not say how to round, round as this says.

    rounding       "UPWARD" or "TONEAREST": which of two integers that are equally near
    compute_dtype  "int64" (fixed-point numbers), "float32" or "float64"
    """
    one_of("rounding", rounding, *ROUNDINGS)
    one_of("compute_dtype", compute_dtype, *COMPUTE_TYPES)
    token = config.set((rounding, compute_dtype))
    try:
        yield
    finally:
        config.reset(token)


# ------------------------------------------------------------------------------------- operands


def integers(name: str, x: RelaxExpr, *types: str) -> None:
    """The rule that an operand is quantized."""
    t = dtype_of(x)
    legal(t in (types or QUANTIZED), f"{name} is {t}; legal: {', '.join(types or QUANTIZED)}")


def one_number(name: str, x: RelaxExpr) -> RelaxExpr:
    """A scale or a zero point of a whole tensor."""
    return parameter(name, x, None)


def whole(prefix: str, scale: RelaxExpr, zero_point: RelaxExpr) -> tuple[RelaxExpr, RelaxExpr]:
    """The scale and the zero point of a whole tensor: <prefix>scale and <prefix>zero_point."""
    return one_number(f"{prefix}scale", scale), one_number(f"{prefix}zero_point", zero_point)


def wide_type(x: RelaxExpr, zero_point: RelaxExpr) -> str:
    """The narrowest type that holds all differences of 8-bit numbers and a zero point."""
    data = known(zero_point)
    small = data is not None and np.all(np.abs(data.astype(np.int64)) < 1 << 14)
    return "int16" if small and dt.bits(dtype_of(x)) == 8 else "int32"
