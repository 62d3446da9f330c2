"""Attention, and the operators that onnxruntime's optimiser writes, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import smelt
from smelt.frontend.onnx import from_onnx
from smelt.ir.errors import Unsupported
from smelt.relax.interpret import interpret

from .models import check, model, random

B, S, D, H = 2, 5, 12, 3
"""Batch, length, columns, heads."""
WORDS, IDS = 11, np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]], np.int32)
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)


def heads(seed: int) -> np.ndarray:
    return random(B, S, D, seed=seed)


def fused(
    op: str, *operands: Any, known: Any = (), outputs: int = 1, every: bool = False, **attrs: Any
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one node of the domain com.microsoft, and its inputs."""
    everything = [*operands, *known]
    names = [f"x{k}" if x is not None else "" for k, x in enumerate(everything)]
    given = {n: x for n, x in zip(names, operands, strict=False) if n}
    fixed = {n: x for n, x in zip(names[len(operands) :], known, strict=True) if n}
    results = [f"y{k}" if k in (0, outputs - 1) or every else "" for k in range(outputs)]
    made = onnx.helper.make_node(op, names, results, domain="com.microsoft", name="it", **attrs)
    shown = [r for r in results if r]
    types = {n: (x.shape, x.dtype) for n, x in given.items()}
    m = model([made], types, shown, fixed)
    if op.startswith("Embed"):
        m.graph.output[1].type.tensor_type.elem_type = onnx.TensorProto.INT32
    m.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    return m, given


X, SKIP, GAMMA = heads(0), heads(1), random(D, seed=2)
W, BIAS = random(D, 3 * D, seed=3) / 3, random(3 * D, seed=4)
TABLES = [random(n, D, seed=k) for k, n in enumerate((WORDS, 8, 2))]
ANGLES = random(9, 2)
COS, SIN = np.cos(ANGLES), np.sin(ANGLES)
IMAGE, FILTERS = random(1, 3, 6, 6), random(4, 3, 3, 3, seed=1)
START = np.array([2], np.int64)
PLACES = np.array([[0, 3, 1, 2, 5], [4, 4, 0, 7, 8]], np.int64)

FUSED: list[Any] = [
    fused("Attention", X, known=(W, BIAS), num_heads=H),
    fused("Attention", X, known=(W, BIAS), num_heads=H, unidirectional=1),
    fused("Attention", X, W, BIAS, MASK, num_heads=H, scale=0.3),
    fused("Attention", X, W, BIAS, MASK.sum(1).astype(np.int32), num_heads=H),
    fused("MultiHeadAttention", heads(0), heads(1), heads(2), num_heads=H),
    fused("MultiHeadAttention", heads(0), heads(1), heads(2), BIAS, MASK, num_heads=H),
    fused("MultiHeadAttention", heads(0), heads(1), heads(2), None, None,
          random(1, 1, S, S, seed=7), num_heads=H, scale=0.4),
    fused("SkipLayerNormalization", X, SKIP, known=(GAMMA, GAMMA, GAMMA), outputs=4),
    fused("SkipLayerNormalization", X, SKIP, known=(GAMMA,), epsilon=1e-3),
    fused("SkipSimplifiedLayerNormalization", X, SKIP, known=(GAMMA,), outputs=4),
    fused("EmbedLayerNormalization", IDS, IDS % 2, known=(*TABLES, GAMMA, GAMMA),
          every=True, outputs=3),
    fused("EmbedLayerNormalization", IDS, None, *TABLES[:2], None, GAMMA, GAMMA, MASK,
          every=True, outputs=2),
    fused("Gelu", X),
    fused("BiasGelu", X, known=(GAMMA,)),
    fused("FastGelu", X, known=(GAMMA,)),
    fused("QuickGelu", X, alpha=1.5),
    fused("FusedMatMul", X, random(2, 7, S, seed=5), alpha=0.5, transA=1, transB=1),
    fused("FusedConv", IMAGE, known=(FILTERS,), activation="LeakyRelu", activation_params=[0.2]),
    fused("FusedConv", IMAGE, known=(FILTERS,), activation="Relu", pads=[1, 1, 1, 1]),
    *[fused("RotaryEmbedding", heads(0), p, known=(COS, SIN), interleaved=i)
      for p in (START, PLACES) for i in (0, 1)],
    fused("RotaryEmbedding", random(B, H, S, 4), PLACES, known=(COS, SIN)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("m", "inputs"), FUSED, ids=[f"{k}-{m.graph.node[0].op_type}" for k, (m, _) in enumerate(FUSED)]
)
def test_fused_operators(m: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> None:
    check(m, inputs, 1e-5)


def test_a_cache_in_front_of_the_keys() -> None:
    past = [random(B, H, 3, D // H, seed=k) for k in (5, 6)]
    m, inputs = fused("MultiHeadAttention", heads(0), heads(1), heads(2), None, None, None, *past,
                      num_heads=H, outputs=3)  # fmt: skip
    y, v = interpret(from_onnx(m)["main"], *inputs.values())
    k = np.concatenate([past[0], heads(1).reshape(B, S, H, -1).transpose(0, 2, 1, 3)], 2)
    want = np.concatenate([past[1], heads(2).reshape(B, S, H, -1).transpose(0, 2, 1, 3)], 2)
    np.testing.assert_array_equal(v, want)
    q = heads(0).reshape(B, S, H, -1).transpose(0, 2, 1, 3)
    scores = np.exp(q @ k.swapaxes(2, 3) / 2)
    weights = scores / scores.sum(-1, keepdims=True)
    np.testing.assert_allclose(
        y, (weights @ v).transpose(0, 2, 1, 3).reshape(B, S, D), rtol=0, atol=1e-5
    )


MODS = """
<ir_version: 10, opset_import: ["" : 22, "ai.onnx.preview" : 1]>
g (float[2,4,L,6] q, float[2,2,T,6] k, float[2,2,T,5] v) => (float[2,4,L,5] y) {
   y = ai.onnx.preview.FlexAttention <
      score_mod: graph = a (scores) => (out) <float two = {2}> { out = Div (scores, two) },
      prob_mod: graph = b (p) => (out) { out = Mul (p, p) }
   > (q, k, v)
}
"""


def test_flex_attention_with_subgraphs_and_shared_heads() -> None:
    m = onnx.parser.parse_model(MODS)
    q, k, v = random(2, 4, 3, 6), random(2, 2, 7, 6, seed=1), random(2, 2, 7, 5, seed=2)
    scores = q @ np.repeat(k, 2, 1).swapaxes(2, 3) / np.sqrt(6) / 2
    e = np.exp(scores)
    p = e / e.sum(-1, keepdims=True)
    want = (p * p) @ np.repeat(v, 2, 1)
    np.testing.assert_allclose(smelt.compile(m)(q, k, v).numpy(), want, rtol=0, atol=1e-5)


def test_what_is_refused() -> None:
    past = random(2, B, H, 3, D // H)
    m, _ = fused("Attention", X, W, BIAS, None, past, num_heads=H)
    with pytest.raises(Unsupported, match="the operand past\n  supported: attention without a cac"):
        smelt.compile(m)
