"""Converters of the fused operators that onnxruntime's optimiser writes (domain com.microsoft)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from smelt.frontend.common import Build, Value, moves

from .ops_attention import MICROSOFT
from .ops_nn import conv
from .registry import Convolving, Floats, onnx_op

# ---------------------------------------------------------------------------------- normalisation


def _unused(g: Build, first: int, last: int) -> None:
    """Unsupported where one of these results is used."""
    for k, name in enumerate(g.step.outputs[first:last], first):
        if name:
            g.unsupported(f"the result {name!r} (number {k})", "the normalised values and the sum")


def _total(g: Build, x: Value, skip: Value, bias: Value | None) -> Value:
    total = g.call("add", x, skip)
    return total if bias is None else g.call("add", total, bias)


@onnx_op("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_norm(
    g: Build, x: Value, skip: Value, gamma: Value, beta: Value | None = None,
    bias: Value | None = None, *, epsilon: float = 1e-12,
) -> tuple[Value, ...]:  # fmt: skip
    """layer_norm(x + skip + bias), and the sum."""
    _unused(g, 1, 3)
    total = _total(g, x, skip, bias)
    y = g.call("layer_norm", total, gamma, beta, axis=-1, epsilon=epsilon)
    return y, y, y, total


@onnx_op("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_rms_norm(
    g: Build, x: Value, skip: Value, gamma: Value, bias: Value | None = None, *,
    epsilon: float = 1e-12,
) -> tuple[Value, ...]:  # fmt: skip
    """rms_norm(x + skip + bias), and the sum."""
    _unused(g, 1, 3)
    total = _total(g, x, skip, bias)
    y = g.call("rms_norm", total, gamma, axis=-1, epsilon=epsilon)
    return y, y, y, total


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


@onnx_op("Gelu", domain=MICROSOFT)
def gelu(g: Build, x: Value) -> Value:
    """x / 2 * (1 + erf(x / sqrt(2)))."""
    return g.call("gelu", x)


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
    plain: Callable[..., Value] = conv
    y = plain(g, x, w, b, **attrs)
    y = y if z is None else g.call("add", y, z)
    if not activation:
        return y
    g.one_of("activation", activation, tuple(_CONV_ACTIVATIONS))
    name, numbers = _CONV_ACTIVATIONS[activation]
    return g.call(name, y, **dict(zip(numbers, activation_params, strict=False)))
