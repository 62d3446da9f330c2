"""Builders of the operators on quantized numbers: `relay.qnn.op.requantize(...)`."""

from __future__ import annotations

from typing import Any

from ..names import Namespace
from ..ops.qnn_affine import requantize_config

__all__ = ["requantize_config"]

_BUILDERS = Namespace("qnn")


def __getattr__(name: str) -> Any:
    return getattr(_BUILDERS, name)


def __dir__() -> list[str]:
    return sorted([*__all__, *dir(_BUILDERS)])
