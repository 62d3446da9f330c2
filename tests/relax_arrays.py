"""Arrays of a type, written shortly."""

from __future__ import annotations

from typing import Any

import numpy as np


def f32s(values: Any) -> np.ndarray[Any, Any]:
    """Numbers as float32."""
    return np.asarray(values, "float32")


def i64s(values: Any) -> np.ndarray[Any, Any]:
    """Integers as int64."""
    return np.asarray(values, "int64")


def i32s(values: Any) -> np.ndarray[Any, Any]:
    """Integers as int32."""
    return np.asarray(values, "int32")


def i8s(values: Any) -> np.ndarray[Any, Any]:
    """Integers as int8."""
    return np.asarray(values, "int8")
