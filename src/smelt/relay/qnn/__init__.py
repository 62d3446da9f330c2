"""Quantized numbers: `relay.qnn.op.conv2d(...)`, `relay.qnn.transform.CanonicalizeOps()`."""

from __future__ import annotations

from . import op, transform

__all__ = ["op", "transform"]
