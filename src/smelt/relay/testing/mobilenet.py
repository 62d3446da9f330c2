"""MobileNet (Howard and others 2017): depthwise convolutions, then ones of one pixel."""

from __future__ import annotations

from typing import Any

from smelt.relax.nodes import Function, RelaxExpr

from .. import op
from ..expr import var
from .layers import classifier, conv_block, extent, network
from .workload import workload_of

# channels and stride of each pair of convolutions
PAIRS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2),
         (1024, 1))  # fmt: skip


def get_net(
    batch_size: int = 1, num_classes: int = 1000, image_shape: Any = (3, 224, 224),
    dtype: str = "float32", alpha: float = 1.0,
) -> Function:  # fmt: skip
    """alpha: a factor of all channels."""
    x: RelaxExpr = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    x = conv_block(x, "stem", int(32 * alpha), 3, 2, 1)
    for n, (channels, stride) in enumerate(PAIRS):
        have = extent(x, 1)
        x = conv_block(x, f"depthwise{n + 1}", have, 3, stride, 1, groups=have)
        x = conv_block(x, f"pointwise{n + 1}", int(channels * alpha), 1)
    return network(classifier(op.nn.global_avg_pool2d(x), "fc", num_classes))


get_workload = workload_of(get_net)
