"""Converters of batch normalisation: with given statistics, and with those of the batch."""

from __future__ import annotations

from typing import NamedTuple

from smelt.frontend.common import Build, Value
from smelt.frontend.common.moves import as_type
from smelt.ir import dtype as dt

from .ops_nn import per_channel
from .registry import onnx_op, operand_group


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
    """Before opset 14: statistics of the batch, and they are results too, in training."""
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
    g: Build,
    x: Value,
    by: Affine,
    *,
    epsilon: float = 1e-5,
    is_test: int = 0,
    momentum: float = 0.9,
    spatial: int = 1,
) -> tuple[Value, ...]:
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
    if not training_mode:
        return (_given(g, x, by, epsilon),)
    if not dt.is_float(x.dtype):
        g.malformed(f"an image of {x.dtype}")
    y, now, spread = _trained(g, x, by, epsilon)
    return y, _running(g, by.mean, now, momentum), _running(g, by.var, spread, momentum)
