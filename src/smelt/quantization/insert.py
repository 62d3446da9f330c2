"""Quantize and dequantize come into a function: a QDQ model, in which each says what it rounds."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from smelt.ir.node import Node
from smelt.relax.graph import on_parts
from smelt.relax.nodes import Call, Constant, Function, RelaxExpr, call, constant, renewed_call
from smelt.relax.transform.fold_scale import vector_along
from smelt.relax.transform.match import is_op, rank_of

from .numbers import Affine, Weights, quantize_weights
from .points import Graph, Layer, Points, bias_of
from .statistics import Array

Switch = Callable[[frozenset[str]], RelaxExpr]
"""Of layers a bool of the run: whether one of them is quantized."""

_BIAS_BITS = 28
"""Biases stay below 2 ** 28 steps, and corrected ones below 2 ** 29, so that twice a sum has room
in int32: readers keep larger ones in floats."""


@dataclass
class Plan:
    """What becomes of a function.

    affine  how each value is quantized, by the one that stands for its group
    bits    of weights
    scales  of weights: one of WEIGHT_SCALES
    search  whether scales of weights are searched
    tables  constants of which rows are gathered: integers with one scale
    bias    what is added to the bias of a layer, by name
    """

    points: Points
    affine: Mapping[RelaxExpr, Affine]
    bits: int = 8
    scales: str = "channel"
    search: bool = False
    tables: Collection[RelaxExpr] = ()
    bias: Mapping[str, Array] = field(default_factory=dict)
    _weights: dict[str, Weights] = field(default_factory=dict)

    def of(self, v: RelaxExpr) -> Affine:
        """How a value is quantized."""
        return self.affine[self.points.groups.find(v)]

    def weights_of(self, layer: Layer) -> Weights:
        """The weights of a layer as integers."""
        found = self._weights.get(layer.name)
        if found is None:
            axis = layer.axis if self.scales == "channel" else None
            w = layer.weights.data.view(np.ndarray)
            found = quantize_weights(w, axis, self.bits, self.search, self._least(layer, axis),
                                     self.scales == "power2")  # fmt: skip
            self._weights[layer.name] = found
        return found

    def _least(self, layer: Layer, axis: int | None) -> Array:
        """The smallest scales of weights with which the bias of a layer fits into int32."""
        b = bias_vector(layer)
        if b is None:
            return np.zeros(1 if axis is None else layer.weights.data.shape[axis])
        least: Array = np.abs(b) / (self.of(layer.x).scale * 2.0**_BIAS_BITS)
        return least.max(keepdims=True) if axis is None else least


def bias_vector(layer: Layer) -> Array | None:
    """What a layer adds to its channels, one number for each."""
    c = None if layer.bias is None else bias_of(layer, layer.bias)
    v = None if c is None else vector_along(c.data, rank_of(layer.call), layer.channel)
    return None if v is None else np.asarray(v, np.float64)


def insert(f: Function, plan: Plan, switch: Switch | None = None) -> Function:
    """A function whose layers are between dequantize and quantize.

    switch  decides while it runs which layers are; None: all
    """
    return insert_traced(f, plan, switch)[0]


def insert_traced(
    f: Function, plan: Plan, switch: Switch | None = None
) -> tuple[Function, Mapping[Node, RelaxExpr]]:
    """The same, and what became of each value, before it is rounded itself."""
    made = _Insertion(plan, switch)
    for node in Graph(f).order:
        made.enter(node)
    return f.replace(body=made.raw[f.body]), made.raw


class _Insertion:
    """One function being rewritten.

    raw  the new form of each value
    """

    def __init__(self, plan: Plan, switch: Switch | None) -> None:
        self.plan, self.points, self.switch = plan, plan.points, switch
        self.raw: dict[Node, RelaxExpr] = {}
        self.rounded: dict[RelaxExpr, RelaxExpr] = {}
        self.tables: dict[RelaxExpr, RelaxExpr] = {}
        self.products = {v.call: v for v in plan.points.layers.values()}
        self.biases = {v.bias: v for v in plan.points.layers.values() if v.bias is not None}

    def enter(self, node: RelaxExpr) -> None:
        """Make the new form of a value; its parts have theirs."""
        layer = self.products.get(node)  # type: ignore[call-overload]
        if layer is not None:
            self.raw[node] = self._product(layer)
        elif is_op(node, "gather") and node.args[0] in self.plan.tables and not self.switch:
            self.raw[node] = self._gather(node)
        elif node in self.biases:
            self.raw[node] = self._add_bias(self.biases[node])
        else:
            own = [p for p in node.children() if isinstance(p, RelaxExpr)]
            parts: dict[Node, RelaxExpr] = {p: self._part(node, p) for p in own}
            self.raw[node] = on_parts(node, ChainMap(parts, self.raw))

    def _gather(self, node: Call) -> RelaxExpr:
        """Rows of a table."""
        table, *rest = node.args
        assert isinstance(table, Constant)
        w = quantize_weights(table.data.view(np.ndarray), None, self.plan.bits)
        whole = self.tables.setdefault(table, _dequantized(table, w))
        return renewed_call(node, whole, *[None if a is None else self.raw.get(a, a) for a in rest])

    def _part(self, user: RelaxExpr, v: RelaxExpr) -> RelaxExpr:
        """A value as an operator takes it."""
        if self.points.takes(user, v):
            return self._rounded(v)
        return self.raw.get(v, v)

    def _rounded(self, v: RelaxExpr) -> RelaxExpr:
        """A value after it was quantized."""
        found = self.rounded.get(v)
        if found is None:
            a, x = self.plan.of(v), self.raw[v]
            scale, zero = _scalar(a.scale, "float32"), _scalar(a.zero, a.dtype)
            name = v.name if isinstance(v, Call) else ""
            q = call("quantize", x, scale, zero, out_dtype=a.dtype, name=name and f"{name}_q")
            found = call("dequantize", q, scale, zero, name=name and f"{name}_dq")
            found = self._chosen(found, x, self.points.values[v])
            self.rounded[v] = found
        return found

    def _chosen(self, a: RelaxExpr, b: RelaxExpr, layers: frozenset[str]) -> RelaxExpr:
        """The quantized form, or where the run decides one of both."""
        return a if self.switch is None else call("where", self.switch(layers), a, b)

    def _product(self, layer: Layer) -> RelaxExpr:
        """A layer's product."""
        w = self.plan.weights_of(layer)
        if self.switch is None:
            weights: RelaxExpr = _dequantized(layer.weights, w)
        else:
            own = frozenset([layer.name])
            weights = self._chosen(constant(w.floats()), layer.weights, own)
        x = self._part(layer.call, layer.x)
        args = [x, weights] if layer.weight_at else [weights, x]
        made: RelaxExpr = renewed_call(layer.call, *args)
        more = self.plan.bias.get(layer.name)
        if layer.bias is None and more is not None:
            made = call("add", made, self._bias(layer, np.zeros(more.size), more))
        return made

    def _add_bias(self, layer: Layer) -> RelaxExpr:
        """A layer's sums and its bias."""
        b = bias_vector(layer)
        assert b is not None
        assert layer.bias is not None
        more = self.plan.bias.get(layer.name, np.zeros(b.size))
        return renewed_call(layer.bias, self.raw[layer.call], self._bias(layer, b, more))

    def _bias(self, layer: Layer, plain: Array, more: Array) -> RelaxExpr:
        """A bias and its correction as integers in the steps of a layer's sums."""
        behind = rank_of(layer.call) - layer.channel - 1
        shape = (-1, *[1] * behind)
        b = plain + more
        if self.switch is not None:
            on, off = (constant(v.astype(np.float32).reshape(shape)) for v in (b, plain))
            return self._chosen(on, off, frozenset([layer.name]))
        w = self.plan.weights_of(layer)
        scale = np.float32(self.plan.of(layer.x).scale) * w.scale
        limit = 2.0**_BIAS_BITS * 2 - 1
        q = np.clip(np.round(b / scale.astype(np.float64)), -limit, limit).astype(np.int32)
        kept = layer.bias and bias_of(layer, layer.bias)
        held = constant(q, kept.name if kept else f"{layer.name}_bias")
        floats = call("dequantize", held, constant(np.asarray(scale, np.float32)), axis=0)
        return call("reshape", floats, shape=(q.size, *shape[1:])) if behind else floats


def _dequantized(c: Constant, w: Weights) -> Call:
    """Weights as they stand in a model."""
    zero = np.zeros(w.scale.shape, np.int8)
    return call("dequantize", constant(w.data, c.name), constant(w.scale), constant(zero),
                axis=0 if w.axis is None else w.axis)  # fmt: skip


def _scalar(value: float, dtype: str) -> Constant:
    return constant(np.asarray(value, dtype))
