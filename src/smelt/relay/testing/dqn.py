"""The network that learned to play (Mnih and others 2015)."""

from __future__ import annotations

from typing import Any

from smelt.relax.nodes import Function, RelaxExpr

from .. import op
from ..expr import var
from .layers import conv2d, dense_add_bias, network, variable
from .workload import workload_of


def get_net(
    batch_size: int = 1, num_actions: int = 18, image_shape: Any = (4, 84, 84),
    dtype: str = "float32",
) -> Function:  # fmt: skip
    """Three convolutions, two dense layers."""
    x: RelaxExpr = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    for n, (channels, kernel, stride) in enumerate(((32, 8, 4), (64, 4, 2), (64, 3, 1))):
        x = conv2d(x, f"conv{n + 1}", channels, kernel, stride)
        x = op.nn.relu(op.nn.bias_add(x, variable(f"conv{n + 1}_bias", channels, like=x)))
    x = op.nn.relu(dense_add_bias(op.nn.batch_flatten(x), "dense1", 512))
    return network(dense_add_bias(x, "dense2", num_actions))


get_workload = workload_of(get_net)
