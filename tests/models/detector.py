"""A detector of the YOLOv8 kind: backbone, neck, heads at three scales, decoding, suppression."""

from __future__ import annotations

import numpy as np
import onnx

from tests.models.image_nets import Sizes
from tests.models.net import Array, Dim, Net

BINS = 16
"""A side's distance is the mean of a distribution over so many bins."""


def _conv(net: Net, x: str, i: int, o: int, side: int = 3, stride: int = 1) -> str:
    return net.silu(net.conv_norm(x, (i, o), side, stride))


def _partial(net: Net, x: str, i: int, o: int, count: int, adds: bool) -> str:
    """Half of the channels through bottlenecks; what each gives is kept."""
    c = o // 2
    parts = net.ops("Split", 2, _conv(net, x, i, o, 1), net.ints(c, c), axis=1)
    for _ in range(count):
        y = _conv(net, _conv(net, parts[-1], c, c), c, c)
        parts.append(net.op("Add", parts[-1], y) if adds else y)
    return _conv(net, net.op("Concat", *parts, axis=1), (2 + count) * c, o, 1)


def _pyramid(net: Net, x: str, c: int) -> str:
    """Maxima over ever larger windows."""
    parts = [_conv(net, x, c, c // 2, 1)]
    for _ in range(3):
        pool = {"kernel_shape": [5, 5], "strides": [1, 1], "pads": [2] * 4}
        parts.append(net.op("MaxPool", parts[-1], **pool))
    return _conv(net, net.op("Concat", *parts, axis=1), 2 * c, c, 1)


def _doubled(net: Net, x: str) -> str:
    scales = net.const([1.0, 1.0, 2.0, 2.0])
    way = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return net.op("Resize", x, "", scales, mode="nearest", **way)


def yolo(
    batch: Dim,
    image: int = 64,
    width: int = 4,
    depths: tuple[int, ...] = (1, 1, 1, 1),
    classes: int = 3,
    suppresses: bool = False,
    least: float = 0.3,
) -> onnx.ModelProto:
    """Boxes (centre, size, in pixels) and class scores [n, 4 + classes, places].

    suppresses  the results are instead (image, class, place) of the boxes that are kept, and
                these boxes
    least       the score below which none is kept
    """
    net = Net(30)
    x, c = net.input("images", [batch, 3, image, image]), width
    x = _conv(net, _conv(net, x, 3, c, 3, 2), c, 2 * c, 3, 2)
    c *= 2
    features = []
    for level, depth in enumerate(depths):
        if level:
            x, c = _conv(net, x, c, 2 * c, 3, 2), 2 * c
        x = _partial(net, x, c, c, depth, adds=True)
        features.append((x, c))
    x = _pyramid(net, x, c)
    levels = [(x, c)]
    for skip, k in reversed(features[1:-1]):
        both = net.op("Concat", _doubled(net, x), skip, axis=1)
        x, c = _partial(net, both, c + k, k, 1, adds=False), k
        levels.insert(0, (x, c))
    for index, (skip, k) in enumerate(levels[1:], 1):
        both = net.op("Concat", _conv(net, x, c, c, 3, 2), skip, axis=1)
        x, c = _partial(net, both, c + k, k, 1, adds=False), k
        levels[index] = (x, c)
    boxes, scores = _decoded(net, levels, image, classes)
    if suppresses:
        return _suppressed(net, boxes, scores, least)
    return net.model(net.op("Concat", boxes, scores, axis=1))


def _decoded(net: Net, levels: list[tuple[str, int]], image: int, classes: int) -> tuple[str, str]:
    """[n, 4, places] and [n, classes, places]."""
    first = levels[0][1]
    wide, deep = max(16, first // 4, 4 * BINS), max(first, min(classes, 100))
    found = []
    for x, c in levels:
        sides = net.conv(_conv(net, _conv(net, x, c, wide), wide, wide), (wide, 4 * BINS), 1)
        kinds = net.conv(_conv(net, _conv(net, x, c, deep), deep, deep), (deep, classes), 1)
        both = net.op("Concat", sides, kinds, axis=1)
        found.append(net.reshape(both, 0, 4 * BINS + classes, -1))
    every = net.op("Concat", *found, axis=2)
    parts = net.ops("Split", 2, every, net.ints(4 * BINS, classes), axis=1)
    sides = net.permute(net.reshape(parts[0], 0, 4, BINS, -1), 0, 2, 1, 3)
    sides = net.op("Softmax", sides, axis=1)
    mean = net.const(np.arange(BINS, dtype=np.float32).reshape(1, BINS, 1, 1))
    sides = net.op("Conv", sides, mean, kernel_shape=[1, 1])
    sides = net.reshape(sides, 0, 4, -1)
    near, far = (net.cut(sides, start, start + 2, 1) for start in (0, 2))
    places, strides = _places(image, len(levels))
    low = net.op("Sub", net.const(places), near)
    high = net.op("Add", net.const(places), far)
    centre = net.op("Div", net.op("Add", low, high), net.const(2.0))
    box = net.op("Concat", centre, net.op("Sub", high, low), axis=1)
    return net.op("Mul", box, net.const(strides)), net.op("Sigmoid", parts[1])


def _places(image: int, levels: int) -> tuple[Array, Array]:
    """The centres [1, 2, places] of the cells of all levels in cells, and the cells' size."""
    places, strides = [], []
    for level in range(levels):
        stride = 8 * 2**level
        at = np.arange(image // stride) + 0.5
        y, x = np.meshgrid(at, at, indexing="ij")
        places.append(np.stack([x.ravel(), y.ravel()]))
        strides.append(np.full(x.size, stride))
    return np.concatenate(places, 1)[None], np.concatenate(strides)[None, None]


def _suppressed(net: Net, boxes: str, scores: str, least: float) -> onnx.ModelProto:
    rows = net.permute(boxes, 0, 2, 1)
    limits = [net.ints(100), net.const([0.5]), net.const([least])]
    kept = net.op("NonMaxSuppression", rows, scores, *limits, center_point_box=1)
    both = net.op("Gather", kept, net.ints(0, 2), axis=1)
    return net.model(kept, net.op("GatherND", rows, both))


FULL: dict[str, Sizes] = {
    "yolo": {"image": 640, "width": 16, "depths": (1, 2, 2, 1), "classes": 80}
}
