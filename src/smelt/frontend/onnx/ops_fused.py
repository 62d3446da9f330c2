"""Converters of the fused operators that onnxruntime's optimiser writes, and of FlexAttention."""

from __future__ import annotations

import math
from typing import Any, Unpack

import numpy as np

from smelt.frontend.common import Build, Graph, Value, moves
from smelt.frontend.common.moves import as_type
from smelt.frontend.common.values import simplify

from .ops_cast import element_type
from .ops_nn import conv
from .registry import MICROSOFT, Convolving, Floats, Ints, onnx_op, same


def split_heads(g: Build, x: Value, heads: Any) -> Value:
    """[batch, length, heads * size] as [batch, heads, length, size]."""
    batch, length, width = x.shape
    if isinstance(width, int) and isinstance(heads, int) and width % heads:
        g.malformed(f"num_heads={heads} of {width} columns")
    size: Any = simplify(width // heads)
    return moves.transpose(g, moves.reshape(g, x, (batch, length, heads, size)), (0, 2, 1, 3))


def join_heads(g: Build, x: Value) -> Value:
    """[batch, heads, length, size] as [batch, length, heads * size]."""
    batch, heads, length, size = x.shape
    turned = moves.transpose(g, x, (0, 2, 1, 3))
    return moves.reshape(g, turned, (batch, length, simplify(heads * size)))


def _scale(scale: float | None, q: Value, g: Build) -> float:
    """The given factor of the scores, or 1 / sqrt(size of a head)."""
    if scale:
        return scale
    size = q.shape[-1]
    if not isinstance(size, int):
        g.unsupported(f"heads of the size {size} without scale", "a size that is known")
    return 1 / math.sqrt(size)


@onnx_op("FlexAttention", domain="ai.onnx.preview")
def flex_attention(
    g: Build, q: Value, k: Value, v: Value, *, prob_mod: Graph | None = None,
    scale: float | None = None, score_mod: Graph | None = None,
    softmax_precision: int | None = None,
) -> Value:  # fmt: skip
    """softmax(mod(q k^T * scale)) v, where subgraphs change scores and probabilities."""
    for name, x in (("Q", q), ("K", k), ("V", v)):
        if x.rank != 4:
            g.malformed(f"{name} has {x.rank} dimensions, 4 needed")
    batch, heads, length, _ = q.shape
    own = k.shape[1]
    factor = _scale(scale, q, g)
    inner = "float64" if q.dtype == "float64" else "float32"
    if softmax_precision is not None:
        inner = element_type(g, softmax_precision, "softmax_precision")
    group = heads // own if isinstance(heads, int) and isinstance(own, int) else 0
    if not group or group * own != heads:
        g.malformed(f"{heads} heads of Q for {own} of K")
    keys = k.shape[2]
    q5, k5, v5 = q, k, v
    if group > 1:
        q5 = moves.reshape(g, q, (batch, own, group, length, q.shape[3]))
        k5, v5 = moves.expand_dims(g, k, (2,)), moves.expand_dims(g, v, (2,))
    scores = g.call("matmul", q5, k5, transpose_b=True)
    scores = as_type(g, g.call("multiply", scores, factor), inner)
    scores = moves.reshape(g, scores, (batch, heads, length, keys))
    scores = _modified(g, score_mod, scores)
    weights = _modified(g, prob_mod, g.call("softmax", scores, axis=-1))
    weights = as_type(g, weights, v.dtype)
    if group > 1:
        weights = moves.reshape(g, weights, (batch, own, group, length, keys))
    y = g.call("matmul", weights, v5)
    return moves.reshape(g, y, (batch, heads, length, v.shape[3]))


def _modified(g: Build, graph: Graph | None, x: Value) -> Value:
    """What a subgraph of one operand makes of a value."""
    if graph is None:
        return x
    (made,) = g.walk.branch(graph, [x])
    assert isinstance(made, Value)
    return as_type(g, made, x.dtype)


# ----------------------------------------------------------------------- onnxruntime's operators


def _masked(g: Build, wanted: Value, dtype: str, low: float) -> Value:
    """0 where a score is wanted, `low` elsewhere: what is added to scores."""
    return g.call("where", wanted, g.constant(0.0, dtype), g.constant(low, dtype))


def _key_mask(g: Build, mask: Value, dtype: str, low: float, keys: Any) -> Value:
    """A mask of keys as what is added to scores [batch, heads, queries, keys].

    mask  [batch]: how many keys count; [batch, keys] or [batch, queries, keys]: which ones
    """
    if mask.rank == 1:
        numbers = moves.arange(g, 0, keys, 1, "int64")
        count = as_type(g, moves.expand_dims(g, mask, (1,)), "int64")
        mask = as_type(g, g.call("less", moves.expand_dims(g, numbers, (0,)), count), "int32")
    if mask.rank not in (2, 3):
        g.unsupported(f"a mask of {mask.rank} dimensions", "1, 2, 3")
    added = _masked(g, g.call("not_equal", mask, 0), dtype, low)
    return moves.expand_dims(g, added, (1, 2) if mask.rank == 2 else (1,))


def _causal(g: Build, dtype: str, queries: Any, keys: Any, low: float) -> Value:
    """-inf above the diagonal that ends at the last key."""
    rows = moves.arange(g, simplify(keys - queries), keys, 1, "int64")
    columns = moves.arange(g, 0, keys, 1, "int64")
    seen = g.call(
        "less_equal", moves.expand_dims(g, columns, (0,)), moves.expand_dims(g, rows, (1,))
    )
    return _masked(g, seen, dtype, low)


def _attend(
    g: Build, q: Value, k: Value, v: Value, bias: Value | None, which: Value | None, low: float,
    unidirectional: int, scale: float,
) -> Value:  # fmt: skip
    """Attention of heads, with a bias and masks that are added up.

    which  keys count; the others get the score `low`
    """
    masks = [] if bias is None else [bias]
    if which is not None:
        masks.append(_key_mask(g, which, q.dtype, low, k.shape[2]))
    if unidirectional:
        masks.append(_causal(g, q.dtype, q.shape[2], k.shape[2], -math.inf))
    mask: Value | None = None
    for m in masks:
        mask = m if mask is None else g.call("add", mask, m)
    return join_heads(g, g.call("attention", q, k, v, mask, scale=scale))


@onnx_op("Attention", domain=MICROSOFT)
def attention(
    g: Build, x: Value, w: Value, b: Value | None = None, mask_index: Value | None = None,
    past: Value | None = None, attention_bias: Value | None = None,
    past_sequence_length: Value | None = None, *, num_heads: int, do_rotary: int = 0,
    mask_filter_value: float = -10000.0, past_present_share_buffer: int = 0,
    qkv_hidden_sizes: Ints = (), rotary_embedding_dim: int = 0, scale: float = 0.0,
    unidirectional: int = 0,
) -> Value:  # fmt: skip
    """x w + b is q, k and v; mask_index says which keys count."""
    for name, given in (("past", past), ("past_sequence_length", past_sequence_length)):
        if given is not None:
            g.unsupported(f"the operand {name}", "attention without a cache")
    g.one_of("do_rotary", do_rotary, (0,))
    y = g.call("matmul", x, w)
    y = y if b is None else g.call("add", y, b)
    width = y.shape[2]
    sizes = qkv_hidden_sizes or (simplify(width // 3),) * 3
    q, k, v = [split_heads(g, p, num_heads) for p in moves.split(g, y, sizes, 2)]
    low, factor = mask_filter_value, _scale(scale, q, g)
    return _attend(g, q, k, v, attention_bias, mask_index, low, unidirectional, factor)


@onnx_op("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(
    g: Build, query: Value, key: Value | None = None, value: Value | None = None,
    bias: Value | None = None, key_padding_mask: Value | None = None,
    attention_bias: Value | None = None, past_key: Value | None = None,
    past_value: Value | None = None, *, num_heads: int, mask_filter_value: float = -10000.0,
    scale: float = 0.0, unidirectional: int = 0,
) -> tuple[Value, ...]:  # fmt: skip
    """Heads of q, k and v that were projected before; a cache goes in front of k and v."""
    if key is None or value is None or query.rank != 3:
        g.unsupported("q, k and v packed in one operand", "three operands")
    parts = []
    at: Any = 0
    for x in (query, key, value):
        if x.rank == 3:
            if bias is not None:
                end = simplify(at + x.shape[2])
                x = g.call("add", x, moves.along(g, bias, 0, at, end))
                at = end
            x = split_heads(g, x, num_heads)
        parts.append(x)
    q, k, v = parts
    if past_key is not None and past_value is not None:
        k, v = moves.concat(g, [past_key, k], 2), moves.concat(g, [past_value, v], 2)
    low, factor = mask_filter_value, _scale(scale, q, g)
    y = _attend(g, q, k, v, attention_bias, key_padding_mask, low, unidirectional, factor)
    return y, k, v


@onnx_op("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(
    g: Build, x: Value, positions: Value, cos: Value, sin: Value, *, interleaved: int = 0,
    is_packed_batching: int = 0, num_heads: int = 0, rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Value:  # fmt: skip
    """Pairs of columns of each head turned by angles that its position gives."""
    g.one_of("is_packed_batching", is_packed_batching, (0,))
    g.one_of("scale", scale, (1.0,))
    half = cos.shape[1]
    size = rotary_embedding_dim or simplify(half * 2)
    flat = x.rank == 3
    heads = num_heads or (simplify(x.shape[2] // size) if flat else x.shape[1])
    y = split_heads(g, x, heads) if flat else x
    if positions.rank == 1:
        numbers = moves.arange(g, 0, y.shape[2], 1, "int64")
        positions = moves.expand_dims(g, g.call("add", numbers, positions), (0,))
    c, s = [moves.expand_dims(g, moves.take(g, t, positions, 0), (1,)) for t in (cos, sin)]
    whole = y.shape[3]
    turned, rest = moves.split(g, y, (size, simplify(whole - size)), 3)
    if interleaved:
        pairs = moves.reshape(g, turned, (*turned.shape[:3], half, 2))
        a, b = [moves.take(g, pairs, Value.of_array(np.array(i)), 4) for i in (0, 1)]
    else:
        a, b = moves.split(g, turned, (half, half), 3)
    real = g.call("subtract", g.call("multiply", a, c), g.call("multiply", b, s))
    imaginary = g.call("add", g.call("multiply", b, c), g.call("multiply", a, s))
    if interleaved:
        made = moves.reshape(g, moves.stack(g, (real, imaginary), 4), turned.shape)
    else:
        made = moves.concat(g, [real, imaginary], 3)
    made = made if size == whole else moves.concat(g, [made, rest], 3)
    return join_heads(g, made) if flat else made


# ---------------------------------------------------------------------------------- normalisation


def _skipped(
    g: Build, norm: str, x: Value, skip: Value, bias: Value | None, *weights: Value | None,
    epsilon: float,
) -> tuple[Value, ...]:  # fmt: skip
    """norm(x + skip + bias), and the sum; mean and deviation, which stand between, are not made."""
    for k, name in enumerate(g.step.outputs[1:3], 1):
        if name:
            g.unsupported(f"the result {name!r} (number {k})", "the normalised values and the sum")
    total = g.call("add", x, skip)
    total = total if bias is None else g.call("add", total, bias)
    y = g.call(norm, total, *weights, axis=-1, epsilon=epsilon)
    return y, y, y, total


@onnx_op("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_norm(
    g: Build, x: Value, skip: Value, gamma: Value, beta: Value | None = None,
    bias: Value | None = None, *, epsilon: float = 1e-12,
) -> tuple[Value, ...]:  # fmt: skip
    """layer_norm(x + skip + bias), and the sum."""
    return _skipped(g, "layer_norm", x, skip, bias, gamma, beta, epsilon=epsilon)


@onnx_op("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_rms_norm(
    g: Build, x: Value, skip: Value, gamma: Value, bias: Value | None = None, *,
    epsilon: float = 1e-12,
) -> tuple[Value, ...]:  # fmt: skip
    """rms_norm(x + skip + bias), and the sum."""
    return _skipped(g, "rms_norm", x, skip, bias, gamma, epsilon=epsilon)


@onnx_op("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_norm(
    g: Build, ids: Value, segments: Value | None = None, words: Value | None = None,
    places: Value | None = None, kinds: Value | None = None, gamma: Value | None = None,
    beta: Value | None = None, mask: Value | None = None, positions: Value | None = None, *,
    epsilon: float = 1e-12, mask_index_type: int = 1,
) -> tuple[Value, ...]:  # fmt: skip
    """The sum of the embeddings of words, positions and segments, normalised; the length of each
    row by its mask; the sum."""
    if words is None or places is None or gamma is None or beta is None:
        g.malformed("the tables of words and positions, gamma and beta are needed")
    batch, length = ids.shape
    total = moves.take(g, words, ids, 0)
    if positions is None:
        total = g.call("add", total, moves.along(g, places, 0, 0, length))
    else:
        total = g.call("add", total, moves.take(g, places, positions, 0))
    if segments is not None and kinds is not None:
        total = g.call("add", total, moves.take(g, kinds, segments, 0))
    y = g.call("layer_norm", total, gamma, beta, axis=-1, epsilon=epsilon)
    if mask is None:
        count = g.call("full", shape=(batch,), value=0, dtype="int32")
    else:
        count = g.call("sum", mask, axes=(1,), keepdims=False)
    return y, count, total


# ------------------------------------------------------------------------------------ activations


same("Gelu", "x", domain=MICROSOFT)


@onnx_op("BiasGelu", domain=MICROSOFT)
def bias_gelu(g: Build, x: Value, bias: Value) -> Value:
    """gelu(x + bias)."""
    return g.call("gelu", g.call("add", x, bias))


@onnx_op("FastGelu", domain=MICROSOFT)
def fast_gelu(g: Build, x: Value, bias: Value | None = None) -> Value:
    """gelu(x + bias) by tanh."""
    x = x if bias is None else g.call("add", x, bias)
    return g.call("gelu", x, approximate="tanh")


@onnx_op("QuickGelu", domain=MICROSOFT)
def quick_gelu(g: Build, x: Value, *, alpha: float = 1.702) -> Value:
    """x * sigmoid(alpha * x)."""
    scaled = g.call("multiply", x, alpha)
    return g.call("multiply", x, g.call("sigmoid", scaled))


# --------------------------------------------------------------------------------------- products


@onnx_op("FusedMatMul", domain=MICROSOFT)
def fused_matmul(
    g: Build, a: Value, b: Value, *, alpha: float = 1.0, transA: int = 0, transB: int = 0,
    transBatchA: int = 0, transBatchB: int = 0,
) -> Value:  # fmt: skip
    """alpha * a b, the operands transposed."""
    g.one_of("transBatchA", transBatchA, (0,))
    g.one_of("transBatchB", transBatchB, (0,))
    y = g.call("matmul", a, b, transpose_a=bool(transA), transpose_b=bool(transB))
    return y if alpha == 1.0 else g.call("multiply", y, alpha)


_CONV_ACTIVATIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Relu": ("relu", ()),
    "Tanh": ("tanh", ()),
    "Sigmoid": ("sigmoid", ()),
    "LeakyRelu": ("leaky_relu", ("alpha",)),
    "Clip": ("clip", ("min", "max")),
    "HardSigmoid": ("hard_sigmoid", ("alpha", "beta")),
}


@onnx_op("FusedConv", domain=MICROSOFT)
def fused_conv(
    g: Build, x: Value, w: Value, b: Value | None = None, z: Value | None = None, *,
    activation: str = "", activation_params: Floats = (), **attrs: Unpack[Convolving],
) -> Value:  # fmt: skip
    """activation(conv(x, w) + b + z)."""
    y = conv(g, x, w, b, **attrs)
    y = y if z is None else g.call("add", y, z)
    if not activation:
        return y
    g.one_of("activation", activation, tuple(_CONV_ACTIVATIONS))
    name, numbers = _CONV_ACTIVATIONS[activation]
    return g.call(name, y, **dict(zip(numbers, activation_params, strict=False)))
