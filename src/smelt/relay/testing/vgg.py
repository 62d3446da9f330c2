"""VGG (Simonyan and Zisserman 2014): small convolutions one after the other."""

from __future__ import annotations

from typing import Any

from smelt.relax.nodes import Function, RelaxExpr

from .. import op
from ..expr import var
from .layers import batch_norm_infer, chosen, conv2d, dense_add_bias, network, variable
from .workload import Workload, create_workload

# layers: convolutions of each stage
DEPTHS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def get_net(
    batch_size: int = 1, image_shape: Any = (3, 224, 224), num_classes: int = 1000,
    dtype: str = "float32", num_layers: int = 11, batch_norm: bool = False, hidden: int = 4096,
) -> Function:  # fmt: skip
    """hidden: units of the two dense layers."""
    stages = chosen("vgg", "num_layers", num_layers, DEPTHS)
    x: RelaxExpr = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    for stage, count in enumerate(stages):
        channels = min(64 << stage, 512)
        for n in range(count):
            name = f"conv{stage + 1}_{n + 1}"
            x = conv2d(x, name, channels, 3, 1, 1)
            x = op.nn.bias_add(x, variable(f"{name}_bias", channels, like=x))
            x = op.nn.relu(batch_norm_infer(x, f"{name}_bn") if batch_norm else x)
        x = op.nn.max_pool2d(x, (2, 2), (2, 2))
    x = op.nn.batch_flatten(x)
    for n in (6, 7):
        x = op.nn.dropout(op.nn.relu(dense_add_bias(x, f"fc{n}", hidden)), 0.5)
    return network(op.nn.softmax(dense_add_bias(x, "fc8", num_classes)))


def get_workload(
    batch_size: int = 1, num_classes: int = 1000, image_shape: Any = (3, 224, 224),
    dtype: str = "float32", num_layers: int = 11, batch_norm: bool = False, hidden: int = 4096,
) -> Workload:  # fmt: skip
    """The network with weights."""
    return create_workload(
        get_net(batch_size, image_shape, num_classes, dtype, num_layers, batch_norm, hidden)
    )
