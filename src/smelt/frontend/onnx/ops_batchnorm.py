"""Converters of batch normalisation: with given statistics, and with those of the batch."""

from __future__ import annotations

from smelt.ir import dtype as dt

from .build import Build
from .ops_cast import as_type
from .ops_nn import per_channel
from .registry import Ints, onnx_op
from .values import Value

__all__: list[str] = []


def _given(
    g: Build, x: Value, scale: Value, bias: Value, mean: Value, var: Value, epsilon: float
) -> Value:
    """With given statistics; narrower images are widened to the type of these."""
    wide = mean.dtype
    y = g.call(
        "batch_norm",
        as_type(g, x, wide),
        *[as_type(g, v, wide) for v in (scale, bias, mean, var)],
        epsilon=epsilon,
    )
    return as_type(g, y, x.dtype)


def _trained(
    g: Build, x: Value, scale: Value, bias: Value, statistics: tuple[Value, Value], epsilon: float
) -> tuple[Value, Value, Value]:
    """With the batch's own statistics: result, mean and variance of each channel.

    The sums are in the type of the running statistics.
    """
    wide = statistics[0].dtype
    axes = (0, *range(2, x.rank))
    data = as_type(g, x, wide)
    mean = g.call("mean", data, axes=axes, keepdims=False)
    centred = g.call("subtract", data, per_channel(g, mean, x.rank))
    var = g.call("mean", g.call("multiply", centred, centred), axes=axes, keepdims=False)
    return _given(g, x, scale, bias, mean, var, epsilon), mean, var


def _running(g: Build, old: Value, new: Value, momentum: float) -> Value:
    """old momentum + new (1 - momentum)."""
    kept = g.call("multiply", old, g.constant(momentum, old.dtype))
    return g.call("add", kept, g.call("multiply", new, g.constant(1 - momentum, old.dtype)))


def _per_activation(
    g: Build, x: Value, scale: Value, bias: Value, mean: Value, var: Value, epsilon: float
) -> Value:
    """spatial=0: the statistics have the shape of an image."""
    spread = g.call("sqrt", g.call("add", var, g.constant(epsilon, x.dtype)))
    y = g.call("multiply", g.call("subtract", x, mean), g.call("divide", scale, spread))
    return g.call("add", y, bias)


def _classic(
    g: Build,
    operands: tuple[Value, Value, Value, Value, Value],
    epsilon: float,
    momentum: float,
    spatial: int,
    training: bool,
) -> tuple[Value, ...]:
    """Before opset 14: statistics of the batch, and they are results too, in training."""
    x, scale, bias, mean, var = operands
    if not spatial:
        if training:
            g.unsupported("training with spatial=0", "training with spatial=1, inference")
        return (_per_activation(g, x, scale, bias, mean, var, epsilon),)
    if not training:
        return (_given(g, x, scale, bias, mean, var, epsilon),)
    y, now, spread = _trained(g, x, scale, bias, (mean, var), epsilon)
    running = [_running(g, a, b, momentum) for a, b in ((mean, now), (var, spread))]
    return y, *running, now, spread


@onnx_op("BatchNormalization")
def batch_norm(
    g: Build,
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    var: Value,
    *,
    consumed_inputs: Ints = (),
    epsilon: float = 1e-5,
    is_test: int = 0,
    momentum: float = 0.9,
    spatial: int = 1,
) -> tuple[Value, ...]:
    """Training unless is_test=1."""
    operands = (x, scale, bias, mean, var)
    return _classic(g, operands, epsilon, momentum, spatial, not is_test)


@onnx_op("BatchNormalization", since=7)
def batch_norm_7(
    g: Build,
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    var: Value,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
) -> tuple[Value, ...]:
    """Training where the node has more than one result."""
    training = any(g.step.outputs[1:])
    return _classic(g, (x, scale, bias, mean, var), epsilon, momentum, spatial, training)


@onnx_op("BatchNormalization", since=14)
def batch_norm_14(
    g: Build,
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    var: Value,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> tuple[Value, ...]:
    """In training the running statistics are results too."""
    if not training_mode:
        return (_given(g, x, scale, bias, mean, var, epsilon),)
    if not dt.is_float(x.dtype):
        g.malformed(f"an image of {x.dtype}")
    y, now, spread = _trained(g, x, scale, bias, (mean, var), epsilon)
    return y, _running(g, mean, now, momentum), _running(g, var, spread, momentum)
