"""Weights of few bits: products dequantize them, block by block, and work on floats."""

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
    weights = [v.weights for n, v in layers.items() if forms[n][0] != "float32"]
    axes = {v.weights: 1 - v.axis for v in layers.values() if v.axis is not None}
    whole = {w: _dequantized(w, axes[w], settings) for w in dict.fromkeys(weights)}
    calls = {v.call: v for n, v in layers.items() if forms[n][0] != "float32"}
    for table in tables_of(f):
        if table not in whole:
            whole[table] = _dequantized(table, 1, settings)

    def put(old: Node, fresh: RelaxExpr) -> RelaxExpr | None:
        layer = calls.get(old)  # type: ignore[call-overload]
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
