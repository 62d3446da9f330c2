"""Normalisation: mean and variance in two passes, accumulated in the wide type."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from smelt.ir.build import all_of, call, equal, if_then_else, product, select
from smelt.ir.expr import INDEX, Expr, cast, const
from smelt.te.tensor import Tensor, reduce_axis
from smelt.tir.nodes import IterVar

from . import common
from .reference import Array, widened
from .registry import op


def _channels(x: Tensor, **vectors: Tensor) -> None:
    """Every operand is a vector with one element per channel of x [n, c, ...]."""
    common.require(len(x.shape) >= 2, f"{common.named(x=x)} has to be [n, c, ...]")
    for name, v in vectors.items():
        own = common.named(**{name: v})
        common.require(len(v.shape) == 1, f"{own} has to have one dimension, channels")
        rule = f"{own} and {common.named(x=x)}: one element per channel"
        common.agree(x.shape[1], v.shape[0], rule)


@op(channels_last=True)
def batch_norm(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, *, epsilon: float = 1e-5
) -> Tensor:
    """(x - mean) / sqrt(var + epsilon) * scale + bias with given statistics per channel.

    Shapes   x [n, c, ...]; scale, bias, mean and var [c]
    Source   ONNX BatchNormalization-15 (inference)
    """
    common.float_only(x)
    _channels(x, scale=scale, bias=bias, mean=mean, var=var)
    to = common.wide(x.dtype)

    def body(*i: Expr) -> Expr:
        s, b, m, v = [cast(to, t[i[1]]) for t in (scale, bias, mean, var)]
        factor = s / call("sqrt", v + epsilon)
        return cast(x.dtype, (cast(to, x[i]) - m) * factor + b)

    return common.tensor(x.shape, body, "batch_norm")


def _per_channel(v: Array, rank: int) -> Array:
    return widened(v).reshape(-1, *[1] * (rank - 2))


@batch_norm.numpy
def _(x: Array, scale: Array, bias: Array, mean: Array, var: Array, *, epsilon: float) -> Array:
    """(x - mean) / sqrt(var + epsilon) * scale + bias."""
    s, b, m, v = [_per_channel(t, x.ndim) for t in (scale, bias, mean, var)]
    w = widened(x)
    return np.asarray((w - m) / np.sqrt(v + v.dtype.type(epsilon)) * s + b).astype(x.dtype)


# ------------------------------------------------------------------------- mean and variance of x


def _statistics(
    x: Tensor, shape: Sequence[Expr], index: Callable[..., Sequence[Expr]],
    axes: Callable[[], list[IterVar]], count: Expr, epsilon: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The mean and 1 / sqrt(variance + epsilon) of groups of elements.

    shape   one entry per group
    index   (group index, reduction variables) -> index of x
    axes    makes the reduction variables
    """
    to = common.wide(x.dtype)
    n = cast(to, count)
    k = axes()
    total = common.sum_over(shape, lambda *i: cast(to, x[tuple(index(i, k))]), k, "norm_sum")
    mean = common.tensor(shape, lambda *i: total[i] / n, "norm_mean")
    j = axes()

    def squared(*i: Expr) -> Expr:
        d = cast(to, x[tuple(index(i, j))]) - mean[i]
        return d * d

    return mean, _factor(shape, squared, j, n, epsilon)


def _factor(
    shape: Sequence[Expr], squared: Callable[..., Expr], axes: Sequence[IterVar], n: Expr,
    epsilon: float,
) -> Tensor:  # fmt: skip
    """1 / sqrt(mean + epsilon), the mean of n squares each."""
    total = common.sum_over(shape, squared, axes, "norm_squares")
    return common.tensor(shape, lambda *i: 1.0 / call("sqrt", total[i] / n + epsilon), "norm_scale")


def _statistics_from(x: Tensor, axis: int, epsilon: float) -> tuple[Tensor, Tensor]:
    """Those of the elements that differ in the dimensions from `axis` on."""
    return _statistics(
        x, x.shape[:axis], lambda i, k: (*i, *[a.var for a in k]),
        lambda: common.reduce_axes(x, range(axis, len(x.shape))), product(x.shape[axis:]), epsilon,
    )  # fmt: skip


def _normalised(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, factor: Tensor,
    group: Callable[[Expr], Expr], name: str,
) -> Tensor:  # fmt: skip
    """(x - mean) * factor * scale + bias, where a channel has the statistics of its group."""
    to = common.wide(x.dtype)

    def body(n: Expr, c: Expr, *y: Expr) -> Expr:
        g = group(c)
        v = (cast(to, x[(n, c, *y)]) - mean[n, g]) * factor[n, g]
        return cast(x.dtype, v * cast(to, scale[c]) + cast(to, bias[c]))

    return common.tensor(x.shape, body, name)


def _affine(x: Tensor, **operands: Tensor | None) -> None:
    """Operands that are laid over the normalised dimensions of x."""
    common.float_only(x)
    for name, t in operands.items():
        if t is not None:
            common.lies_over(x=x.shape, **{name: t.shape})


@op
def layer_norm(
    x: Tensor, scale: Tensor, bias: Tensor | None = None, *, axis: int = -1, epsilon: float = 1e-5
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias over the dimensions from `axis` on.

    Shapes   x [..., tail]; scale and bias broadcast to the tail
    Source   ONNX LayerNormalization-17
    """
    axis = common.axis_of(axis, len(x.shape))
    _affine(x, scale=scale, bias=bias)
    mean, factor = _statistics_from(x, axis, epsilon)
    to = common.wide(x.dtype)

    def body(*i: Expr) -> Expr:
        s = cast(to, common.at(scale, x.shape, i))
        v = (cast(to, x[i]) - mean[i[:axis]]) * factor[i[:axis]] * s
        return cast(x.dtype, v if bias is None else v + cast(to, common.at(bias, x.shape, i)))

    return common.tensor(x.shape, body, "layer_norm")


def _standard(w: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    mean = np.mean(w, axis=axes, keepdims=True)
    var = np.mean((w - mean) ** 2, axis=axes, keepdims=True)
    return np.asarray((w - mean) / np.sqrt(var + w.dtype.type(epsilon)))


@layer_norm.numpy
def _(x: Array, scale: Array, bias: Array | None = None, *, axis: int, epsilon: float) -> Array:
    """Mean 0 and variance 1 over the last dimensions."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    y = _standard(widened(x), axes, epsilon) * widened(scale)
    return (y if bias is None else y + widened(bias)).astype(x.dtype)


@op
def rms_norm(x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5) -> Tensor:
    """x / sqrt(mean(x * x) + epsilon) * scale over the dimensions from `axis` on.

    Shapes   x [..., tail]; scale broadcasts to the tail
    Source   ONNX RMSNormalization-23
    """
    axis = common.axis_of(axis, len(x.shape))
    _affine(x, scale=scale)
    to = common.wide(x.dtype)
    k = common.reduce_axes(x, range(axis, len(x.shape)))

    def squared(*i: Expr) -> Expr:
        v = cast(to, x[(*i, *[a.var for a in k])])
        return v * v

    factor = _factor(x.shape[:axis], squared, k, cast(to, product(x.shape[axis:])), epsilon)

    def body(*i: Expr) -> Expr:
        s = cast(to, common.at(scale, x.shape, i))
        return cast(x.dtype, cast(to, x[i]) * factor[i[:axis]] * s)

    return common.tensor(x.shape, body, "rms_norm")


@rms_norm.numpy
def _(x: Array, scale: Array, *, axis: int, epsilon: float) -> Array:
    """Mean square 1 over the last dimensions."""
    w = widened(x)
    axes = tuple(range(axis % x.ndim, x.ndim))
    square = np.mean(w * w, axis=axes, keepdims=True)
    y = w / np.sqrt(square + w.dtype.type(epsilon)) * widened(scale)
    return np.asarray(y).astype(x.dtype)


@op(channels_last=True)
def instance_norm(x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    """Each channel of each image brought to mean 0 and variance 1, then scale * x + bias.

    Shapes   x [n, c, ...]; scale and bias [c]
    Source   ONNX InstanceNormalization-22
    """
    common.float_only(x)
    _channels(x, scale=scale, bias=bias)
    mean, factor = _statistics_from(x, 2, epsilon)
    return _normalised(x, scale, bias, mean, factor, lambda c: c, "instance_norm")


@instance_norm.numpy
def _(x: Array, scale: Array, bias: Array, *, epsilon: float) -> Array:
    """Mean 0 and variance 1 in each image's channel."""
    y = _standard(widened(x), tuple(range(2, x.ndim)), epsilon)
    return (y * _per_channel(scale, x.ndim) + _per_channel(bias, x.ndim)).astype(x.dtype)


@op
def group_norm(
    x: Tensor, scale: Tensor, bias: Tensor, *, groups: int, epsilon: float = 1e-5
) -> Tensor:
    """Groups of neighbouring channels brought to mean 0 and variance 1, then scale * x + bias.

    Shapes   x [n, c, ...]; scale and bias [c]
    Source   ONNX GroupNormalization-21
    """
    common.float_only(x)
    _channels(x, scale=scale, bias=bias)
    common.take_groups(groups, common.named(x=x), x.shape[1])
    per = x.shape[1] // groups
    mean, factor = _statistics(
        x, (x.shape[0], const(groups, INDEX)),
        lambda i, k: (i[0], i[1] * per + k[0].var, *[a.var for a in k[1:]]),
        lambda: [reduce_axis((0, per), "kc"), *common.reduce_axes(x, range(2, len(x.shape)))],
        per * product(x.shape[2:]), epsilon,
    )  # fmt: skip
    return _normalised(x, scale, bias, mean, factor, lambda c: c // per, "group_norm")


@group_norm.numpy
def _(x: Array, scale: Array, bias: Array, *, groups: int, epsilon: float) -> Array:
    """Mean 0 and variance 1 in each group of channels."""
    y = widened(x).reshape(x.shape[0], groups, -1)
    y = _standard(y, (2,), epsilon).reshape(x.shape)
    return (y * _per_channel(scale, x.ndim) + _per_channel(bias, x.ndim)).astype(x.dtype)


@op(channels_last=True)
def lrn(
    x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Tensor:
    """x / (bias + alpha / size * sum of squares over `size` neighbouring channels) ** beta.

    Shapes   x [n, c, ...]
    Source   ONNX LRN-13
    """
    common.float_only(x)
    common.at_least(1, size=size)
    to = common.wide(x.dtype)
    k = reduce_axis((0, size), "k")

    def squared(n: Expr, c: Expr, *y: Expr) -> Expr:
        at_channel = c + k.var - (size - 1) // 2
        v = cast(to, x[(n, at_channel, *y)])
        inside = all_of(at_channel >= 0, at_channel < x.shape[1])
        return if_then_else(inside, v * v, const(0.0, to))

    total = common.sum_over(x.shape, squared, [k], "lrn_sum")

    def body(*i: Expr) -> Expr:
        base = bias + (alpha / size) * total[i]
        return cast(x.dtype, cast(to, x[i]) / call("pow", base, const(beta, to)))

    return common.tensor(x.shape, body, "lrn")


@lrn.numpy
def _(x: Array, *, size: int, alpha: float, beta: float, bias: float) -> Array:
    """x over a power of the squares in neighbouring channels."""
    w = widened(x)
    total = np.zeros_like(w)
    for c in range(x.shape[1]):
        begin = max(0, c - (size - 1) // 2)
        end = min(x.shape[1], c + math.ceil((size - 1) / 2) + 1)
        total[:, c] = np.sum(w[:, begin:end] ** 2, axis=1)
    return (w / (bias + alpha / size * total) ** beta).astype(x.dtype)


@op
def lp_norm(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """x divided by its norm along `axis`; 0 where the norm is 0.

    p  1 (sum of magnitudes) or 2 (root of the sum of squares)
    """
    common.float_only(x)
    common.require(p in (1, 2), f"p={p}; legal: 1, 2")
    axis = common.axis_of(axis, len(x.shape))
    to = common.wide(x.dtype)
    (k,) = common.reduce_axes(x, [axis])

    def part(*i: Expr) -> Expr:
        v = cast(to, x[(*i[:axis], k.var, *i[axis:])])
        return call("abs", v) if p == 1 else v * v

    total = common.sum_over((*x.shape[:axis], *x.shape[axis + 1 :]), part, [k], "norm_sum")

    def body(*i: Expr) -> Expr:
        t = total[(*i[:axis], *i[axis + 1 :])]
        norm = t if p == 1 else call("sqrt", t)
        none = equal(norm, 0.0)
        v = cast(to, x[i]) / select(none, 1.0, norm)
        return cast(x.dtype, select(none, 0.0, v))

    return common.tensor(x.shape, body, "lp_norm")


@lp_norm.numpy
def _(x: Array, *, axis: int, p: int) -> Array:
    """x over its norm; 0 where that is 0."""
    w = widened(x)
    norm = np.sum(np.abs(w) ** p, axis=axis, keepdims=True) ** (1 / p)
    return np.where(norm == 0, 0, w / np.where(norm == 0, 1, norm)).astype(x.dtype)
