"""Attention: softmax(q k^T * scale + mask) v becomes one operator."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TypeGuard

import numpy as np

from smelt.ir.module import IRModule
from smelt.relax.nodes import Call, Constant, RelaxExpr, tensor_type_of

from .canonicalize import SIMPLIFICATIONS, rules_of
from .engine import GraphRewriter, RuleSet, apply_rules
from .fold_constants import FOLD_RULES
from .match import dtype_of, is_float, is_op, shape_of, strip_scale, type_is
from .patterns import guarded_softmax
from .simplify import SIMPLIFY_RULES
from .simplify_moves import axes_of_transpose

ATTENTION_RULES = RuleSet()
rule = ATTENTION_RULES.rule

MASKED = -1e4
"""A score from which on softmax gives 0, next to one that is not masked."""


def _swap(g: GraphRewriter, x: RelaxExpr) -> RelaxExpr:
    """The last two dimensions exchanged, reshapes of the leading ones passed by."""
    rank = tensor_type_of(x).rank
    inner = x.args[0] if is_op(x, "reshape") else None
    if _swaps_last(inner) and shape_of(x)[-2:] == shape_of(inner)[-2:]:
        shape = (*shape_of(x)[:-2], shape_of(x)[-1], shape_of(x)[-2])
        return g.call("reshape", _swap(g, inner), shape=shape)
    return g.call("transpose", x, axes=(*range(rank - 2), rank - 1, rank - 2))


def _swaps_last(x: RelaxExpr | None) -> TypeGuard[Call]:
    return is_op(x, "transpose") and axes_of_transpose(x)[-1] != tensor_type_of(x).rank - 1


class _Scores:
    """What the operand of softmax is made of: q k^T * scale, and a mask or none.

    product  the matmul of q and k
    bool     whether the mask says which scores count
    """

    def __init__(self, product: Call, scale: float, mask: RelaxExpr | None) -> None:
        self.product, self.scale, self.mask = product, scale, mask


def _scores(x: RelaxExpr | None) -> _Scores | None:
    """Read the operand of softmax."""
    if x is None:
        return None
    y, k = strip_scale(x)
    if is_op(y, "matmul"):
        return _Scores(y, k, None)
    if is_op(x, "add"):
        for a, mask in (x.args, x.args[::-1]):
            inner = _scores(a) if not is_op(a, "add", "where") else None
            if inner and type_is(a, x):
                return _Scores(inner.product, inner.scale, mask)
    if is_op(x, "where") and isinstance(x.args[0], Constant):
        keep, a, low = x.args
        inner = _scores(a) if not is_op(a, "add", "where") else None
        rows = bool(np.all(np.any(keep.data, axis=-1))) if isinstance(keep, Constant) else False
        masked = isinstance(low, Constant) and bool(np.all(low.data <= MASKED))
        if inner and rows and masked and type_is(a, x):
            return _Scores(inner.product, inner.scale, keep)
    return None


@rule("matmul")
def attention(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """matmul(softmax(matmul(q, k^T) * scale + mask), v)  =  attention(q, k, v, mask, scale)
    where(isnan(weights), 0, weights) is asked of the result instead, for finite v"""
    weights, v = n.args
    guarded = guarded_softmax(weights)
    s = guarded or (weights if is_op(weights, "softmax") else None)
    if s is None or v is None or n.attrs["transpose_a"] or tensor_type_of(v).rank < 2:
        return None
    if s.attrs["axis"] % tensor_type_of(s).rank != tensor_type_of(s).rank - 1:
        return None
    found = _scores(s.args[0])
    if found is None or not is_float(n):
        return None
    if n.attrs["out_dtype"] or found.product.attrs["out_dtype"]:
        return None
    q, k = found.product.args
    if q is None or k is None or not g.only_inside(n, q, k, v, found.mask):
        return None
    if min(tensor_type_of(q).rank, tensor_type_of(k).rank) < 2:
        return None
    result = _call(g, n, found, q, k, v)
    if result is None or guarded is None:
        return result
    zero = g.constant(np.zeros(()), dtype_of(n))
    return g.call("where", g.call("isnan", result), zero, result)


def _call(
    g: GraphRewriter, n: Call, found: _Scores, q: RelaxExpr, k: RelaxExpr, v: RelaxExpr
) -> RelaxExpr | None:
    """The operator; None where the mask does not fit."""
    scale, mask = found.scale, found.mask
    q, by_q = strip_scale(q)
    k, by_k = strip_scale(k)
    scale *= by_q * by_k
    if mask is not None and dtype_of(mask) not in ("bool", dtype_of(n)):
        return None
    if not math.isfinite(scale):
        return None
    if found.product.attrs["transpose_a"]:
        q = _swap(g, q)
    if not found.product.attrs["transpose_b"]:
        k = _swap(g, k)
    if n.attrs["transpose_b"]:
        v = _swap(g, v)
    return g.call("attention", q, k, v, mask, scale=scale)


def recognize_attention(mod: IRModule, on: Collection[str] = SIMPLIFICATIONS) -> IRModule:
    """Make one operator of every attention that is spelled out; needs simplified graphs.

    on  the simplifications that go on meanwhile
    """
    rules = FOLD_RULES + ATTENTION_RULES + SIMPLIFY_RULES
    return apply_rules(mod, rules_of(rules, on), share="EliminateCommonSubexpr" in on)
