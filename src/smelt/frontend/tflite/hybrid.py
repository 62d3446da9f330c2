"""Products of floats with weights of 8 bits: each item of a batch is quantized while the model
runs, by the largest magnitude in it, or by its range."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from smelt.frontend.common import Value, moves
from smelt.frontend.common.moves import as_type

from .layout import last
from .node import Node
from .quantized import activated
from .read import ModelFile, Tensor
from .registry import Ints

_PRODUCTS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")


def is_hybrid(g: Node, x: Value, w: Value) -> bool:
    """Whether a node multiplies floats with quantized weights."""
    return x.dtype == g.out.dtype == "float32" and w.dtype == "int8" and g.tensor(1).quantized


def in_floats(model: ModelFile) -> ModelFile:
    """A model whose products of floats with quantized weights have these in floats, too."""
    arrays, tensors = dict(model.graph.arrays), dict(model.tensors)
    for step in model.graph.steps:
        if step.op not in _PRODUCTS or len(step.inputs) < 2:
            continue
        x, w = (model.tensors[n] for n in step.inputs[:2])
        kinds = x.dtype, model.tensors[step.outputs[0]].dtype, w.dtype
        if kinds != ("float32", "float32", "int8") or not w.quantized or w.name not in arrays:
            continue
        shape = [-1 if d == w.axis else 1 for d in range(len(w.shape))] if w.scales.size > 1 else ()
        scale, zero = w.scales.reshape(shape), w.zeros.reshape(shape)
        arrays[w.name] = ((model.graph.arrays[w.name] - zero) * scale).astype(np.float32)
        tensors[w.name] = Tensor(w.name, "float32", w.shape)
    return replace(model, graph=replace(model.graph, arrays=arrays), tensors=tensors)


def levels(g: Node, x: Value, ranged: bool) -> tuple[Value, Value]:
    """Whole numbers of 9 bits, in int16, that times a scale for each item are about x.

    ranged  whether all 256 numbers stand for the item's range, or 255 for its largest magnitude
    """
    axes = tuple(range(1, x.rank))
    if ranged:
        return _ranged(g, x, axes)
    most = g.call("max", g.call("abs", x), axes=axes, keepdims=True)
    empty = g.call("equal", most, 0.0)
    scale = g.call("where", empty, 1.0, g.call("divide", most, 127.0))
    inverse = g.call("divide", 127.0, g.call("where", empty, 127.0, most))
    q = g.call("round", g.call("multiply", x, inverse), mode="away")
    return as_type(g, g.call("clip", q, min=-127.0, max=127.0), "int16"), scale


def _ranged(g: Node, x: Value, axes: Ints) -> tuple[Value, Value]:
    low, high = (
        as_type(g, g.call(end, g.call(op, x, axes=axes, keepdims=True), 0.0), "float64")
        for op, end in (("min", "minimum"), ("max", "maximum"))
    )
    empty = g.call("equal", low, high)
    exact = g.call("divide", g.call("subtract", high, low), 255.0)
    exact = g.call("where", empty, 1.0, exact)
    below, above = g.call("divide", low, exact), g.call("divide", high, exact)
    first, second = g.call("subtract", -128.0, below), g.call("subtract", 127.0, above)
    nearer = g.call(
        "less", g.call("add", 128.0, g.call("abs", below)),
        g.call("add", 127.0, g.call("abs", above)),
    )  # fmt: skip
    zero = g.call("round", g.call("where", nearer, first, second), mode="away")
    zero = as_type(g, g.call("clip", zero, min=-128.0, max=127.0), "float32")
    zero = g.call("where", empty, 0.0, zero)
    scale = as_type(g, exact, "float32")
    steps = g.call("multiply", x, g.call("divide", 1.0, scale))
    q = g.call("round", g.call("add", zero, steps), mode="away")
    q = g.call("clip", q, min=-128.0, max=127.0)
    return as_type(g, g.call("subtract", q, zero), "int16"), scale


def _scales(g: Node, shape: Ints) -> Value:
    """The weight's scale, or those of its channels in a shape that broadcasts."""
    found = g.tensor(1).scales
    return g.known(found.reshape(shape) if found.size > 1 else np.float32(found[0]))


def finished(
    g: Node, sums: Value, scale: Value, bias: Value | None, spatial: int, activation: int
) -> Value:
    """Sums of whole numbers as floats; channels stand in front of `spatial` dimensions."""
    weights = _scales(g, (-1, *(1,) * spatial))
    y = g.call("multiply", as_type(g, sums, "float32"), g.call("multiply", scale, weights))
    if bias is not None:
        y = g.call("add", y, moves.reshape(g, bias, (bias.shape[0], *(1,) * spatial)))
    return activated(g, y, activation)


def convolved(
    g: Node, image: Value, w: Value, bias: Value | None, groups: int, activation: int,
    placed: dict[str, Ints], ranged: bool,
) -> Value:  # fmt: skip
    """An image [n, c, h, w] with filters, as an image of TFLite's."""
    q, scale = levels(g, image, ranged)
    y = g.call(f"conv{image.rank - 2}d", q, w, groups=groups, out_dtype="int32", **placed)
    return last(g, finished(g, y, scale, bias, image.rank - 2, activation))
