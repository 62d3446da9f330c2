"""A small network with many kinds of operators, for tests."""

from __future__ import annotations

from typing import Any

from smelt.relax.nodes import Function, RelaxExpr

from .. import op
from ..expr import var
from .layers import classifier, conv_block, dense_add_bias, network
from .workload import workload_of


def get_net(
    input_shape: Any = (1, 3, 24, 12), num_classes: int = 10, dtype: str = "float32"
) -> Function:
    """Images of even height and width."""
    x: RelaxExpr = var("data", shape=tuple(input_shape), dtype=dtype)
    x = conv_block(x, "first", 8, 3, 1, 1)
    left, right = op.split(x, 2, axis=1)
    x = op.concatenate([op.sigmoid(left), op.nn.leaky_relu(right, 0.1)], axis=1)
    x = op.nn.max_pool2d(x, (2, 2), (2, 2))
    x = op.add(x, op.mean(x, axis=[2, 3], keepdims=True))
    x = op.transpose(x, (0, 2, 3, 1))
    x = op.nn.relu(dense_add_bias(x, "mix", 6))
    return network(classifier(op.clip(x, 0.0, 6.0), "fc", num_classes))


get_workload = workload_of(get_net)
