"""Scaled dot-product attention."""

from __future__ import annotations

import math

from smelt.ir.build import select
from smelt.ir.expr import Expr, cast, const
from smelt.te.tensor import Tensor

from .common import (
    agree,
    at,
    broadcast_shapes,
    describe,
    float_only,
    require,
    same_dtype,
    stored,
    tensor,
)  # fmt: skip
from .nn import product
from .reduce import softmax_of
from .registry import op


@op
def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, scale: float = 1.0
) -> Tensor:
    """softmax(q k^T * scale + mask) v.

    Shapes   q [..., s, d]; k [..., t, d]; v [..., t, e]; mask broadcasts to [..., s, t];
             result [..., s, e]
    mask     numbers are added to the scores; a bool mask keeps the scores where it is true
    """
    dtype = same_dtype(q=q, k=k, v=v)
    float_only(q, "q")
    for name, t in (("q", q), ("k", k), ("v", v)):
        require(len(t.shape) >= 2, f"{name} {describe(t.shape)} needs at least two dimensions")
    agree(
        k.shape[-2], v.shape[-2],
        f"k {describe(k.shape)} and v {describe(v.shape)} need one row per key each",
    )  # fmt: skip
    scores = product(q, k, False, True, "scores", ("q", "k"))
    shape = scores.shape
    if mask is not None:
        require(
            mask.dtype in ("bool", dtype),
            f"mask is {mask.dtype}; it has to be bool or {dtype}, as q",
        )
        shape = broadcast_shapes(scores=scores.shape, mask=mask.shape)

    def masked(*i: Expr) -> Expr:
        s = at(scores, shape, i) * scale
        if mask is None:
            return s
        m = at(mask, shape, i)
        if mask.dtype == "bool":
            return select(m, s, const(-math.inf, scores.dtype))
        return s + cast(scores.dtype, m)

    weights = softmax_of(tensor(shape, masked, "masked"), -1)
    return stored(product(weights, v, False, False, "matmul", ("weights", "v")), dtype)
