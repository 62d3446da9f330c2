"""Converters of normalisations."""

from __future__ import annotations

from typing import NamedTuple

from smelt.frontend.common import Build, Value, moves
from smelt.frontend.common.converter import operand_group
from smelt.frontend.common.moves import as_type
from smelt.frontend.common.values import static
from smelt.ir import dtype as dt

from .ops_cast import element_type
from .ops_nn import per_channel
from .registry import Ints, onnx_op, same


def _stashed(g: Build, x: Value, stash_type: int) -> tuple[Value, str]:
    """The operand in the type in which its statistics are computed, and the name of that type."""
    stash = element_type(g, stash_type, "stash_type")
    if not dt.is_float(stash):
        g.malformed(f"stash_type={stash_type} ({stash}) is no floating-point type")
    return (as_type(g, x, stash) if dt.bits(stash) > dt.bits(x.dtype) else x), stash


@onnx_op("LayerNormalization", since=17)
def layer_norm(
    g: Build, x: Value, scale: Value, bias: Value | None = None, *, axis: int = -1,
    epsilon: float = 1e-5, stash_type: int = 1,
) -> tuple[Value, ...]:  # fmt: skip
    """Over the dimensions from the axis on; mean and 1 / deviation are results too."""
    place = g.axis(axis, x.rank)
    data, stash = _stashed(g, x, stash_type)
    tails = [_tail(g, v, data, place) for v in (scale, bias)]
    y = as_type(g, g.call("layer_norm", data, *tails, axis=place, epsilon=epsilon), x.dtype)
    if not any(g.step.outputs[1:]):
        return (y,)
    axes = tuple(range(place, x.rank))
    mean, _, var = _moments(g, data, axes)
    inverse = g.call("rsqrt", g.call("add", var, epsilon))
    return y, as_type(g, mean, stash), as_type(g, inverse, stash)


def _moments(g: Build, x: Value, axes: Ints) -> tuple[Value, Value, Value]:
    """Means along axes, differences from them, and variances."""
    mean = g.call("mean", x, axes=axes, keepdims=True)
    centred = g.call("subtract", x, mean)
    squares = g.call("multiply", centred, centred)
    return mean, centred, g.call("mean", squares, axes=axes, keepdims=True)


def _tail(g: Build, v: Value | None, x: Value, axis: int) -> Value | None:
    """An operand over the dimensions of an image from an axis on, of the image's type."""
    if v is None:
        return None
    tail = x.shape[axis:]
    return as_type(g, v if v.shape == tail else moves.broadcast_to(g, v, tail), x.dtype)


@onnx_op("RMSNormalization", since=23)
def rms_norm(
    g: Build, x: Value, scale: Value, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Value:
    """Layer normalisation without the mean."""
    place = g.axis(axis, x.rank)
    data, _ = _stashed(g, x, stash_type)
    y = g.call("rms_norm", data, _tail(g, scale, data, place), axis=place, epsilon=epsilon)
    return as_type(g, y, x.dtype)


same("InstanceNormalization", "x scale bias", core="instance_norm", epsilon=1e-5)


@onnx_op("GroupNormalization", since=18)
def group_norm_18(
    g: Build, x: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5, num_groups: int
) -> Value:
    """Scale and bias per group."""
    vectors = [_per_channel(g, v, x, num_groups) for v in (scale, bias)]
    return g.call("group_norm", x, *vectors, groups=num_groups, epsilon=epsilon)


def _per_channel(g: Build, v: Value, x: Value, groups: int) -> Value:
    """A vector over the groups as one over the channels."""
    channels = x.shape[1]
    if not static((channels,)) or not isinstance(channels, int) or channels % groups:
        g.malformed(f"num_groups={groups} of {channels} channels")
    wide = moves.broadcast_to(g, moves.expand_dims(g, v, (1,)), (groups, channels // groups))
    return moves.reshape(g, wide, (channels,))


@onnx_op("GroupNormalization", since=21)
def group_norm(
    g: Build, x: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5, num_groups: int,
    stash_type: int = 1,
) -> Value:  # fmt: skip
    """Scale and bias per channel."""
    data, _ = _stashed(g, x, stash_type)
    vectors = [as_type(g, v, data.dtype) for v in (scale, bias)]
    y = g.call("group_norm", data, *vectors, groups=num_groups, epsilon=epsilon)
    return as_type(g, y, x.dtype)


same("LRN", "x", required="size", alpha=1e-4, beta=0.75, bias=1.0)
same("LpNormalization", "x", core="lp_norm", along="axis", legal={"p": (1, 2)}, axis=-1, p=2)


@onnx_op("MeanVarianceNormalization", since=9)
def mean_variance(g: Build, x: Value, *, axes: Ints = (0, 2, 3)) -> Value:
    """(x - mean) / (standard deviation + 1e-9)."""
    places = tuple(sorted(g.axes(axes, x.rank)))
    _, centred, var = _moments(g, x, places)
    return g.call("divide", centred, g.call("add", g.call("sqrt", var), 1e-9))


@operand_group("scale", "bias", "mean", "var")
class Affine(NamedTuple):
    """What an image is normalised by, a vector of the channels each."""

    scale: Value
    bias: Value
    mean: Value
    var: Value


def _given(g: Build, x: Value, by: Affine, epsilon: float) -> Value:
    """With given statistics; narrower images are widened to the type of these."""
    wide = by.mean.dtype
    operands = [as_type(g, v, wide) for v in (x, *by)]
    return as_type(g, g.call("batch_norm", *operands, epsilon=epsilon), x.dtype)


def _trained(g: Build, x: Value, by: Affine, epsilon: float) -> tuple[Value, Value, Value]:
    """With the batch's own statistics: result, mean and variance of each channel.

    The sums are in the type of the running statistics.
    """
    axes = (0, *range(2, x.rank))
    data = as_type(g, x, by.mean.dtype)
    mean = g.call("mean", data, axes=axes, keepdims=False)
    centred = g.call("subtract", data, per_channel(g, mean, x.rank))
    var = g.call("mean", g.call("multiply", centred, centred), axes=axes, keepdims=False)
    return _given(g, x, by._replace(mean=mean, var=var), epsilon), mean, var


def _running(g: Build, old: Value, new: Value, momentum: float) -> Value:
    """old momentum + new (1 - momentum)."""
    kept = g.call("multiply", old, momentum)
    return g.call("add", kept, g.call("multiply", new, 1 - momentum))


def _per_activation(g: Build, x: Value, by: Affine, epsilon: float) -> Value:
    """spatial=0: the statistics have the shape of an image."""
    spread = g.call("sqrt", g.call("add", by.var, epsilon))
    y = g.call("multiply", g.call("subtract", x, by.mean), g.call("divide", by.scale, spread))
    return g.call("add", y, by.bias)


def _classic(
    g: Build, x: Value, by: Affine, epsilon: float, momentum: float, spatial: int, training: bool
) -> tuple[Value, ...]:
    """In training the running statistics are results too; before opset 14, then the batch's."""
    if not spatial:
        if training:
            g.unsupported("training with spatial=0", "training with spatial=1, inference")
        return (_per_activation(g, x, by, epsilon),)
    if not training:
        return (_given(g, x, by, epsilon),)
    y, now, spread = _trained(g, x, by, epsilon)
    running = [_running(g, a, b, momentum) for a, b in ((by.mean, now), (by.var, spread))]
    return y, *running, now, spread


@onnx_op("BatchNormalization")
def batch_norm(
    g: Build, x: Value, by: Affine, *, epsilon: float = 1e-5, is_test: int = 0,
    momentum: float = 0.9, spatial: int = 1,
) -> tuple[Value, ...]:  # fmt: skip
    """Training unless is_test=1."""
    return _classic(g, x, by, epsilon, momentum, spatial, not is_test)


@onnx_op("BatchNormalization", since=7)
def batch_norm_7(
    g: Build, x: Value, by: Affine, *, epsilon: float = 1e-5, momentum: float = 0.9,
    spatial: int = 1,
) -> tuple[Value, ...]:  # fmt: skip
    """Training where the node has more than one result."""
    return _classic(g, x, by, epsilon, momentum, spatial, any(g.step.outputs[1:]))


@onnx_op("BatchNormalization", since=14)
def batch_norm_14(
    g: Build, x: Value, by: Affine, *, epsilon: float = 1e-5, momentum: float = 0.9,
    training_mode: int = 0,
) -> tuple[Value, ...]:  # fmt: skip
    """In training the running statistics are results too."""
    if training_mode and not dt.is_float(x.dtype):
        g.malformed(f"an image of {x.dtype}")
    return _classic(g, x, by, epsilon, momentum, 1, bool(training_mode))[:3]
