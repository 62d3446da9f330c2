"""Weights of few bits: products dequantize them, block by block, and work on floats, or on bytes
that they make of these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from smelt.ir.node import Node
from smelt.relax.graph import transform
from smelt.relax.nodes import Call, Constant, Function, RelaxExpr, call, constant, renewed_call
from smelt.relax.transform.match import is_op

from .numbers import quantize_blocks
from .points import Layer, tables_of
from .settings import Settings

Form = tuple[str, str]
"""What weights become, and why they stay in floats."""


def quantize_weights_only(
    f: Function, layers: Mapping[str, Layer], settings: Settings
) -> tuple[Function, dict[str, Form]]:
    """A function whose products of matrices have integers as weights, tables of embeddings, too;
    and what became of each layer."""
    forms = {n: _form(v, settings) for n, v in layers.items()}
    calls = {v.call: v for n, v in layers.items() if forms[n][0] != "float32"}
    rounded = {c for c, v in calls.items() if settings.activations == "dynamic" and _takes_bytes(v)}
    axes = {v.weights: 1 - v.axis for v in layers.values() if v.axis is not None}
    weights = dict.fromkeys([v.weights for c, v in calls.items() if c not in rounded])
    whole = {w: _dequantized(w, axes[w], settings) for w in weights}
    for table in tables_of(f):
        if table not in whole:
            whole[table] = _dequantized(table, 1, settings)

    def put(old: Node, fresh: RelaxExpr) -> RelaxExpr | None:
        layer = calls.get(old)  # type: ignore[call-overload]
        if layer is not None and layer.call in rounded:
            assert isinstance(fresh, Call)
            return _rounded(layer, fresh, settings)
        if layer is not None or (is_op(old, "gather") and old.args[0] in whole):
            assert isinstance(fresh, Call)
            given = [whole.get(a, a) if isinstance(a, Constant) else a for a in fresh.args]
            return renewed_call(fresh, *given)
        return None

    return transform(f, put), forms


def _form(layer: Layer, settings: Settings) -> Form:
    if layer.name in settings.keep:
        return "float32", "asked for"
    if layer.call.callee != "matmul" or layer.axis is None:
        return "float32", "only weights of products of two matrices are stored in few bits"
    if layer.weights.data.shape[1 - layer.axis] < 2:
        return "float32", "there is nothing to sum over"
    return settings.weights, ""


def _takes_bytes(layer: Layer) -> bool:
    """Whether it is a product of rows with a matrix."""
    attrs = layer.call.attrs
    return layer.weight_at == 1 and not (attrs["transpose_a"] or attrs["out_dtype"])


def _rounded(layer: Layer, fresh: Call, settings: Settings) -> RelaxExpr:
    """The product with blocks of integers, for which each block of a row may be rounded."""
    data, axis = layer.weights.data.view(np.ndarray), 1 - (layer.axis or 0)
    size, block = data.shape[axis], settings.block
    filled = np.pad(data, [(0, -size % block if d == axis else 0) for d in range(2)])
    made = quantize_blocks(filled, axis, block, 4, settings.method == "mse")
    q = constant(made.data.take(np.arange(size), axis).astype(ml_dtypes.int4), layer.weights.name)
    return call("matmul_in_blocks", fresh.args[0], q, constant(made.scale), block=block,
                transpose=axis == 1, compute_dtype="int8", name=fresh.name)  # fmt: skip


def _dequantized(w: Constant, axis: int, settings: Settings) -> RelaxExpr:
    """A constant as integers with a scale for each block of an axis."""
    data = w.data.view(np.ndarray)
    size = data.shape[axis]
    block = settings.block if size % settings.block == 0 else size
    bits = 4 if settings.weights == "int4" else 8
    made = quantize_blocks(data, axis, block, bits, settings.method == "mse")
    dtype: Any = ml_dtypes.int4 if bits == 4 else np.int8
    apart = (*data.shape[:axis], size // block, block, *data.shape[axis + 1 :])
    scale = np.expand_dims(made.scale, axis + 1)
    zero = np.zeros(scale.shape, dtype)
    held = constant(made.data.reshape(apart).astype(dtype), w.name)
    floats = call("dequantize", held, constant(scale), constant(zero))
    return call("reshape", floats, shape=data.shape)
