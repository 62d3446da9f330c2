"""Small convolutional networks, each with what its large original is known for."""

from __future__ import annotations

import onnx

from smelt.cli.resnet import resnet18
from tests.models.net import Dim, Net


def resnet18_small(batch: Dim) -> onnx.ModelProto:
    return resnet18(batch=batch, image=40, width=16, classes=10)


def bottleneck(batch: Dim) -> onnx.ModelProto:
    """He et al. 2015, the blocks of ResNet-50: the stride stands at the 3x3 convolution."""
    net = Net()
    x = net.op("Relu", net.conv_norm(net.input("x", [batch, 3, 26, 26]), (3, 16), 7, 2))
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    i = 16
    for width, stride in ((8, 1), (8, 1), (16, 2)):
        y = net.op("Relu", net.conv_norm(x, (i, width), 1))
        y = net.op("Relu", net.conv_norm(y, (width, width), 3, stride))
        y = net.conv_norm(y, (width, 4 * width), 1)
        if i != 4 * width:
            x = net.conv_norm(x, (i, 4 * width), 1, stride)
        x, i = net.op("Relu", net.op("Add", y, x)), 4 * width
    return net.model(net.head(x, i, 10))


def mobilenet(batch: Dim) -> onnx.ModelProto:
    """Sandler et al. 2018: inverted residuals, depthwise, ReLU6 by Clip."""
    net = Net(1)

    def relu6(x: str) -> str:
        return net.op("Clip", x, net.const(0.0), net.const(6.0))

    x = relu6(net.conv_norm(net.input("x", [batch, 3, 33, 33]), (3, 8), 3, 2))
    i = 8
    for o, stride in ((12, 1), (12, 1), (20, 2), (20, 1)):
        wide = 6 * i
        y = relu6(net.conv_norm(x, (i, wide), 1))
        y = relu6(net.conv_norm(y, (wide, wide), 3, stride, groups=wide))
        y = net.conv_norm(y, (wide, o), 1)
        x, i = (net.op("Add", x, y) if (stride, i) == (1, o) else y), o
    return net.model(net.head(relu6(net.conv_norm(x, (i, 48), 1)), 48, 11))


def squeezenet(batch: Dim) -> onnx.ModelProto:
    """Iandola et al. 2016: fire modules, pooling that rounds up, classes by a convolution."""
    net = Net(2)

    def conv(x: str, i: int, o: int, side: int, stride: int = 1, pad: int = 0) -> str:
        return net.op("Relu", net.conv(x, (i, o), side, stride, pads=[pad] * 4))

    x, i = conv(net.input("x", [batch, 3, 37, 37]), 3, 16, 3, 2), 16
    for index, squeeze in enumerate((4, 4, 8)):
        if index != 1:
            x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
        s, o = conv(x, i, squeeze, 1), 4 * squeeze
        branches = [conv(s, squeeze, o, 1), conv(s, squeeze, o, 3, 1, 1)]
        x, i = net.op("Concat", *branches, axis=1), 2 * o
    x = net.op("Dropout", x)
    x = net.op("GlobalAveragePool", conv(x, i, 13, 1))
    return net.model(net.op("Flatten", x, axis=1))


def dscnn(batch: Dim) -> onnx.ModelProto:
    """MLPerf Tiny keyword spotting: a tall first kernel, pads that differ from side to side."""
    net = Net(3)
    x = net.conv_norm(net.input("x", [batch, 1, 49, 10]), (1, 24), 1, pads=[0] * 4)
    x = net.op("Relu", net.conv(x, (24, 24), (10, 4), 2, pads=[4, 1, 5, 1]))
    for _ in range(2):
        x = net.op("Relu", net.conv_norm(x, (24, 24), 3, groups=24))
        x = net.op("Relu", net.conv_norm(x, (24, 24), 1))
    x = net.op("AveragePool", x, kernel_shape=[25, 5])
    return net.model(net.op("Softmax", net.gemm(net.op("Flatten", x, axis=1), (24, 12)), axis=-1))


def inception(batch: Dim) -> onnx.ModelProto:
    """Szegedy et al. 2015: 1x7 and 7x1 convolutions, average pooling with and without pads."""
    net = Net(4)

    def conv(x: str, i: int, o: int, side: int | tuple[int, int]) -> str:
        return net.op("Relu", net.conv(x, (i, o), side))

    x, i = conv(net.input("x", [batch, 3, 19, 19]), 3, 12, 3), 12
    for excludes in (0, 1):
        a = conv(x, i, 8, 1)
        b = conv(conv(conv(x, i, 6, 1), 6, 7, (1, 7)), 7, 9, (7, 1))
        pads = {"pads": [1, 1, 1, 1], "count_include_pad": 1 - excludes}
        c = net.op("AveragePool", x, kernel_shape=[3, 3], strides=[1, 1], **pads)
        d = conv(conv(x, i, 5, 1), 5, 6, 5)
        x, i = net.op("Concat", a, b, conv(c, i, 5, 1), d, axis=1), 28
    p = {"kernel_shape": [3, 3], "strides": [2, 2]}
    reduced = [net.op("Relu", net.conv(x, (i, 10), 3, 2, pads=[0] * 4)), net.op("MaxPool", x, **p)]
    return net.model(net.head(net.op("Concat", *reduced, axis=1), 38, 9))


def densenet(batch: Dim) -> onnx.ModelProto:
    """Huang et al. 2016: normalisation in front of convolutions, ever longer concatenations."""
    net = Net(5)
    x, i = net.conv(net.input("x", [batch, 3, 18, 18]), (3, 10), 3, bias=False), 10
    for stage in range(2):
        parts = [x]
        for _ in range(3):
            y = net.op("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
            y = net.conv(net.op("Relu", net.batch_norm(y, i)), (i, 16), 1, bias=False)
            y = net.conv(net.op("Relu", net.batch_norm(y, 16)), (16, 6), 3, bias=False)
            parts.append(y)
            i += 6
        x = net.op("Relu", net.batch_norm(net.op("Concat", *parts, axis=1), i))
        if stage == 0:
            x = net.conv(x, (i, i // 2), 1, bias=False)
            x, i = net.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2]), i // 2
    return net.model(net.head(x, i, 10))


def shufflenet(batch: Dim) -> onnx.ModelProto:
    """Zhang et al. 2017: grouped 1x1 convolutions, channels shuffled between the groups."""
    net = Net(6)
    groups, c, s = 3, 24, 14
    x = net.op("Relu", net.conv_norm(net.input("x", [batch, 3, s, s]), (3, c), 3))
    for _ in range(2):
        y = net.op("Relu", net.conv_norm(x, (c, c), 1, groups=groups))
        y = net.reshape(y, -1, groups, c // groups, s, s)
        y = net.reshape(net.op("Transpose", y, perm=[0, 2, 1, 3, 4]), -1, c, s, s)
        y = net.conv_norm(y, (c, c), 3, groups=c)
        x = net.op("Relu", net.op("Add", x, net.conv_norm(y, (c, c), 1, groups=groups)))
    y = net.conv_norm(x, (c, c), 3, 2, groups=c)
    p = net.op("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    return net.model(net.head(net.op("Concat", p, y, axis=1), 2 * c, 7))


def alexnet(batch: Dim) -> onnx.ModelProto:
    """Krizhevsky et al. 2012 and VGG: LRN, stacked 3x3, large dense layers, dropout."""
    net = Net(7)
    x = net.op("Relu", net.conv(net.input("x", [batch, 3, 35, 35]), (3, 16), 5, 2, pads=[0] * 4))
    x = net.op("LRN", x, size=5, alpha=1e-2, beta=0.75, bias=1.0)
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2])
    x = net.op("Relu", net.conv(x, (16, 24), 3, groups=2))
    x = net.op("Relu", net.conv(x, (24, 24), 3))
    x = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.reshape(x, -1, 24 * 9)
    for io in ((24 * 9, 300), (300, 257)):
        x = net.op("Dropout", net.op("Relu", net.gemm(x, io)))
    return net.model(net.op("Softmax", net.gemm(x, (257, 10)), axis=1))


def mlp(batch: Dim) -> onnx.ModelProto:
    """Digits."""
    net = Net(8)
    x = net.input("x", [batch, 196])
    for io in ((196, 128), (128, 67)):
        x = net.op("Relu", net.gemm(x, io))
    return net.model(net.gemm(x, (67, 10)))
