"""Residual networks (He, Zhang, Ren and Sun 2015)."""

from __future__ import annotations

from typing import Any

from smelt.relax.nodes import Function, RelaxExpr

from .. import op
from ..expr import var
from .layers import batch_norm_infer, chosen, classifier, conv2d, conv_block, extent, network
from .workload import workload_of

# layers: (blocks of each stage, whether a block is a bottleneck)
DEPTHS = {
    18: ((2, 2, 2, 2), False), 34: ((3, 4, 6, 3), False), 50: ((3, 4, 6, 3), True),
    101: ((3, 4, 23, 3), True), 152: ((3, 8, 36, 3), True),
}  # fmt: skip


def residual(
    x: RelaxExpr, name: str, channels: int, stride: int, bottleneck: bool, layout: str
) -> RelaxExpr:
    """One block: convolutions beside a shortcut."""
    at = layout.index("C")
    if bottleneck:
        y = conv_block(x, f"{name}_1", channels // 4, 1, 1, 0, layout=layout)
        y = conv_block(y, f"{name}_2", channels // 4, 3, stride, 1, layout=layout)
        y = conv2d(y, f"{name}_3_conv", channels, 1, layout=layout)
    else:
        y = conv_block(x, f"{name}_1", channels, 3, stride, 1, layout=layout)
        y = conv2d(y, f"{name}_3_conv", channels, 3, 1, 1, layout=layout)
    y = batch_norm_infer(y, f"{name}_3_bn", at)
    if stride != 1 or extent(x, at) != channels:
        x = conv2d(x, f"{name}_sc_conv", channels, 1, stride, layout=layout)
        x = batch_norm_infer(x, f"{name}_sc_bn", at)
    return op.nn.relu(op.add(y, x))  # type: ignore[no-any-return]


def get_net(
    batch_size: int = 1, num_classes: int = 1000, num_layers: int = 18,
    image_shape: Any = (3, 224, 224), layout: str = "NCHW", dtype: str = "float32",
) -> Function:  # fmt: skip
    """The network; images lower than 33 pixels are not made smaller before the blocks."""
    blocks, bottleneck = chosen("resnet", "num_layers", num_layers, DEPTHS)
    x: RelaxExpr = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    if extent(x, layout.index("H")) <= 32:
        x = conv_block(x, "stem", 64, 3, 1, 1, layout=layout)
    else:
        x = conv_block(x, "stem", 64, 7, 2, 3, layout=layout)
        x = op.nn.max_pool2d(x, (3, 3), (2, 2), padding=(1, 1), layout=layout)
    for stage, count in enumerate(blocks):
        channels = (256 if bottleneck else 64) << stage
        for n in range(count):
            stride = 2 if stage and not n else 1
            x = residual(x, f"stage{stage + 1}_unit{n + 1}", channels, stride, bottleneck, layout)
    return network(classifier(op.nn.global_avg_pool2d(x, layout=layout), "fc1", num_classes))


get_workload = workload_of(get_net)
