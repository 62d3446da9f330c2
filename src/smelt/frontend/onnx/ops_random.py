"""Converters of operators with random numbers, and of Dropout.

The numbers are those of the core's Threefry, and follow from the seed: a node with the attribute
`seed` gives the same numbers in every model and at every call. A node without one has a seed that
is made of its name, so that two nodes differ and a compiled model repeats its numbers.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from smelt.frontend.common import Build, Value
from smelt.frontend.common.moves import as_type
from smelt.frontend.common.values import static
from smelt.ir import dtype as dt
from smelt.ir.limits import worth_knowing

from .ops_cast import element_type
from .registry import Ints, onnx_op


def _key(g: Build, seed: float | None) -> Value:
    """The key of a node: the bits of its seed, or the sum of its name in another word."""
    words = np.zeros(10, np.uint64)
    words[8] = 1 << 63
    if seed is None:
        words[2] = 1 + zlib.crc32(g.step.label.encode())
    else:
        words[3] = int(np.array(seed, np.float64).view(np.uint64))
    return Value.of_array(words)


def _drawn(
    g: Build, op: str, first: float, second: float, shape: Sequence[Any], dtype: str,
    seed: float | None,
) -> Value:  # fmt: skip
    """Numbers of a distribution; narrow types are rounded from float32."""
    if not dt.is_float(dtype):
        g.unsupported(f"random numbers of {dtype}", "float16, bfloat16, float32, float64")
    kind = "float64" if dtype == "float64" else "float32"
    parameters = [g.constant(p, kind) for p in (first, second)]
    made = g.calls(op, _key(g, seed), *parameters, shape=tuple(shape), dtype=kind)
    return as_type(g, made[1], dtype)


def uniform(g: Build, shape: Sequence[Any], dtype: str, seed: float | None) -> Value:
    """Numbers from 0 to 1."""
    return _drawn(g, "uniform", 0.0, 1.0, shape, dtype, seed)


def _kind(g: Build, x: Value, dtype: int | None) -> str:
    """The element type that a node names, or the operand's."""
    return x.dtype if dtype is None else element_type(g, dtype, "dtype")


@onnx_op("RandomNormal")
def random_normal(
    g: Build, *, dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float | None = None,
    shape: Ints,
) -> Value:  # fmt: skip
    """Numbers of a normal distribution."""
    return _drawn(g, "normal", mean, scale, shape, element_type(g, dtype, "dtype"), seed)


@onnx_op("RandomUniform")
def random_uniform(
    g: Build, *, dtype: int = 1, high: float = 1.0, low: float = 0.0, seed: float | None = None,
    shape: Ints,
) -> Value:  # fmt: skip
    """Numbers between two bounds."""
    return _drawn(g, "uniform", low, high, shape, element_type(g, dtype, "dtype"), seed)


@onnx_op("RandomNormalLike")
def random_normal_like(
    g: Build, x: Value, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0,
    seed: float | None = None,
) -> Value:  # fmt: skip
    """As many numbers as the operand has."""
    return _drawn(g, "normal", mean, scale, x.shape, _kind(g, x, dtype), seed)


@onnx_op("RandomUniformLike")
def random_uniform_like(
    g: Build, x: Value, *, dtype: int | None = None, high: float = 1.0, low: float = 0.0,
    seed: float | None = None,
) -> Value:  # fmt: skip
    """As many numbers as the operand has."""
    return _drawn(g, "uniform", low, high, x.shape, _kind(g, x, dtype), seed)


@onnx_op("Bernoulli", since=15)
def bernoulli(g: Build, x: Value, *, dtype: int | None = None, seed: float | None = None) -> Value:
    """1 with the probability that the operand gives, else 0."""
    wide = "float64" if x.dtype == "float64" else "float32"
    drawn = g.call("less", uniform(g, x.shape, wide, seed), as_type(g, x, wide))
    return as_type(g, drawn, _kind(g, x, dtype))


@onnx_op("Multinomial", since=7)
def multinomial(
    g: Build, x: Value, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None
) -> Value:
    """Classes drawn by the logarithms of their weights."""
    kind = element_type(g, dtype, "dtype")
    if kind not in ("int32", "int64"):
        g.unsupported(f"dtype={dtype} ({kind})", "int32, int64")
    axes = (x.rank - 1,)
    moved = g.call("subtract", x, g.call("max", x, axes=axes, keepdims=True))
    weights = g.call("exp", moved)
    return g.calls("multinomial", _key(g, seed), weights, num_samples=sample_size, dtype=kind)[1]


# --------------------------------------------------------------------------------------- dropout


def _everything(g: Build, x: Value, dtype: str) -> Value:
    """The mask of a Dropout that drops nothing."""
    dims = [int(d) for d in x.shape] if static(x.shape) else None
    if dims is not None and worth_knowing(math.prod(dims) * dt.bytes_of(dtype)):
        return Value.of_array(np.broadcast_to(np.ones((), dt.to_numpy(dtype)), dims))
    return g.call("full", shape=x.shape, value=1, dtype=dtype)


def _dropped(
    g: Build, x: Value, ratio: Value, seed: float | None, mask: str
) -> tuple[Value, Value]:
    """Elements left out with the probability `ratio`, the others scaled; the mask of a type."""
    wide = "float64" if x.dtype == "float64" else "float32"
    share = as_type(g, ratio, wide)
    kept = g.call("greater_equal", uniform(g, x.shape, wide, seed), share)
    scale = g.call("divide", 1.0, g.call("subtract", 1, share))
    scaled = as_type(g, g.call("multiply", as_type(g, x, wide), scale), x.dtype)
    y = g.call("where", kept, scaled, 0)
    return y, as_type(g, kept, mask)


@onnx_op("Dropout")
def dropout(g: Build, x: Value, *, is_test: int = 0, ratio: float = 0.5) -> tuple[Value, Value]:
    """The operand itself where is_test=1."""
    if is_test:
        return x, _everything(g, x, x.dtype)
    return _dropped(g, x, g.constant(ratio, x.dtype), None, x.dtype)


@onnx_op("Dropout", since=7)
def dropout_7(g: Build, x: Value, *, ratio: float = 0.5) -> tuple[Value, Value]:
    """Inference: the operand itself."""
    return x, _everything(g, x, "bool" if g.opset >= 10 else x.dtype)


@onnx_op("Dropout", since=12)
def dropout_12(
    g: Build, x: Value, ratio: Value | None = None, training_mode: Value | None = None, *,
    seed: int | None = None,
) -> tuple[Value, Value]:  # fmt: skip
    """The operand itself, except in training with a ratio that is not 0."""
    training = training_mode is not None and g.number(training_mode, "training_mode")
    share = g.constant(0.5, "float32") if ratio is None else ratio
    if not training or (share.is_array and g.number(share, "ratio") == 0):
        return x, _everything(g, x, "bool")
    return _dropped(g, x, share, seed, "bool")
