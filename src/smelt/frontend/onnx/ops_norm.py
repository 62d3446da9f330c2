"""Converters of normalisations."""

from __future__ import annotations

import numpy as np

from smelt.ir import dtype as dt

from . import moves
from .build import Build
from .registry import Ints, onnx_op
from .values import Value, static

__all__: list[str] = []


@onnx_op("LayerNormalization", since=17)
def layer_norm(
    g: Build,
    x: Value,
    scale: Value,
    bias: Value | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Value:
    """Over the dimensions from the axis on."""
    g.one_of("stash_type", stash_type, (1,))
    place = g.axis(axis, x.rank)
    return g.call(
        "layer_norm",
        x,
        _tail(g, scale, x, place),
        None if bias is None else _tail(g, bias, x, place),
        axis=place,
        epsilon=epsilon,
    )


def _tail(g: Build, v: Value, x: Value, axis: int) -> Value:
    """A scale with exactly the dimensions that are normalised."""
    return v if v.shape == x.shape[axis:] else moves.broadcast_to(g, v, x.shape[axis:])


@onnx_op("RMSNormalization", since=23)
def rms_norm(
    g: Build, x: Value, scale: Value, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Value:
    """Layer normalisation without the mean."""
    g.one_of("stash_type", stash_type, (1,))
    place = g.axis(axis, x.rank)
    return g.call("rms_norm", x, _tail(g, scale, x, place), axis=place, epsilon=epsilon)


@onnx_op("InstanceNormalization", since=6)
def instance_norm(g: Build, x: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5) -> Value:
    """Over the pixels of each channel of each image."""
    return g.call("instance_norm", x, scale, bias, epsilon=epsilon)


@onnx_op("GroupNormalization", since=18)
def group_norm_18(
    g: Build, x: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5, num_groups: int
) -> Value:
    """Scale and bias per group."""
    return g.call(
        "group_norm",
        x,
        _per_channel(g, scale, x, num_groups),
        _per_channel(g, bias, x, num_groups),
        groups=num_groups,
        epsilon=epsilon,
    )


def _per_channel(g: Build, v: Value, x: Value, groups: int) -> Value:
    """A vector over the groups as one over the channels."""
    channels = x.shape[1]
    if not static((channels,)) or not isinstance(channels, int) or channels % groups:
        g.malformed(f"num_groups={groups} of {channels} channels")
    wide = moves.broadcast_to(g, moves.expand_dims(g, v, (1,)), (groups, channels // groups))
    return moves.reshape(g, wide, (channels,))


@onnx_op("GroupNormalization", since=21)
def group_norm(
    g: Build,
    x: Value,
    scale: Value,
    bias: Value,
    *,
    epsilon: float = 1e-5,
    num_groups: int,
    stash_type: int = 1,
) -> Value:
    """Scale and bias per channel."""
    g.one_of("stash_type", stash_type, (1,))
    return g.call("group_norm", x, scale, bias, groups=num_groups, epsilon=epsilon)


@onnx_op("LRN")
def lrn(
    g: Build, x: Value, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int
) -> Value:
    """Local response normalisation across channels."""
    return g.call("lrn", x, size=size, alpha=alpha, beta=beta, bias=bias)


@onnx_op("LpNormalization")
def lp_norm(g: Build, x: Value, *, axis: int = -1, p: int = 2) -> Value:
    """Division by the norm along an axis."""
    g.one_of("p", p, (1, 2))
    return g.call("lp_norm", x, axis=g.axis(axis, x.rank), p=p)


@onnx_op("MeanVarianceNormalization", since=9)
def mean_variance(g: Build, x: Value, *, axes: Ints = (0, 2, 3)) -> Value:
    """(x - mean) / (standard deviation + 1e-9)."""
    places = tuple(sorted(g.axes(axes, x.rank)))
    centred = g.call("subtract", x, g.call("mean", x, axes=places, keepdims=True))
    spread = g.call(
        "sqrt", g.call("mean", g.call("multiply", centred, centred), axes=places, keepdims=True)
    )
    small = Value.of_array(np.array(1e-9, dt.to_numpy(x.dtype)))
    return g.call("divide", centred, g.call("add", spread, small))
