"""Scaled dot-product attention."""

from __future__ import annotations

import math

import numpy as np

from smelt.ir.build import select
from smelt.ir.expr import Expr, cast, const
from smelt.te.tensor import Tensor

from . import common
from .nn import product
from .reduce import softmax_array, softmax_of
from .reference import Array, widened
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
    dtype = common.same_dtype(q=q, k=k, v=v)
    common.float_only(q, "q")
    common.take_matrices(q=q, k=k, v=v)
    common.agree(k.shape[-2], v.shape[-2], f"{common.named(k=k, v=v)} need one row per key each")
    scores = product(q, k, False, True, "scores", ("q", "k"))
    shape = scores.shape
    if mask is not None:
        common.require(
            mask.dtype in ("bool", dtype),
            f"mask is {mask.dtype}; it has to be bool or {dtype}, as q",
        )
        shape = common.broadcast_shapes(scores=scores.shape, mask=mask.shape)

    def masked(*i: Expr) -> Expr:
        s = common.at(scores, shape, i) * scale
        if mask is None:
            return s
        m = common.at(mask, shape, i)
        if mask.dtype == "bool":
            return select(m, s, const(-math.inf, scores.dtype))
        return s + cast(scores.dtype, m)

    weights = softmax_of(common.tensor(shape, masked, "masked"), -1)
    return common.stored(product(weights, v, False, False, "matmul", ("weights", "v")), dtype)


@attention.numpy
def _(q: Array, k: Array, v: Array, mask: Array | None = None, *, scale: float) -> Array:
    """softmax(q k^T * scale + mask) v."""
    scores = np.matmul(widened(q), np.swapaxes(widened(k), -1, -2)) * widened(q).dtype.type(scale)
    if mask is not None:
        added = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else widened(mask)
        scores = scores + added.astype(scores.dtype)
    return np.asarray(np.matmul(softmax_array(scores, axis=-1), widened(v))).astype(q.dtype)
