"""Einstein's sums."""

from __future__ import annotations

from functools import partial

from smelt.frontend.common import Build, Value
from smelt.relax.compose.einsum import einsum as sum_of_products
from smelt.relax.host_ops import call_with_sizes

from .registry import onnx_op


@onnx_op("Einsum", since=12)
def einsum(g: Build, first: Value, *rest: Value, equation: str) -> Value:
    """Operands are joined from left to right; a letter goes when nothing later needs it."""
    make = partial(call_with_sizes, name=g.step.label)
    return g.composed(sum_of_products, [x.expr for x in (first, *rest)], equation, make)
