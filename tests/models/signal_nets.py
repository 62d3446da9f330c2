"""Networks for sound and video: convolutions in one and in three dimensions."""

from __future__ import annotations

import numpy as np
import onnx

from tests.models.image_nets import Sizes
from tests.models.net import Dim, Net
from tests.models.transformers import attend, gelu, heads


def wavenet(
    batch: Dim,
    samples: Dim = 64,
    width: int = 8,
    stacks: int = 1,
    layers: int = 4,
    classes: int = 16,
) -> onnx.ModelProto:
    """van den Oord et al. 2016: causal, ever more dilated, gated; the skips are added up."""
    net = Net(40)
    x = net.conv(net.input("x", [batch, 1, samples]), (1, width), (2,), pads=[1, 0])
    total = ""
    for layer in range(stacks * layers):
        d = 2 ** (layer % layers)
        wide = net.conv(x, (width, 2 * width), (2,), dilation=d, pads=[d, 0])
        a, b = net.ops("Split", 2, wide, net.ints(width, width), axis=1)
        y = net.op("Mul", net.op("Tanh", a), net.op("Sigmoid", b))
        skip = net.conv(y, (width, width), (1,))
        total = net.op("Add", total, skip) if total else skip
        x = net.op("Add", x, net.conv(y, (width, width), (1,)))
    y = net.op("Relu", net.conv(net.op("Relu", total), (width, width), (1,)))
    return net.model(net.conv(y, (width, classes), (1,)))


def audio(
    batch: Dim, samples: int = 1000, width: int = 8, blocks: int = 3, classes: int = 10
) -> onnx.ModelProto:
    """Dai et al. 2017: words from the waveform; the first filter is long, pooling by 4."""
    net = Net(41)
    x = net.input("x", [batch, 1, samples])
    x, i = net.op("Relu", net.conv_norm(x, (1, width), (80,), 4, pads=[38, 38])), width
    for block in range(blocks):
        x = net.op("MaxPool", x, kernel_shape=[4], strides=[4])
        o = width * 2 ** (block // 2 + block % 2)
        x, i = net.op("Relu", net.conv_norm(x, (i, o), (3,))), o
    return net.model(net.op("LogSoftmax", net.head(x, i, classes), axis=-1))


def r3d(
    batch: Dim,
    frames: int = 4,
    image: int = 20,
    width: int = 6,
    depths: tuple[int, ...] = (1, 1),
    classes: int = 10,
) -> onnx.ModelProto:
    """Tran et al. 2018: a ResNet whose filters reach over frames too."""
    net = Net(42)
    x = net.input("x", [batch, 3, frames, image, image])
    x, i = net.op("Relu", net.conv_norm(x, (3, width), (3, 7, 7), (1, 2, 2))), width
    for stage, depth in enumerate(depths):
        o = width * 2**stage
        for index in range(depth):
            stride = 2 if stage and not index else 1
            y = net.op("Relu", net.conv_norm(x, (i, o), (3, 3, 3), stride))
            y = net.conv_norm(y, (o, o), (3, 3, 3), square=8.0)
            if (stride, i) != (1, o):
                x = net.conv_norm(x, (i, o), (1, 1, 1), stride)
            x, i = net.op("Relu", net.op("Add", x, y)), o
    return net.model(net.head(x, i, classes))


def whisper(
    batch: Dim, frames: int = 24, mels: int = 10, width: int = 24, layers: int = 2, count: int = 3
) -> onnx.ModelProto:
    """Radford et al. 2022, the encoder: two convolutions in time, then a transformer."""
    net = Net(43)
    x = gelu(net, net.conv(net.input("mel", [batch, mels, frames]), (mels, width), (3,)))
    x = gelu(net, net.conv(x, (width, width), (3,), 2))
    x = net.op("Add", net.permute(x, 0, 2, 1), net.normal((frames // 2, width), 0.3))
    depth = width // count
    for _ in range(layers):
        y = net.layer_norm(x, width)
        q = heads(net, net.dense(y, (width, width)), count, depth)
        k = heads(net, net.op("MatMul", y, net.he((width, width), width, 1)), count, depth)
        v = heads(net, net.dense(y, (width, width)), count, depth)
        y = attend(net, q, k, v, None, width, float(np.sqrt(depth)))
        x = net.op("Add", x, net.dense(y, (width, width)))
        y = gelu(net, net.dense(net.layer_norm(x, width), (width, 4 * width)))
        x = net.op("Add", x, net.dense(y, (4 * width, width)))
    return net.model(net.layer_norm(x, width))


FULL: dict[str, Sizes] = {
    "wavenet": {"samples": 4096, "width": 64, "stacks": 2, "layers": 10, "classes": 256},
    "audio": {"samples": 16000, "width": 128, "blocks": 4, "classes": 35},
    "r3d": {"frames": 8, "image": 112, "width": 64, "depths": (2, 2, 2, 2), "classes": 400},
    "whisper": {"frames": 3000, "mels": 80, "width": 384, "layers": 4, "count": 6},
}
