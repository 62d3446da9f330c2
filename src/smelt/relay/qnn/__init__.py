"""Quantized numbers: `relay.qnn.conv2d(...)`, or by its classic name `relay.qnn.op.conv2d(...)`;
`relay.qnn.transform.CanonicalizeOps()`."""

from __future__ import annotations

from typing import Any

from . import op, transform

__all__ = ["op", "transform"]


def __getattr__(name: str) -> Any:
    return getattr(op, name)


def __dir__() -> list[str]:
    return sorted([*__all__, *dir(op)])
