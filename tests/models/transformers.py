"""Small transformers as exporters write them: composed norms, masks, heads by transposition."""

from __future__ import annotations

import numpy as np
import onnx

from tests.models.net import Dim, Net

WIDTH, HEADS, VOCABULARY = 32, 4, 50
DEPTH = WIDTH // HEADS


def gelu(net: Net, x: str) -> str:
    """By erf, operator by operator."""
    y = net.op("Erf", net.op("Div", x, net.const(np.sqrt(2.0))))
    y = net.op("Mul", x, net.op("Add", y, net.const(1.0)))
    return net.op("Mul", y, net.const(0.5))


def tanh_gelu(net: Net, x: str) -> str:
    """As GPT-2 has it."""
    cube = net.op("Pow", x, net.const(3.0))
    y = net.op("Add", x, net.op("Mul", cube, net.const(0.044715)))
    y = net.op("Tanh", net.op("Mul", y, net.const(np.sqrt(2 / np.pi))))
    y = net.op("Mul", x, net.op("Add", y, net.const(1.0)))
    return net.op("Mul", y, net.const(0.5))


def composed_norm(net: Net, x: str) -> str:
    """Layer normalisation as it was exported before opset 17."""
    centred = net.op("Sub", x, net.op("ReduceMean", x, net.ints(-1), keepdims=1))
    square = net.op("Pow", centred, net.const(2.0))
    mean = net.op("ReduceMean", square, net.ints(-1), keepdims=1)
    y = net.op("Div", centred, net.op("Sqrt", net.op("Add", mean, net.const(1e-5))))
    y = net.op("Mul", y, net.const(net.random.uniform(0.7, 1.3, WIDTH)))
    return net.op("Add", y, net.normal((WIDTH,), 0.1))


def heads(net: Net, x: str, count: int = HEADS, depth: int = DEPTH) -> str:
    """[n, t, count * depth] as [n, count, t, depth]."""
    x = net.reshape(x, 0, -1, count, depth)
    return net.op("Transpose", x, perm=[0, 2, 1, 3])


def attend(
    net: Net,
    q: str,
    k: str,
    v: str,
    mask: str | None = None,
    width: int = WIDTH,
    scale: float = float(np.sqrt(DEPTH)),
) -> str:
    """Of [n, heads, t, depth] each; the result is [n, t, width] again."""
    scores = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 1, 3, 2]))
    if scale != 1.0:
        scores = net.op("Div", scores, net.const(scale))
    if mask is not None:
        scores = net.op("Add", scores, mask)
    y = net.op("MatMul", net.op("Softmax", scores, axis=-1), v)
    y = net.op("Transpose", y, perm=[0, 2, 1, 3])
    return net.reshape(y, 0, -1, width)


def vit(batch: Dim) -> onnx.ModelProto:
    """Dosovitskiy et al. 2020: patches by a convolution, a class token in front."""
    net = Net(10)
    x = net.input("x", [batch, 3, 24, 24])
    patches = net.conv(x, (3, WIDTH), 8, 8, pads=[0] * 4)
    t = net.op("Transpose", net.reshape(patches, 0, WIDTH, -1), perm=[0, 2, 1])
    shape = net.op("Shape", x)
    n = net.op("Gather", shape, net.ints(0), axis=0)
    full = net.op("Concat", n, net.ints(1, WIDTH), axis=0)
    token = net.op("Expand", net.normal((1, 1, WIDTH), 0.5), full)
    t = net.op("Concat", token, t, axis=1)
    t = net.op("Add", t, net.normal((1, 10, WIDTH), 0.5))
    for _ in range(2):
        y = net.layer_norm(t, WIDTH)
        qkv = net.reshape(net.dense(y, (WIDTH, 3 * WIDTH)), 0, -1, 3, HEADS, DEPTH)
        qkv = net.op("Transpose", qkv, perm=[2, 0, 3, 1, 4])
        q, k, v = (net.op("Gather", qkv, net.const(i, np.int64), axis=0) for i in range(3))
        t = net.op("Add", t, net.dense(attend(net, q, k, v), (WIDTH, WIDTH)))
        y = gelu(net, net.dense(net.layer_norm(t, WIDTH), (WIDTH, 2 * WIDTH)))
        t = net.op("Add", t, net.dense(y, (2 * WIDTH, WIDTH)))
    first = net.op("Gather", net.layer_norm(t, WIDTH), net.const(0, np.int64), axis=1)
    return net.model(net.dense(first, (WIDTH, 11)))


def bert(batch: Dim, tokens: Dim = 12) -> onnx.ModelProto:
    """Devlin et al. 2018: words, places and a mask; both sizes may be symbolic."""
    net = Net(11)
    ids = net.input("input_ids", [batch, tokens], np.int64)
    given = net.input("attention_mask", [batch, tokens], np.int64)
    length = net.op("Gather", net.op("Shape", ids), net.const(1, np.int64), axis=0)
    places = net.op("Range", net.const(0, np.int64), length, net.const(1, np.int64))
    x = net.op("Gather", net.normal((VOCABULARY, WIDTH)), ids, axis=0)
    x = net.op("Add", x, net.op("Gather", net.normal((40, WIDTH), 0.5), places, axis=0))
    x = composed_norm(net, x)
    wide = net.op("Unsqueeze", given, net.ints(1, 2))
    keep = net.op("Cast", wide, to=int(onnx.TensorProto.BOOL))
    mask = net.op("Where", keep, net.const(0.0), net.const(-1e4))
    for _ in range(2):
        q, k, v = (heads(net, net.dense(x, (WIDTH, WIDTH))) for _ in range(3))
        y = net.dense(attend(net, q, k, v, mask), (WIDTH, WIDTH))
        x = composed_norm(net, net.op("Add", x, y))
        y = net.dense(gelu(net, net.dense(x, (WIDTH, 2 * WIDTH))), (2 * WIDTH, WIDTH))
        x = composed_norm(net, net.op("Add", x, y))
    first = net.op("Gather", x, net.const(0, np.int64), axis=1)
    return net.model(x, net.op("Tanh", net.dense(first, (WIDTH, WIDTH))))


def bert_symbolic(batch: Dim) -> onnx.ModelProto:
    return bert(batch, "tokens" if isinstance(batch, str) else 12)


def gpt2(batch: Dim, tokens: int = 9) -> onnx.ModelProto:
    """Radford et al. 2019: q, k, v in one product, a causal mask, logits by the embedding."""
    net = Net(12)
    table = net.normal((VOCABULARY, WIDTH), 0.5)
    x = net.op("Gather", table, net.input("input_ids", [batch, tokens], np.int64), axis=0)
    x = net.op("Add", x, net.normal((1, tokens, WIDTH), 0.3))
    causal = np.tril(np.ones((1, 1, tokens, tokens), bool))
    for _ in range(2):
        y = net.dense(net.layer_norm(x, WIDTH), (WIDTH, 3 * WIDTH))
        parts = net.ops("Split", 3, y, net.ints(WIDTH, WIDTH, WIDTH), axis=2)
        q, k, v = (heads(net, p) for p in parts)
        scores = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = net.op("Mul", scores, net.const(1 / np.sqrt(DEPTH)))
        scores = net.op("Where", net.const(causal, bool), scores, net.const(-3.4e38))
        y = net.op("MatMul", net.op("Softmax", scores, axis=-1), v)
        y = net.reshape(net.op("Transpose", y, perm=[0, 2, 1, 3]), 0, 0, WIDTH)
        x = net.op("Add", x, net.dense(y, (WIDTH, WIDTH)))
        y = tanh_gelu(net, net.dense(net.layer_norm(x, WIDTH), (WIDTH, 2 * WIDTH)))
        x = net.op("Add", x, net.dense(y, (2 * WIDTH, WIDTH)))
    x = net.layer_norm(x, WIDTH)
    return net.model(net.op("MatMul", x, net.op("Transpose", table, perm=[1, 0])))


def rms_norm(net: Net, x: str) -> str:
    square = net.op("ReduceMean", net.op("Pow", x, net.const(2.0)), net.ints(-1), keepdims=1)
    root = net.op("Sqrt", net.op("Add", square, net.const(1e-6)))
    y = net.op("Mul", x, net.op("Reciprocal", root))
    return net.op("Mul", net.const(net.random.uniform(0.7, 1.3, WIDTH)), y)


def rotated(net: Net, x: str, cos: str, sin: str) -> str:
    """x * cos + rotate_half(x) * sin."""
    half = DEPTH // 2
    low = net.op("Slice", x, net.ints(0), net.ints(half), net.ints(3))
    high = net.op("Slice", x, net.ints(half), net.ints(2**62), net.ints(3))
    turned = net.op("Concat", net.op("Neg", high), low, axis=-1)
    return net.op("Add", net.op("Mul", x, cos), net.op("Mul", turned, sin))


def llama(batch: Dim, tokens: int = 9) -> onnx.ModelProto:
    """Touvron et al. 2023: RMS norm, rotated places, grouped queries, gated SiLU."""
    net, groups = Net(13), 2
    ids = net.input("input_ids", [batch, tokens], np.int64)
    x = net.op("Gather", net.normal((VOCABULARY, WIDTH)), ids, axis=0)
    inverse = 1.0 / 10000 ** (np.arange(0, DEPTH, 2) / DEPTH)
    places = net.const(np.arange(tokens)[None, None, :], np.float32)
    angle = net.op("MatMul", net.const(inverse[None, :, None]), places)
    angle = net.op("Transpose", angle, perm=[0, 2, 1])
    angle = net.op("Unsqueeze", net.op("Concat", angle, angle, axis=-1), net.ints(1))
    cos, sin = net.op("Cos", angle), net.op("Sin", angle)
    future = np.triu(np.full((1, 1, tokens, tokens), -3.4e38), 1)
    count = net.op("Gather", net.op("Shape", ids), net.ints(0), axis=0)
    wide = net.op("Concat", count, net.ints(groups, HEADS // groups, tokens, DEPTH), axis=0)
    for _ in range(2):
        y = rms_norm(net, x)
        q = rotated(
            net, heads(net, net.op("MatMul", y, net.he((WIDTH, WIDTH), WIDTH, 1))), cos, sin
        )
        small = (WIDTH, groups * DEPTH)
        k, v = (heads(net, net.op("MatMul", y, net.he(small, WIDTH, 1)), groups) for _ in range(2))
        repeated = []
        for one in (rotated(net, k, cos, sin), v):
            full = net.op("Expand", net.op("Unsqueeze", one, net.ints(2)), wide)
            repeated.append(net.reshape(full, -1, HEADS, tokens, DEPTH))
        y = attend(net, q, repeated[0], repeated[1], net.const(future))
        x = net.op("Add", x, net.op("MatMul", y, net.he((WIDTH, WIDTH), WIDTH, 1)))
        y = rms_norm(net, x)
        gate = net.op("MatMul", y, net.he((WIDTH, 88), WIDTH, 1))
        gate = net.op("Mul", gate, net.op("Sigmoid", gate))
        y = net.op("Mul", gate, net.op("MatMul", y, net.he((WIDTH, 88), WIDTH, 1)))
        x = net.op("Add", x, net.op("MatMul", y, net.he((88, WIDTH), 88, 1)))
    return net.model(net.op("MatMul", rms_norm(net, x), net.he((WIDTH, VOCABULARY), WIDTH, 1)))
