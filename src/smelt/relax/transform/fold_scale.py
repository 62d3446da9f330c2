"""Scales and shifts per channel become part of constant weights and biases.

Weights are multiplied in float64 and rounded once. Every rule needs that the product is used once,
else the unscaled one would have to be computed as well.
"""

from __future__ import annotations

import numpy as np

from smelt.relax.nodes import Call, Constant, RelaxExpr, tensor_type_of
from smelt.topi.conv import CONVOLUTIONS

from .engine import GraphRewriter, RuleSet
from .match import Array, constant_operand, dims, dtype_of, is_float, is_op, op_name

FOLD_SCALE_RULES = RuleSet()
rule = FOLD_SCALE_RULES.rule

PRODUCTS = (*CONVOLUTIONS, "conv_transpose", "matmul")


def vector_along(c: Array, rank: int, axis: int) -> Array | None:
    """What a constant that broadcasts to `rank` dimensions is along one of them, if it varies
    along no other: a number or a vector."""
    if c.size == 1:
        return c.reshape(()) if c.ndim <= rank else None
    place = axis - rank + c.ndim
    if c.ndim > rank or place < 0 or c.shape[place] != c.size:
        return None
    return c.reshape(-1)


def _scaled(g: GraphRewriter, y: Call, c: Array) -> RelaxExpr | None:
    """A product with constant weights times `c`, by scaling the weights."""
    x, w = y.args[:2]
    if not isinstance(w, Constant) or isinstance(x, Constant) or not g.single(y):
        return None
    if not is_float(y) or dtype_of(y) != dtype_of(w):  # weights of a narrow type would lose digits
        return None
    rank = tensor_type_of(y).rank
    channel = rank - 1 if op_name(y) == "matmul" else 1
    s = vector_along(c, rank, channel)
    if s is None or (s.ndim and dims(y)[channel] != s.size):
        return None
    wide = g.exact(w)
    by = s if s.ndim == 0 else _along_weights(y, wide, s)
    if by is None:
        return None
    return g.again(y, x, g.constant(wide * by, dtype_of(w)))


def _along_weights(y: Call, w: Array, s: Array) -> Array | None:
    """A vector over output channels as it broadcasts to the weights."""
    if op_name(y) == "matmul":
        if w.ndim < 2:
            return None
        return s[:, None] if y.attrs["transpose_b"] else s
    if op_name(y) == "conv_transpose":
        return _by_groups(s, w, y.attrs["groups"])
    return s.reshape(-1, *[1] * (w.ndim - 1))


@rule("multiply", "divide")
def scale_after_product(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """conv(x, w) * c  =  conv(x, w * c)        (conv(x, w) + b) * c  =  conv(x, w * c) + b * c
    for c per output channel; products of matrices likewise; division too"""
    found = constant_operand(n)
    if not found:
        return None
    y, c = found[0], g.exact(found[1])
    if is_op(n, "divide"):
        if not is_float(n) or np.any(c == 0):
            return None
        c = 1.0 / c
    if is_op(y, *PRODUCTS):
        return _scaled(g, y, c)
    inner = constant_operand(y) if is_op(y, "add") and g.single(y) else None
    product, b = inner or (None, None)
    if b is None or not is_op(product, *PRODUCTS):
        return None
    shift = g.exact(b) * c
    if shift.size > max(b.data.size, c.size):
        return None
    scaled = _scaled(g, product, c)
    return None if scaled is None else g.call("add", scaled, g.constant(shift, dtype_of(b)))


def _known_before(g: GraphRewriter, n: Call, op: str) -> tuple[RelaxExpr, Constant, Array] | None:
    """(x, c, w) of a product of floats of op(x, c) and w, for constants that broadcast to x."""
    y, w = n.args[:2]
    if not is_op(y, op) or not isinstance(w, Constant) or not g.single(y):
        return None
    if not is_float(n) or dtype_of(n) != dtype_of(w):
        return None
    found = constant_operand(y)
    same = found and tensor_type_of(found[0]) is tensor_type_of(y)
    return (*found, g.exact(w)) if found and same else None


@rule(*PRODUCTS)
def scale_before_product(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """conv(x * c, w)  =  conv(x, w * c)   for c per input channel; x c w likewise"""
    found = _known_before(g, n, "multiply")
    if not found:
        return None
    x, c, w = found
    by = _along_inputs(n, w, g.exact(c), tensor_type_of(x).rank)
    return None if by is None else g.again(n, x, g.constant(w * by, dtype_of(n)))


def _along_inputs(n: Call, w: Array, c: Array, rank: int) -> Array | None:
    """A constant over input channels as it broadcasts to the weights."""
    if op_name(n) == "matmul":
        if rank < 2 or w.ndim < 2 or n.attrs.get("transpose_a"):
            return c.reshape(()) if c.size == 1 else None
        s = vector_along(c, rank, rank - 1)
        return s if s is None or s.ndim == 0 or n.attrs["transpose_b"] else s[:, None]
    s = vector_along(c, rank, 1)
    if s is None or s.ndim == 0:
        return s
    if op_name(n) == "conv_transpose":
        return s.reshape(-1, *[1] * (w.ndim - 1))
    return _by_groups(s, w, n.attrs["groups"])


def _by_groups(s: Array, w: Array, groups: int) -> Array:
    """Vectors of the groups, one behind the other, for each row of weights of its group."""
    rows = s.reshape(groups, -1).repeat(w.shape[0] // groups, 0)
    return rows.reshape(*w.shape[:2], *[1] * (w.ndim - 2))


@rule(*CONVOLUTIONS)
def shift_before_conv(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """conv(x + t, w)  =  conv(x, w) + sum of w * t   for t per input channel, without padding"""
    found = _known_before(g, n, "add") if not any(n.attrs["pads"]) else None
    if not found:
        return None
    x, t, w = found
    by = _along_inputs(n, w, g.exact(t), tensor_type_of(x).rank)
    if by is None:
        return None
    bias = np.sum(w * by, axis=tuple(range(1, w.ndim))).reshape(-1, *[1] * (w.ndim - 2))
    return g.call("add", g.again(n, x, n.args[1]), g.constant(bias, dtype_of(n)))
