"""How qnn.requantize rounds where calls of it do not say."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar

from smelt.relax.compose.common import one_of
from smelt.runtime.entered import holding

ROUNDINGS = {"UPWARD": "up", "TONEAREST": "away"}
"""Of a number between two integers, equally near: the larger one, or the one farther from zero."""

COMPUTE_TYPES = ("int64", "float32", "float64")

config: ContextVar[tuple[str, str]] = ContextVar("requantize_config", default=("UPWARD", "int64"))
"""What qnn.requantize means by rounding="None" and by compute_dtype="None"."""


def requantize_config(
    rounding: str = "UPWARD", compute_dtype: str = "int64"
) -> AbstractContextManager[tuple[str, str]]:
    """Calls of qnn.requantize made inside that do not say how to round, round as this says.

    rounding       "UPWARD" or "TONEAREST": which of two integers that are equally near
    compute_dtype  "int64" (fixed-point numbers), "float32" or "float64"
    """
    one_of("rounding", rounding, *ROUNDINGS)
    one_of("compute_dtype", compute_dtype, *COMPUTE_TYPES)
    return holding(config, (rounding, compute_dtype))
