"""SqueezeNet (Iandola and others 2016): narrow convolutions, then two wide ones side by side."""

from __future__ import annotations

from typing import Any

from smelt.relax.nodes import Function, RelaxExpr

from .. import op
from ..expr import var
from .layers import chosen, conv2d, network, variable
from .workload import workload_of

# version: (channels, kernel of the first convolution, blocks in front of which pooling stands)
VERSIONS = {"1.0": (96, 7, (0, 3, 7)), "1.1": (64, 3, (0, 2, 4))}
SQUEEZE = (16, 16, 32, 32, 48, 48, 64, 64)


def biased(x: RelaxExpr, name: str, channels: int, *given: Any) -> RelaxExpr:
    """A convolution with a bias, and relu."""
    y = conv2d(x, name, channels, *given)
    return op.nn.relu(op.nn.bias_add(y, variable(f"{name}_bias", channels, like=x)))  # type: ignore[no-any-return]


def get_net(
    batch_size: int = 1, num_classes: int = 1000, version: str = "1.0",
    image_shape: Any = (3, 224, 224), dtype: str = "float32",
) -> Function:  # fmt: skip
    """The network."""
    channels, kernel, pooled = chosen("squeezenet", "version", version, VERSIONS)
    x: RelaxExpr = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    x = biased(x, "conv1", channels, kernel, 2)
    for n, narrow in enumerate(SQUEEZE):
        if n in pooled:
            x = op.nn.max_pool2d(x, (3, 3), (2, 2))
        x = biased(x, f"fire{n + 2}_squeeze", narrow, 1)
        left = biased(x, f"fire{n + 2}_expand1", 4 * narrow, 1)
        right = biased(x, f"fire{n + 2}_expand3", 4 * narrow, 3, 1, 1)
        x = op.concatenate([left, right], axis=1)
    x = biased(op.nn.dropout(x, 0.5), "conv10", num_classes, 1)
    return network(op.nn.softmax(op.nn.batch_flatten(op.nn.global_avg_pool2d(x))))


get_workload = workload_of(get_net)
