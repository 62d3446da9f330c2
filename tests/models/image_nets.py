"""Networks for images beside the zoo's: small by default, `FULL` has the papers' sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from tests.models.net import Array, Dim, Net
from tests.models.transformers import attend, gelu

Sizes = dict[str, Any]

_CALM = 8.0  # of the last normalisation in a residual branch


# ---- EfficientNet ---------------------------------------------------------------------------


def efficientnet(
    batch: Dim,
    image: int = 34,
    stem: int = 8,
    rows: str = "1 8 1 1 3, 4 12 2 2 3, 4 16 2 2 5",
    last: int = 24,
    classes: int = 10,
) -> onnx.ModelProto:
    """Tan and Le 2019, a row of table 1: growth, channels, repeats, stride, kernel."""
    net = Net(20)
    x = net.silu(net.conv_norm(net.input("x", [batch, 3, image, image]), (3, stem), 3, 2))
    i = stem
    for row in rows.split(", "):
        grow, o, count, stride, side = map(int, row.split())
        for s in [stride] + [1] * (count - 1):
            y = _inverted(net, x, (i, grow * i, o), side, s)
            x, i = (net.op("Add", x, y) if (s, i) == (1, o) else y), o
    return net.model(net.head(net.silu(net.conv_norm(x, (i, last), 1)), last, classes))


def _inverted(net: Net, x: str, widths: tuple[int, int, int], side: int, stride: int) -> str:
    i, wide, o = widths
    y = net.silu(net.conv_norm(x, (i, wide), 1)) if wide != i else x
    y = net.silu(net.conv_norm(y, (wide, wide), side, stride, groups=wide))
    s = net.op("GlobalAveragePool", y)
    s = net.silu(net.conv(s, (wide, max(1, i // 4)), 1))
    s = net.op("Sigmoid", net.conv(s, (max(1, i // 4), wide), 1))
    return net.conv_norm(net.op("Mul", y, s), (wide, o), 1, square=1.0)


# ---- ConvNeXt -------------------------------------------------------------------------------


def convnext(
    batch: Dim,
    image: int = 40,
    widths: tuple[int, ...] = (8, 12),
    depths: tuple[int, ...] = (1, 2),
    classes: int = 10,
) -> onnx.ModelProto:
    """Liu et al. 2022: depthwise 7x7, layer normalisation over channels, 1x1 as dense layers."""
    net = Net(21)

    def channel_norm(x: str, c: int) -> str:
        x = net.layer_norm(net.permute(x, 0, 2, 3, 1), c)
        return net.permute(x, 0, 3, 1, 2)

    x, i = net.input("x", [batch, 3, image, image]), 3
    for stage, (c, depth) in enumerate(zip(widths, depths, strict=True)):
        side = 2 if stage else 4
        if stage:
            x = channel_norm(x, i)
        x, i = net.conv(x, (i, c), side, side, pads=[0] * 4), c
        if not stage:
            x = channel_norm(x, c)
        for _ in range(depth):
            y = net.permute(net.conv(x, (c, c), 7, groups=c), 0, 2, 3, 1)
            y = gelu(net, net.dense(net.layer_norm(y, c), (c, 4 * c)))
            y = net.dense(y, (4 * c, c))
            y = net.op("Mul", y, net.const(net.random.uniform(0.2, 0.5, c)))
            x = net.op("Add", x, net.permute(y, 0, 3, 1, 2))
    x = net.op("Flatten", net.op("GlobalAveragePool", x), axis=1)
    return net.model(net.gemm(net.layer_norm(x, i), (i, classes)))


# ---- ResNeXt and DeepLab: bottlenecks -------------------------------------------------------


def _bottleneck(
    net: Net,
    x: str,
    widths: tuple[int, int, int],
    stride: int = 1,
    groups: int = 1,
    dilation: int = 1,
) -> str:
    i, c, o = widths
    y = net.op("Relu", net.conv_norm(x, (i, c), 1))
    y = net.conv_norm(y, (c, c), 3, stride, groups=groups, dilation=dilation)
    y = net.conv_norm(net.op("Relu", y), (c, o), 1, square=_CALM)
    if (stride, i) != (1, o):
        x = net.conv_norm(x, (i, o), 1, stride)
    return net.op("Relu", net.op("Add", x, y))


def resnext(
    batch: Dim,
    image: int = 34,
    stem: int = 12,
    groups: int = 3,
    width: int = 12,
    depths: tuple[int, ...] = (1, 2),
    classes: int = 10,
) -> onnx.ModelProto:
    """Xie et al. 2017: the 3x3 convolutions of a ResNet-50 in groups; `width` of the first."""
    net = Net(22)
    x = net.op("Relu", net.conv_norm(net.input("x", [batch, 3, image, image]), (3, stem), 7, 2))
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    i = stem
    for stage, depth in enumerate(depths):
        c = width * 2**stage
        for index in range(depth):
            stride = 2 if stage and not index else 1
            x, i = _bottleneck(net, x, (i, c, 2 * c), stride, groups), 2 * c
    return net.model(net.head(x, i, classes))


def deeplab(
    batch: Dim,
    image: int = 33,
    stem: int = 8,
    depths: tuple[int, ...] = (1, 1, 2),
    rates: tuple[int, ...] = (2, 3),
    width: int = 12,
    classes: int = 5,
) -> onnx.ModelProto:
    """Chen et al. 2017: a dilated last stage, pyramid pooling, results at the image's size."""
    net = Net(23)
    image_in = net.input("x", [batch, 3, image, image])
    x = net.op("Relu", net.conv_norm(image_in, (3, stem), 7, 2))
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    i = stem
    for stage, depth in enumerate(depths):
        c, last = stem * 2**stage, stage == len(depths) - 1
        for index in range(depth):
            stride = 2 if stage and not last and not index else 1
            x = _bottleneck(net, x, (i, c, 4 * c), stride, 1, 2 if last else 1)
            i = 4 * c
    branches = [net.op("Relu", net.conv_norm(x, (i, width), 1))]
    for rate in rates:
        branches.append(net.op("Relu", net.conv_norm(x, (i, width), 3, dilation=rate)))
    mean = net.op("ReduceMean", x, net.ints(2, 3), keepdims=1)
    mean = net.op("Relu", net.conv_norm(mean, (i, width), 1))
    branches.append(_resized(net, mean, x))
    y = net.op("Concat", *branches, axis=1)
    y = net.op("Relu", net.conv_norm(y, (len(branches) * width, width), 1))
    y = net.op("Relu", net.conv_norm(y, (width, width), 3))
    return net.model(_resized(net, net.conv(y, (width, classes), 1), image_in))


def _resized(net: Net, x: str, like: str) -> str:
    """x by bilinear interpolation at the height and width of `like`."""
    count = net.cut(net.op("Shape", x), 0, 2, 0)
    sizes = net.op("Concat", count, net.cut(net.op("Shape", like), 2, 4, 0), axis=0)
    way = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    return net.op("Resize", x, "", "", sizes, **way)


# ---- U-Net ----------------------------------------------------------------------------------


def unet(
    batch: Dim, image: int = 32, width: int = 6, depth: int = 2, classes: int = 3
) -> onnx.ModelProto:
    """Ronneberger et al. 2015, padded: transposed convolutions, skips concatenated."""
    net = Net(24)

    def twice(x: str, i: int, o: int) -> str:
        x = net.op("Relu", net.conv_norm(x, (i, o), 3))
        return net.op("Relu", net.conv_norm(x, (o, o), 3))

    x, i, o = net.input("x", [batch, 3, image, image]), 3, width
    skips = []
    for _ in range(depth):
        x = twice(x, i, o)
        skips.append(x)
        x, i, o = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), o, 2 * o
    x = twice(x, i, o)
    for skip in reversed(skips):
        x = net.conv_transpose(x, (o, o // 2), 2, 2)
        x = twice(net.op("Concat", skip, x, axis=1), o, o // 2)
        o //= 2
    return net.model(net.conv(x, (o, classes), 1))


# ---- Swin -----------------------------------------------------------------------------------


def swin(
    batch: Dim,
    image: int = 32,
    window: int = 4,
    width: int = 16,
    heads: tuple[int, ...] = (2, 4),
    depths: tuple[int, ...] = (2, 1),
    classes: int = 10,
) -> onnx.ModelProto:
    """Liu et al. 2021: attention in windows, every second layer's shifted by half a window."""
    net = Net(25)
    c, side = width, image // 4
    x = net.conv(net.input("x", [batch, 3, image, image]), (3, c), 4, 4, pads=[0] * 4)
    x = net.layer_norm(net.permute(x, 0, 2, 3, 1), c)
    for stage, (count, depth) in enumerate(zip(heads, depths, strict=True)):
        if stage:
            corners = [_strided(net, x, row, column) for column in (0, 1) for row in (0, 1)]
            x = net.layer_norm(net.op("Concat", *corners, axis=-1), 4 * c)
            x, c, side = net.op("MatMul", x, net.he((4 * c, 2 * c), 4 * c, 1)), 2 * c, side // 2
        for index in range(depth):
            shift = window // 2 if index % 2 and side > window else 0
            y = _windowed(net, net.layer_norm(x, c), (side, window, shift), c, count)
            x = net.op("Add", x, y)
            y = gelu(net, net.dense(net.layer_norm(x, c), (c, 4 * c)))
            x = net.op("Add", x, net.dense(y, (4 * c, c), gain=0.3))
    x = net.op("ReduceMean", net.layer_norm(x, c), net.ints(1, 2), keepdims=0)
    return net.model(net.gemm(x, (c, classes)))


def _strided(net: Net, x: str, row: int, column: int) -> str:
    """Every second row and column."""
    ends, step = net.ints(2**62, 2**62), net.ints(2, 2)
    return net.op("Slice", x, net.ints(row, column), ends, net.ints(1, 2), step)


def _rolled(net: Net, x: str, shift: int) -> str:
    """As exporters write torch.roll along rows and columns."""
    for axis in (1, 2):
        parts = [net.cut(x, -shift, 2**62, axis), net.cut(x, 0, -shift, axis)]
        x = net.op("Concat", *parts, axis=axis)
    return x


def _windowed(net: Net, x: str, sizes: tuple[int, int, int], c: int, count: int) -> str:
    side, w, shift = sizes
    n, t, depth = side // w, w * w, c // count
    if shift:
        x = _rolled(net, x, -shift)
    x = net.permute(net.reshape(x, -1, n, w, n, w, c), 0, 1, 3, 2, 4, 5)
    x = net.reshape(x, -1, t, c)
    qkv = net.reshape(net.dense(x, (c, 3 * c)), -1, t, 3, count, depth)
    qkv = net.permute(qkv, 2, 0, 3, 1, 4)
    q, k, v = (net.op("Gather", qkv, net.const(i, np.int64), axis=0) for i in range(3))
    bias = net.op("Gather", net.normal(((2 * w - 1) ** 2, count), 0.5), _places(net, w), axis=0)
    bias = net.op("Unsqueeze", net.permute(net.reshape(bias, t, t, count), 2, 0, 1), net.ints(0))
    if shift:
        q = net.op("Mul", q, net.const(depth**-0.5))
        scores = net.op("Add", net.op("MatMul", q, net.permute(k, 0, 1, 3, 2)), bias)
        scores = net.reshape(scores, -1, n * n, count, t, t)
        scores = net.op("Add", scores, net.const(_foreign(side, w, shift)[None, :, None]))
        scores = net.op("Softmax", net.reshape(scores, -1, count, t, t), axis=-1)
        y = net.permute(net.op("MatMul", scores, v), 0, 2, 1, 3)
    else:
        y = attend(net, q, k, v, bias, c, depth**0.5)
    y = net.dense(net.reshape(y, -1, t, c), (c, c))
    y = net.permute(net.reshape(y, -1, n, n, w, w, c), 0, 1, 3, 2, 4, 5)
    y = net.reshape(y, -1, side, side, c)
    return _rolled(net, y, shift) if shift else y


def _places(net: Net, w: int) -> str:
    """For two tokens of a window the row of the table of biases."""
    at = np.stack(np.meshgrid(np.arange(w), np.arange(w), indexing="ij")).reshape(2, -1)
    apart = at[:, :, None] - at[:, None, :] + w - 1
    return net.const((apart[0] * (2 * w - 1) + apart[1]).reshape(-1), np.int64)


def _foreign(side: int, w: int, shift: int) -> Array:
    """Per window -100 where two of its tokens come from opposite edges of the image."""
    part = np.digitize(np.arange(side), [side - w, side - shift])
    parts = (3 * part[:, None] + part[None, :]).reshape(side // w, w, side // w, w)
    tokens = parts.transpose(0, 2, 1, 3).reshape(-1, w * w)
    return np.where(tokens[:, :, None] != tokens[:, None, :], -100.0, 0.0)


B0 = "1 16 1 1 3, 6 24 2 2 3, 6 40 2 2 5, 6 80 3 2 3, 6 112 3 1 5, 6 192 4 2 5, 6 320 1 1 3"
FULL: dict[str, Sizes] = {
    "efficientnet": {"image": 224, "stem": 32, "rows": B0, "last": 1280, "classes": 1000},
    "convnext": {
        "image": 224,
        "widths": (96, 192, 384, 768),
        "depths": (3, 3, 9, 3),
        "classes": 1000,
    },
    "resnext": {
        "image": 224,
        "stem": 64,
        "groups": 32,
        "width": 128,
        "depths": (3, 4, 6, 3),
        "classes": 1000,
    },
    "deeplab": {
        "image": 257,
        "stem": 64,
        "depths": (3, 4, 6, 3),
        "rates": (6, 12, 18),
        "width": 256,
        "classes": 21,
    },
    "unet": {"image": 256, "width": 32, "depth": 4, "classes": 2},
    "swin": {
        "image": 224,
        "window": 7,
        "width": 96,
        "heads": (3, 6, 12, 24),
        "depths": (2, 2, 6, 2),
        "classes": 1000,
    },
}
