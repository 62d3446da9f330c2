"""`@tflite_op`: a converter's signature is the schema of its operator.

    @tflite_op("LEAKY_RELU", 2)
    def leaky_relu(g: Node, x: Value, *, alpha: float = 0.0) -> Value: ...

The number is the newest version of the operator that the converter knows; attributes have the
defaults of TFLite's schema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from smelt.frontend.common import windows
from smelt.frontend.common.converter import Converter

from .read import CUSTOM

F = TypeVar("F", bound=Callable[..., Any])
Ints = windows.Ints
Floats = tuple[float, ...]

_CONVERTERS: dict[str, tuple[Converter, int]] = {}


def tflite_op(name: str, newest: int = 1) -> Callable[[F], F]:
    """Register the converter of an operator."""

    def register(fn: F) -> F:
        _CONVERTERS[name] = Converter(fn, name, 1), newest
        return fn

    return register


def custom_op(name: str) -> Callable[[F], F]:
    """Register the converter of an operator that is not TFLite's own; `operators` of the user's may
    name another one."""
    return tflite_op(f"{CUSTOM}.{name}")


def converter_of(name: str) -> tuple[Converter, int] | None:
    """The converter of an operator, and the newest version that it knows."""
    return _CONVERTERS.get(name)
