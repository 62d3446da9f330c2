"""LSTMs of whole numbers: inputs and outputs of 8 bits, gates and cells of 16.

Gates stand in steps of 2 ** -12, or of the scale of a tensor of the operator's own where they are
normalized, what comes out of their functions in steps of 2 ** -15, cells in those of a power of
two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from smelt.frontend.common import Value, moves
from smelt.frontend.common.moves import as_type
from smelt.relax.compose.integer import product_sums

from . import fixed
from .fixed_graph import inverse_root, multiplied, wide
from .lstm import (
    CELL,
    FORGET,
    INPUT,
    NORMS,
    OUTPUT,
    PEEPHOLE,
    PROJECTION,
    RECURRENT,
    STATES,
    WEIGHTS,
    Layer,
    joined,
    over_time,
    parted,
    timed,
)
from .node import Node
from .quantized import looked_up_in, scaled, table_of

HIDDEN = 4
"""The number of the operator's own tensor of outputs before a projection; those before it are of
gates that are normalized."""


def integer_lstm(g: Node, x: Value, layer: Layer, time_major: bool) -> Value:
    """A sequence through the layer; its states are kept."""
    return _Integers(g, layer).sequence(x, time_major)


class _Integers:
    """A layer, and its scales."""

    def __init__(self, g: Node, layer: Layer) -> None:
        self.g, self.layer, self.gates = g, layer, layer.gates
        x, h, c = g.tensor(0), g.tensor(STATES), g.tensor(STATES + 1)
        types = (x.dtype, g.out.dtype, h.dtype, c.dtype)
        if types != ("int8", "int8", "int8", "int16"):
            g.unsupported(f"sequences of {x.dtype} and {g.out.dtype} with states of {h.dtype} and "
                          f"{c.dtype}", "int8 with states of int8 and int16")  # fmt: skip
        part, power = math.frexp(float(g.scale(c)))
        if part != 0.5 or not -15 <= power - 1 <= -9:
            g.unsupported(
                f"cells in steps of {g.scale(c)}", "powers of two from 2 ** -15 to 2 ** -9"
            )
        if len(g.inner) != HIDDEN + 1:
            g.unsupported(f"{len(g.inner)} tensors of the operator's own", "5: gates of 16 bits")
        self.power = power - 1
        self.hidden = g.inner[HIDDEN]
        self.normalized = layer.norms[FORGET] is not None
        # what all steps read, once
        self.recurrent = joined(g, layer.recurrent, self.gates)
        self.sigmoid = self.table(fixed.logistic, 3)
        self.tanh, self.of_cells = (
            self.table(fixed.tanh, 3),
            self.table(fixed.tanh, 15 + self.power),
        )

    def table(self, fn: Callable[[Any, int, int], Any], integer: int) -> Value:
        """A function of all numbers of 16 bits, so many of them integer ones."""
        return table_of(self.g, "int16", lambda v: fn(v, integer, 16).astype(np.int16))

    def sequence(self, x: Value, time_major: bool) -> Value:
        """The outputs of all times."""
        g, layer = self.g, self.layer
        steps = self.inputs(timed(g, x, time_major))
        outputs, h, c = over_time(g, steps, layer.h, layer.c, self.step)
        g.keep(STATES, h)
        g.keep(STATES + 1, c)
        return timed(g, outputs, time_major)

    # ------------------------------------------------------------------------------ products

    def step_of(self, gate: int) -> np.float32:
        """The scale of a gate before its function."""
        return self.g.scale(self.g.inner[gate]) if self.normalized else np.float32(2**-12)

    def ratios(self, first: int, source: np.float32) -> Any:
        """The scales of products with the weights of the gates in steps of these."""
        g = self.g
        cells = g.extent(self.layer.c, 1, "cells of 16 bits")
        each = [g.scale(g.tensor(first + k)) * source / self.step_of(k) for k in self.gates]
        return np.repeat(np.array(each, np.float64), cells)

    def product(self, x: Value, w: Value, zero: int) -> Value:
        """Sums of products of distances from a zero point with weights [columns, depth]."""
        g = self.g
        return g.composed(product_sums, x, w, g.known(zero, "int32"), g.known(0, "int32"), False,
                          True)  # fmt: skip

    def rescaled(self, sums: Value, ratio: Any, dtype: str) -> Value:
        """Sums in other steps, for each column."""
        g = self.g
        return g.call("requantize", sums, g.known(ratio), None, g.known(np.float32(1)), None,
                      axis=-1, out_dtype=dtype, rounding="twice")  # fmt: skip

    def inputs(self, x: Value) -> Value:
        """What the input adds to the gates at all times."""
        g, source = self.g, self.g.tensor(0)
        rows = moves.reshape(g, x, (-1, x.shape[2]))
        y = self.product(rows, joined(g, self.layer.weights, self.gates), g.zero(source))
        if not self.normalized:
            y = g.call("add", y, joined(g, self.layer.biases, self.gates))
        y = self.rescaled(y, self.ratios(WEIGHTS, g.scale(source)), "int16")
        return moves.reshape(g, y, (*x.shape[:2], -1))

    # ----------------------------------------------------------------------------------- steps

    def step(self, given: Value, h: Value, c: Value) -> tuple[Value, Value]:
        """Outputs and cells after a time."""
        g, state = self.g, self.g.tensor(STATES)
        y = self.product(h, self.recurrent, g.zero(state))
        y = self.rescaled(y, self.ratios(RECURRENT, g.scale(state)), "int32")
        parts = parted(g, self.added(as_type(g, given, "int32"), y), self.gates)
        forget = self.opened(FORGET, parts[FORGET], c)
        if INPUT in parts:
            enter = self.opened(INPUT, parts[INPUT], c)
        else:
            enter = g.call("subtract", g.known(32767, "int32"), forget)
        new = self.opened(CELL, parts[CELL], c)
        kept = self.halved(self.times(forget, as_type(g, c, "int32")), 15)
        entered = self.halved(self.times(enter, new), 30 + self.power)
        cells = self.clipped(g.call("add", kept, entered), *self.cell_range())
        c = as_type(g, cells, "int16")
        leave = self.opened(OUTPUT, parts[OUTPUT], c)
        seen = self.looked_up(self.of_cells, c)
        return self.output(self.times(leave, seen)), c

    def opened(self, gate: int, y: Value, c: Value) -> Value:
        """A gate behind its function."""
        g, peephole, norm = self.g, self.layer.peepholes[gate], self.layer.norms[gate]
        if peephole is not None:
            weight = g.scale(g.tensor(PEEPHOLE[gate]))
            ratio = np.float32(2.0**self.power) * weight / self.step_of(gate)
            seen = self.times(as_type(g, c, "int32"), as_type(g, peephole, "int32"))
            y = self.added(y, scaled(g, seen, float(ratio)))
        if norm is not None:
            y = self.normal(gate, y, norm)
        table = self.tanh if gate == CELL else self.sigmoid
        return self.looked_up(table, as_type(g, y, "int16"))

    def normal(self, gate: int, y: Value, norm: Value) -> Value:
        """A gate with the mean 0 and the variance 1 over the cells, by weights and biases."""
        g, bias = self.g, self.layer.biases[gate]
        assert bias is not None
        scale = g.scale(g.tensor(NORMS + gate))
        count = g.extent(y, 1, "a normalization")
        y = as_type(g, y, "int64")
        total = g.call("sum", y, axes=(1,), keepdims=True)
        squares = g.call("sum", g.call("multiply", y, y), axes=(1,), keepdims=True)
        mean = g.call("divide", g.call("multiply", total, wide(g, 1024)), wide(g, count))
        variance = g.call("subtract", g.call("multiply", squares, wide(g, (1 << 20) // count)),
                          g.call("multiply", mean, mean))  # fmt: skip
        variance = g.call("divide", variance, wide(g, 1 << 20))
        least = max(1, int(np.float32(10000) * scale))
        variance = g.call("where", g.call("less", variance, wide(g, 1)), wide(g, least), variance)
        away = g.call("subtract", g.call("multiply", y, wide(g, 1024)), mean)
        y = multiplied(g, away, *inverse_root(g, variance))
        y = g.call("add", g.call("multiply", y, as_type(g, norm, "int64")),
                   as_type(g, bias, "int64"))  # fmt: skip
        half = g.call("where", g.call("greater", y, wide(g, 0)), wide(g, 512), wide(g, -512))
        y = g.call("divide", g.call("add", y, half), wide(g, 1024))
        return self.clipped(scaled(g, as_type(g, y, "int32"), float(scale) * 4096), -32768, 32767)

    def output(self, y: Value) -> Value:
        """Outputs of products of gates and functions of cells, in steps of 2 ** -30."""
        g, layer, state = self.g, self.layer, self.g.tensor(STATES)
        ratio = np.float32(2.0**-15 / float(g.scale(self.hidden)) * 2.0**-15)
        # the kernel takes the zero point of what it projects with the other sign
        zero = g.zero(self.hidden) * (1 if layer.projection is None else -1)
        y = g.call("add", scaled(g, y, float(ratio)), g.known(zero, "int32"))
        y = as_type(g, self.clipped(y, -128, 127), "int8")
        if layer.projection is None:
            return y
        y = self.product(y, layer.projection, zero)
        if layer.projection_bias is not None:
            y = g.call("add", y, layer.projection_bias)
        weight = g.scale(g.tensor(PROJECTION))
        y = scaled(g, y, float(weight * g.scale(self.hidden) / g.scale(state)))
        y = g.call("add", y, g.known(g.zero(state), "int32"))
        low, high = -128, 127
        if layer.proj_clip:
            end = self.clip(layer.proj_clip, g.scale(g.out), high)
            low, high = max(low, -end), min(high, end)
        return as_type(g, self.clipped(y, low, high), "int8")

    # ---------------------------------------------------------------------------------- numbers

    def clip(self, bound: float, scale: np.float32, most: int) -> int:
        return int(min(np.float32(bound) / scale, np.float32(most)))

    def cell_range(self) -> tuple[int, int]:
        if not self.layer.cell_clip:
            return -32768, 32767
        end = self.clip(self.layer.cell_clip, self.g.scale(self.g.tensor(STATES + 1)), 32767)
        return -end, end

    def clipped(self, x: Value, low: int, high: int) -> Value:
        return self.g.call("clip", x, min=low, max=high)

    def added(self, a: Value, b: Value) -> Value:
        return self.clipped(self.g.call("add", a, b), -32768, 32767)

    def times(self, a: Value, b: Value) -> Value:
        return self.g.call("multiply", a, b)

    def halved(self, x: Value, bits: int) -> Value:
        """x / 2 ** bits, halves away from zero."""
        return scaled(self.g, x, 2.0**-bits, "away")

    def looked_up(self, table: Value, x: Value) -> Value:
        """A function of 16-bit numbers, in int32."""
        return as_type(self.g, looked_up_in(self.g, table, x), "int32")
