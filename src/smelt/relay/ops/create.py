"""Tensors made of nothing, or of the shape of another one."""

from __future__ import annotations

from typing import Any

from smelt.relax.nodes import RelaxExpr, call

from ..dialect import relay_op


@relay_op("zeros")
def zeros(*, shape: Any, dtype: str = "float32") -> RelaxExpr:
    """All zero."""
    return call("full", shape=shape, value=0.0, dtype=dtype)


@relay_op("ones")
def ones(*, shape: Any, dtype: str = "float32") -> RelaxExpr:
    """All one."""
    return call("full", shape=shape, value=1.0, dtype=dtype)
