"""A perceptron of three layers."""

from __future__ import annotations

from typing import Any

from smelt.relax.nodes import Function

from .. import op
from ..expr import var
from .layers import dense_add_bias, network
from .workload import workload_of


def get_net(
    batch_size: int = 1, num_classes: int = 10, image_shape: Any = (1, 28, 28),
    dtype: str = "float32",
) -> Function:  # fmt: skip
    """Two hidden layers of 128 and 64."""
    x = op.nn.batch_flatten(var("data", shape=(batch_size, *image_shape), dtype=dtype))
    x = op.nn.relu(dense_add_bias(x, "fc1", 128))
    x = op.nn.relu(dense_add_bias(x, "fc2", 64))
    return network(op.nn.softmax(dense_add_bias(x, "fc3", num_classes)))


get_workload = workload_of(get_net)
