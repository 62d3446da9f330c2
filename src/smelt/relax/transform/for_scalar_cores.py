"""Quantized work in the forms that processors without vectors do best.

Convolutions are of distances from the zero point, which is what stands in their border: kernels
skip the border in place of multiplying it. Their sums become bytes again in a few instructions,
where weights and bias say that they leave room in 32 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.module import IRModule
from smelt.relax.nodes import Call, Constant, RelaxExpr
from smelt.topi.conv import CONVOLUTIONS, FROM_BORDER
from smelt.topi.fixed_point import BIAS, MULTIPLIER, OFFSET, SHIFT, rounded_twice

from .engine import GraphRewriter, RuleSet, apply_rules
from .match import dtype_of, is_op, rank_of

_BORDERS, _SUMS, _WIDE, _HALVED = RuleSet(), RuleSet(), RuleSet(), RuleSet()
_ROOM = 1 << 29
"""What sums and offsets stay below: twice their sum is in 32 bits."""
_SIDE_BY_SIDE = 4
_BYTE = 255
"""The largest distance of two bytes."""


@_BORDERS.rule(*CONVOLUTIONS)
def from_border(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """conv(x, w, border=b)  =  conv_from_border(x, w, border=b) + b * (the sum of each filter)"""
    x, w = n.args
    border, name = n.attrs["border"], str(n.callee)
    if not border or not any(n.attrs["pads"] or ()) or not isinstance(w, Constant):
        return None
    if dtype_of(x) not in ("int8", "uint8") or dt.bits(dtype_of(n)) < 32:
        return None
    data = w.data.astype(np.int64)
    sums = border * data.sum(axis=tuple(range(1, data.ndim)))
    made = g.call(FROM_BORDER[CONVOLUTIONS.index(name)], x, w, **n.attrs)
    fixed = g.constant(sums.reshape(-1, *[1] * (data.ndim - 2)), dtype_of(n))
    return g.call("add", made, fixed)


@_WIDE.rule(*CONVOLUTIONS, *FROM_BORDER)
def of_wide_filters(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """A convolution by channel with filters of bytes  =  the same with filters of 16 bits, which
    four channels at a time are multiplied by"""
    x, w = n.args
    if not isinstance(w, Constant) or dtype_of(w) != "int8" or n.attrs["out_dtype"] != "int32":
        return None
    count, own = w.data.shape[:2]
    if own > 1 or n.attrs["groups"] != count or count % _SIDE_BY_SIDE:
        return None
    return g.call(str(n.callee), x, g.constant(w.data.astype(np.int16), "int16"), **n.attrs)


@_SUMS.rule("fixed_point_multiply_per_axis")
def of_small_sums(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """A product that is rounded twice  =  requantize_sums, where sums are known to be small"""
    x, *factors = n.args
    if n.attrs["rounding"] != "twice" or n.attrs["is_lshift_required"] or n.attrs["axes"] != (1,):
        return None
    m, _, right = [f.data.astype(np.int64) if isinstance(f, Constant) else None for f in factors]
    sums, bias = _with_bias(x)
    if m is None or right is None:
        return None
    columns = _factors(_largest(sums, m.shape), np.broadcast_to(bias, m.shape), m, right)
    if columns is None:
        return None
    return g.call("requantize_sums", sums, g.constant(np.stack(columns, axis=1), "int32"))


@_SUMS.rule("fixed_point_multiply")
def of_a_small_sum(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """The same with one factor for all channels"""
    if n.attrs["rounding"] != "twice" or n.attrs["shift"] > 0:
        return None
    numbers = [np.array([v]) for v in (n.attrs["multiplier"], -n.attrs["shift"])]
    columns = _factors(_largest(n.args[0], (1,)), np.zeros(1, np.int64), *numbers)
    if columns is None:
        return None
    return g.call("requantize_sum", n.args[0], factors=tuple([int(c[0]) for c in columns]))


@_SUMS.rule("add")
def with_zero_point(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """requantize_sums(x) + z  =  requantize_sums(x), where its offset has room for z"""
    y, z = n.args
    if not is_op(y, "requantize_sums", "requantize_sum") or not isinstance(z, Constant):
        return None
    factors = _factors_of(y)
    factors[:, OFFSET] += int(z.data.reshape(-1)[0]) << factors[:, SHIFT]
    if z.data.size != 1 or np.abs(factors[:, OFFSET]).max() >= _ROOM:
        return None
    return _with(g, y, factors)


@_SUMS.rule("clip")
def of_results_above_zero(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """clip(requantize_sums(x), z)  =  the same with halves rounded up, where z is not below what
    products below zero become: behind a ReLU it makes no difference"""
    y, least = n.args[0], n.attrs["min"]
    if not is_op(y, "requantize_sums", "requantize_sum") or least is None or not y.attrs["away"]:
        return None
    factors = _factors_of(y)
    zeros = (factors[:, OFFSET] >> factors[:, SHIFT])[factors[:, MULTIPLIER] != 0]
    if zeros.max(initial=least) > least:
        return None
    return g.call("clip", _with(g, y, factors, away=False), **n.attrs)


@_HALVED.rule("requantize_sums")
def as_vectors_want_them(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """requantize_sums  =  the same with half the bias, and the shift to the left"""
    if n.attrs["halved"]:
        return None
    factors = _factors_of(n)
    factors[:, BIAS], factors[:, SHIFT] = factors[:, BIAS] // 2, -factors[:, SHIFT]
    return _with(g, n, factors, halved=True)


def _factors_of(y: Call) -> Any:
    """A row for each channel."""
    one = is_op(y, "requantize_sum")
    return np.array([y.attrs["factors"]] if one else _data(y.args[1]), np.int64)


def _with(g: GraphRewriter, y: Call, factors: Any, **attrs: Any) -> RelaxExpr:
    """The same with other factors."""
    if is_op(y, "requantize_sum"):
        attrs["factors"] = tuple(factors[0].tolist())
        return g.call("requantize_sum", y.args[0], **{**y.attrs, **attrs})
    made = g.constant(factors, "int32")
    return g.call("requantize_sums", y.args[0], made, **{**y.attrs, **attrs})


def _factors(largest: Any, bias: Any, m: Any, right: Any) -> list[Any] | None:
    """The columns of factors; None where sums may be too large.

    largest  what no sum exceeds, by channels
    """
    if largest is None:
        return None
    most = largest + np.abs(bias)
    # channels whose result does not depend on the image, of filters of zeros above all
    fixed = (largest == 0) | (most < np.left_shift(1, np.maximum(right, 1) - 1))
    known = np.where(largest == 0, rounded_twice(bias, m, right), 0)
    if np.where(fixed, np.abs(known), most).max() >= _ROOM:
        return None
    offset = np.where(fixed, 2 * known + 1, np.left_shift(1, right) >> 1)
    m, bias, right = np.where(fixed, 0, m), np.where(fixed, 0, bias), np.where(fixed, 1, right)
    columns = [2 * bias, m, offset, right]
    return columns if right.min() > 0 else [*columns, np.where(right > 0, -1, 0)]


def _with_bias(x: Any) -> tuple[Any, Any]:
    """Sums, and the constant that is added to each channel of them."""
    if not is_op(x, "add") or not isinstance(x.args[1], Constant):
        return x, np.zeros(1, np.int64)
    sums, c = x.args[0], _data(x.args[1])
    per_channel = c.ndim == rank_of(sums) - 1 and c.size == c.shape[0]
    if c.size != 1 and not per_channel:
        return x, np.zeros(1, np.int64)
    return sums, c.astype(np.int64).reshape(-1)


def _data(x: RelaxExpr | None) -> Any:
    assert isinstance(x, Constant)
    return x.data


def _largest(x: Any, shape: tuple[int, ...]) -> Any:
    """What the magnitude of no element exceeds, by channels where it is a convolution or a product;
    None: nobody knows."""
    if is_op(x, *CONVOLUTIONS, *FROM_BORDER, "matmul") and dt.bits(dtype_of(x.args[0])) == 8:
        w = x.args[1]
        rows = not is_op(x, "matmul") or (x.attrs["transpose_b"] and rank_of(w) == 2)
        if not isinstance(w, Constant) or dtype_of(x) != "int32" or not rows:
            return None
        sums = np.abs(w.data.astype(np.int64)).sum(axis=tuple(range(1, w.data.ndim)))
        return _BYTE * (sums if sums.shape == shape else sums.max())
    found = _limits(x)
    return None if found is None else np.full(shape, max(abs(v) for v in found))


def _limits(x: Any) -> tuple[int, int] | None:
    """The least and the largest number that work on bytes may give."""
    if isinstance(x, Constant) and dt.is_int(dtype_of(x)):
        return int(x.data.min()), int(x.data.max())
    if isinstance(x, Call) and dt.is_int(dtype_of(x)) and dtype_of(x) != "bool":
        if is_op(x, "clip"):
            return int(x.attrs["min"]), int(x.attrs["max"])
        if is_op(x, "cast"):
            inner, own = _limits(x.args[0]), dt.limits(dtype_of(x))
            return inner if inner and own[0] <= inner[0] <= inner[1] <= own[1] else _of_type(x)
        if is_op(x, "requantize_sum"):
            _, m, offset, shift, *_ = x.attrs["factors"]
            inner = _limits(x.args[0])
            ends = [((2 * v * m) >> 32) + offset for v in inner or ()]
            return ((min(ends) - 2) >> shift, (max(ends) + 2) >> shift) if inner else None
        if is_op(x, "add", "subtract", "multiply"):
            return _combined(str(x.callee), *[_limits(a) for a in x.args])
    return _of_type(x)


def _of_type(x: RelaxExpr | None) -> tuple[int, int] | None:
    kind = dtype_of(x)
    return dt.limits(kind) if dt.is_int(kind) and dt.bits(kind) <= 16 else None


def _combined(name: str, a: Any, b: Any) -> tuple[int, int] | None:
    if a is None or b is None:
        return None
    fn = {"add": int.__add__, "subtract": int.__sub__, "multiply": int.__mul__}[name]
    ends = [fn(x, y) for x in a for y in b]
    return min(ends), max(ends)


def count_from_border(mod: IRModule) -> IRModule:
    """Quantized convolutions are of distances from the zero point."""
    return apply_rules(mod, _BORDERS)


def requantize_small_sums(mod: IRModule) -> IRModule:
    """Sums that leave room become bytes by the upper half of one product."""
    return apply_rules(mod, _SUMS)


def halve_factors(mod: IRModule) -> IRModule:
    """The factors of sums are those that vector units take."""
    return apply_rules(mod, _HALVED)


def widen_filters(mod: IRModule) -> IRModule:
    """Filters of convolutions by channel are widened before the model runs, not for each pixel."""
    return apply_rules(mod, _WIDE)
