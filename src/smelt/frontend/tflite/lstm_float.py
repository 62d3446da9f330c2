"""LSTMs of floats that the core's operator has not: outputs that are projected, gates that are
normalized, bounds, weights of 8 bits. Step by step."""

from __future__ import annotations

import numpy as np

from smelt.frontend.common import Value, moves
from smelt.frontend.common.moves import as_type

from .hybrid import levels
from .lstm import (
    CELL,
    FORGET,
    INPUT,
    OUTPUT,
    PEEPHOLE,
    PROJECTION,
    RECURRENT,
    WEIGHTS,
    Layer,
    joined,
    over_time,
    parted,
    timed,
)
from .node import Node
from .read import Tensor


def float_lstm(
    g: Node, x: Value, layer: Layer, activation: str, time_major: bool, ranged: bool
) -> Value:
    """A sequence through the layer; its states are kept.

    activation  of what is new, and of the cells that become outputs
    ranged      how floats are quantized for weights that are, see hybrid.levels
    """
    for parts in (layer.weights, layer.recurrent, (layer.projection,)):
        for w in parts:
            if w is not None and w.dtype not in ("float32", "int8"):
                g.unsupported(f"weights of {w.dtype}", "float32, int8")
    if x.dtype != "float32" or layer.h.dtype != "float32" or layer.c.dtype != "float32":
        g.unsupported(f"sequences of {x.dtype} with states of {layer.h.dtype} and {layer.c.dtype}",
                      "float32")  # fmt: skip
    return _Floats(g, layer, activation, ranged).sequence(x, time_major)


class _Floats:
    def __init__(self, g: Node, layer: Layer, activation: str, ranged: bool) -> None:
        self.g, self.layer, self.gates = g, layer, layer.gates
        self.activation, self.ranged = activation, ranged
        self.recurrent = joined(g, layer.recurrent, self.gates)  # all steps read it

    def tensor(self, number: int) -> Tensor:
        """The file's tensor of weights, by their usual number."""
        return self.g.tensor(self.layer.at + number)

    def sequence(self, x: Value, time_major: bool) -> Value:
        """The outputs of all times."""
        g, layer = self.g, self.layer
        x = timed(g, x, time_major)
        rows = moves.reshape(g, x, (-1, x.shape[2]))
        steps = self.products(rows, joined(g, layer.weights, self.gates), WEIGHTS)
        if layer.norms[FORGET] is None:
            steps = g.call("add", steps, joined(g, layer.biases, self.gates))
        steps = moves.reshape(g, steps, (*x.shape[:2], steps.shape[1]))
        outputs, h, c = over_time(g, steps, layer.h, layer.c, self.step)
        for number, v in zip(layer.states, (h, c), strict=True):
            g.keep(number, v)
        return timed(g, outputs, time_major)

    def products(self, x: Value, w: Value, first: int) -> Value:
        """x by the transposed weights of all gates, one behind the other."""
        scales = [self.tensor(first + k).scales for k in self.gates]
        return self.product(x, w, scales)

    def product(self, x: Value, w: Value, scales: list[np.ndarray]) -> Value:
        """x by transposed weights; the scales of those of 8 bits are of equal parts of its rows."""
        g = self.g
        if w.dtype == "float32":
            return g.call("matmul", x, w, transpose_b=True)
        q, scale = levels(g, x, self.ranged)
        sums = g.call("matmul", q, w, transpose_b=True, out_dtype="int32")
        rows = g.extent(w, 0, "weights of 8 bits") // len(scales)
        own = np.concatenate([np.broadcast_to(s, (rows,)) for s in scales])
        return g.call(
            "multiply", as_type(g, sums, "float32"), g.call("multiply", scale, g.known(own))
        )

    def step(self, given: Value, h: Value, c: Value) -> tuple[Value, Value]:
        """Outputs and cells after a time."""
        g, layer = self.g, self.layer
        y = g.call("add", given, self.products(h, self.recurrent, RECURRENT))
        parts = parted(g, y, self.gates)
        forget = self.opened(FORGET, parts[FORGET], c)
        if INPUT in parts:
            enter = self.opened(INPUT, parts[INPUT], c)
        else:
            enter = g.call("subtract", 1.0, forget)
        new = self.opened(CELL, parts[CELL], c)
        c = g.call("add", g.call("multiply", forget, c), g.call("multiply", enter, new))
        c = self.bounded(c, layer.cell_clip)
        leave = self.opened(OUTPUT, parts[OUTPUT], c)
        return self.output(g.call("multiply", leave, g.call(self.activation, c))), c

    def opened(self, gate: int, y: Value, c: Value) -> Value:
        """A gate behind its function."""
        g, peephole, norm = self.g, self.layer.peepholes[gate], self.layer.norms[gate]
        if peephole is not None:
            if peephole.dtype != "float32":
                scale = g.known(g.scale(self.tensor(PEEPHOLE[gate])))
                peephole = g.call("multiply", as_type(g, peephole, "float32"), scale)
            y = g.call("add", y, g.call("multiply", c, peephole))
        if norm is not None:
            bias = self.layer.biases[gate]
            assert bias is not None
            y = g.call("add", g.call("multiply", self.normal(y), norm), bias)
        return g.call(self.activation if gate == CELL else "sigmoid", y)

    def normal(self, y: Value) -> Value:
        """Rows with the mean 0 and the variance 1."""
        g = self.g
        away = g.call("subtract", y, g.call("mean", y, axes=(1,), keepdims=True))
        variance = g.call("mean", g.call("multiply", away, away), axes=(1,), keepdims=True)
        return g.call("multiply", away, g.call("rsqrt", g.call("add", variance, 1e-8)))

    def output(self, y: Value) -> Value:
        """What becomes of the cells' outputs."""
        g, layer = self.g, self.layer
        if layer.projection is None:
            return y
        y = self.product(y, layer.projection, [self.tensor(PROJECTION).scales])
        if layer.projection_bias is not None:
            y = g.call("add", y, layer.projection_bias)
        return self.bounded(y, layer.proj_clip)

    def bounded(self, x: Value, end: float) -> Value:
        """Clipped, where there is a bound."""
        return self.g.call("clip", x, min=-end, max=end) if end else x
