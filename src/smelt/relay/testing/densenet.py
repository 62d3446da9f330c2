"""DenseNet (Huang, Liu, van der Maaten and Weinberger 2016): each layer sees all before it."""

from __future__ import annotations

from typing import Any

from smelt.relax.nodes import Function, RelaxExpr

from .. import op
from ..expr import var
from .layers import batch_norm_infer, chosen, classifier, conv2d, conv_block, extent, network
from .workload import workload_of

# layers: (first channels, channels that each layer adds, layers of each block)
SIZES = {
    121: (64, 32, (6, 12, 24, 16)), 161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)), 201: (64, 32, (6, 12, 48, 32)),
}  # fmt: skip


def activated(x: RelaxExpr, name: str) -> RelaxExpr:
    """Normalised, without what is negative."""
    return op.nn.relu(batch_norm_infer(x, name))  # type: ignore[no-any-return]


def get_net(
    densenet_size: int = 121, classes: int = 1000, batch_size: int = 4,
    image_shape: Any = (3, 224, 224), dtype: str = "float32",
) -> Function:  # fmt: skip
    """The network."""
    first, growth, blocks = chosen("densenet", "densenet_size", densenet_size, SIZES)
    x: RelaxExpr = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    x = conv_block(x, "stem", first, 7, 2, 3)
    x = op.nn.max_pool2d(x, (3, 3), (2, 2), padding=(1, 1))
    for b, count in enumerate(blocks):
        for n in range(count):
            name = f"block{b + 1}_layer{n + 1}"
            y = conv2d(activated(x, f"{name}_bn1"), f"{name}_conv1", 4 * growth, 1)
            y = conv2d(activated(y, f"{name}_bn2"), f"{name}_conv2", growth, 3, 1, 1)
            x = op.concatenate([x, y], axis=1)
        if b < len(blocks) - 1:
            name = f"transition{b + 1}"
            x = conv2d(activated(x, f"{name}_bn"), f"{name}_conv", extent(x, 1) // 2, 1)
            x = op.nn.avg_pool2d(x, (2, 2), (2, 2))
    x = op.nn.global_avg_pool2d(activated(x, "last_bn"))
    return network(classifier(x, "fc", classes))


get_workload = workload_of(get_net)
