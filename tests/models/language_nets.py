"""Networks for text beside the zoo's: recurrent, encoder and decoder, text beside images."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from tests.models.image_nets import Sizes
from tests.models.net import Dim, Net
from tests.models.transformers import attend, heads

# ---- recurrent ------------------------------------------------------------------------------


def _recurrent(
    kind: str, gates: int, batch: Dim, tokens: Dim, width: int, layers: int, vocabulary: int
) -> onnx.ModelProto:
    net = Net(50)
    ids = net.input("input_ids", [batch, tokens], np.int64)
    x = net.op("Gather", net.normal((vocabulary, width)), ids, axis=0)
    x = net.permute(x, 1, 0, 2)
    for _ in range(layers):
        weights = [net.he((1, gates * width, width), width, 1.0) for _ in range(2)]
        bias = net.normal((1, 2 * gates * width), 0.1)
        reset = {"linear_before_reset": 1} if kind == "GRU" else {}
        states = 3 if kind == "LSTM" else 2
        y, *_ = net.ops(kind, states, x, *weights, bias, hidden_size=width, **reset)
        x = net.op("Squeeze", y, net.ints(1))
    return net.model(net.dense(net.permute(x, 1, 0, 2), (width, vocabulary)))


def lstm(
    batch: Dim, tokens: Dim = 9, width: int = 24, layers: int = 2, vocabulary: int = 50
) -> onnx.ModelProto:
    """Zaremba et al. 2014: two layers over words, the next word of each."""
    return _recurrent("LSTM", 4, batch, tokens, width, layers, vocabulary)


def gru(
    batch: Dim, tokens: Dim = 9, width: int = 24, layers: int = 2, vocabulary: int = 50
) -> onnx.ModelProto:
    """The same of GRU cells as torch has them."""
    return _recurrent("GRU", 3, batch, tokens, width, layers, vocabulary)


# ---- T5 -------------------------------------------------------------------------------------


def _rms(net: Net, x: str, width: int) -> str:
    square = net.op("ReduceMean", net.op("Pow", x, net.const(2.0)), net.ints(-1), keepdims=1)
    root = net.op("Sqrt", net.op("Add", square, net.const(1e-6)))
    scale = net.const(net.random.uniform(0.7, 1.3, width))
    return net.op("Mul", scale, net.op("Div", x, root))


def _linear(net: Net, x: str, i: int, o: int, gain: float = 1.0) -> str:
    return net.op("MatMul", x, net.he((i, o), i, gain))


def _span(net: Net, ids: str) -> str:
    """0, 1, ... as many as there are tokens."""
    count = net.op("Gather", net.op("Shape", ids), net.const(1, np.int64), axis=0)
    return net.op("Range", net.const(0, np.int64), count, net.const(1, np.int64))


def _distance_bias(net: Net, ids: str, count: int, causal: bool, buckets: int = 32) -> str:
    """[1, heads, t, t]: near distances one by one, far ones by their logarithm."""
    span = _span(net, ids)
    rows = net.op("Unsqueeze", span, net.ints(1))
    apart = net.op("Sub", net.op("Unsqueeze", span, net.ints(0)), rows)
    if causal:
        start = net.const(0, np.int64)
        apart = net.op("Neg", net.op("Min", apart, net.const(0, np.int64)))
    else:
        buckets //= 2
        behind = net.op("Cast", net.op("Greater", apart, net.const(0, np.int64)), to=7)
        start = net.op("Mul", behind, net.const(buckets, np.int64))
        apart = net.op("Abs", apart)
    exact = buckets // 2
    near = net.op("Less", apart, net.const(exact, np.int64))
    far = net.op("Cast", apart, to=int(TensorProto.FLOAT))
    # one more than nothing: the logarithm of 0 is chosen nowhere, but infinite
    far = net.op("Max", far, net.const(1.0))
    far = net.op("Log", net.op("Div", far, net.const(float(exact))))
    far = net.op("Mul", far, net.const((buckets - exact) / np.log(128 / exact)))
    far = net.op("Add", net.op("Cast", far, to=7), net.const(exact, np.int64))
    far = net.op("Min", far, net.const(buckets - 1, np.int64))
    which = net.op("Add", start, net.op("Where", near, apart, far))
    table = net.normal((buckets * (1 if causal else 2), count), 0.7)
    bias = net.permute(net.op("Gather", table, which, axis=0), 2, 0, 1)
    bias = net.op("Unsqueeze", bias, net.ints(0))
    if causal:
        later = net.op("Greater", net.op("Unsqueeze", span, net.ints(0)), rows)
        bias = net.op("Where", later, net.const(-1e9), bias)
    return bias


def t5(
    batch: Dim,
    tokens: Dim = 11,
    target: Dim = 7,
    width: int = 24,
    count: int = 3,
    depth: int = 8,
    wide: int = 40,
    layers: int = 2,
    vocabulary: int = 50,
) -> onnx.ModelProto:
    """Raffel et al. 2019: attention without scale, a bias by distance that all layers share."""
    net, inner = Net(51), count * depth

    def attention(x: str, memory: str, bias: str | None) -> str:
        q = heads(net, _linear(net, x, width, inner, 1 / depth), count, depth)
        k, v = (heads(net, _linear(net, memory, width, inner), count, depth) for _ in range(2))
        return _linear(net, attend(net, q, k, v, bias, inner, 1.0), inner, width)

    def stack(ids: str, causal: bool, memory: str | None) -> str:
        x = net.op("Gather", table, ids, axis=0)
        bias = _distance_bias(net, ids, count, causal)
        for _ in range(layers):
            y = _rms(net, x, width)
            x = net.op("Add", x, attention(y, y, bias))
            if memory is not None:
                x = net.op("Add", x, attention(_rms(net, x, width), memory, None))
            y = net.op("Relu", _linear(net, _rms(net, x, width), width, wide))
            x = net.op("Add", x, _linear(net, y, wide, width))
        return _rms(net, x, width)

    table = net.normal((vocabulary, width))
    ids = net.input("input_ids", [batch, tokens], np.int64)
    given = net.input("decoder_input_ids", [batch, target], np.int64)
    y = stack(given, True, stack(ids, False, None))
    y = net.op("Mul", y, net.const(width**-0.5))
    return net.model(net.op("MatMul", y, net.permute(table, 1, 0)))


# ---- CLIP -----------------------------------------------------------------------------------


def _quick_gelu(net: Net, x: str) -> str:
    return net.op("Mul", x, net.op("Sigmoid", net.op("Mul", x, net.const(1.702))))


def _tower(net: Net, x: str, width: int, layers: int, count: int, mask: str | None) -> str:
    depth = width // count
    for _ in range(layers):
        y = net.layer_norm(x, width)
        parts = [net.dense(y, (width, width)) for _ in range(3)]
        q, k, v = (heads(net, part, count, depth) for part in parts)
        y = attend(net, q, k, v, mask, width, float(np.sqrt(depth)))
        x = net.op("Add", x, net.dense(y, (width, width)))
        y = _quick_gelu(net, net.dense(net.layer_norm(x, width), (width, 4 * width)))
        x = net.op("Add", x, net.dense(y, (4 * width, width)))
    return x


def _unit(net: Net, x: str) -> str:
    return net.op("Div", x, net.op("ReduceL2", x, net.ints(-1), keepdims=1))


def clip(
    batch: Dim,
    texts: Dim = 3,
    image: int = 24,
    patch: int = 8,
    tokens: int = 7,
    width: tuple[int, int] = (24, 16),
    count: tuple[int, int] = (3, 2),
    layers: int = 2,
    common: int = 12,
    vocabulary: int = 50,
) -> onnx.ModelProto:
    """Radford et al. 2021: how well each image goes with each text. A text ends at its largest
    word; `width` and `count` are those of the image's and of the text's tower."""
    net = Net(52)
    ids = net.input("input_ids", [texts, tokens], np.int64)
    pixels = net.input("pixel_values", [batch, 3, image, image])
    w = width[0]
    x = net.conv(pixels, (3, w), patch, patch, pads=[0] * 4, bias=False)
    x = net.permute(net.reshape(x, 0, w, -1), 0, 2, 1)
    n = net.op("Gather", net.op("Shape", pixels), net.ints(0), axis=0)
    full = net.op("Concat", n, net.ints(1, w), axis=0)
    x = net.op("Concat", net.op("Expand", net.normal((1, 1, w), 0.5), full), x, axis=1)
    x = net.op("Add", x, net.normal(((image // patch) ** 2 + 1, w), 0.5))
    x = _tower(net, net.layer_norm(x, w), w, layers, count[0], None)
    x = net.op("Gather", x, net.const(0, np.int64), axis=1)
    seen = _unit(net, _linear(net, net.layer_norm(x, w), w, common))
    w = width[1]
    x = net.op("Gather", net.normal((vocabulary, w)), ids, axis=0)
    x = net.op("Add", x, net.normal((tokens, w), 0.5))
    causal = net.const(np.triu(np.full((1, 1, tokens, tokens), -3e38), 1))
    x = net.layer_norm(_tower(net, x, w, layers, count[1], causal), w)
    last = net.op("Unsqueeze", net.op("ArgMax", ids, axis=-1, keepdims=0), net.ints(1))
    x = net.op("GatherND", x, last, batch_dims=1)
    read = _unit(net, _linear(net, x, w, common))
    scores = net.op("MatMul", read, net.permute(seen, 1, 0))
    scores = net.op("Mul", scores, net.op("Exp", net.const(2.5)))
    return net.model(net.permute(scores, 1, 0), scores, read, seen)


FULL: dict[str, Sizes] = {
    "lstm": {"tokens": 64, "width": 512, "vocabulary": 10000},
    "gru": {"tokens": 64, "width": 512, "vocabulary": 10000},
    "t5": {
        "tokens": 64,
        "target": 32,
        "width": 512,
        "count": 8,
        "depth": 64,
        "wide": 2048,
        "layers": 6,
        "vocabulary": 32128,
    },
    "clip": {
        "texts": 4,
        "image": 224,
        "patch": 32,
        "tokens": 77,
        "width": (768, 512),
        "count": (12, 8),
        "layers": 12,
        "common": 512,
        "vocabulary": 49408,
    },
}
