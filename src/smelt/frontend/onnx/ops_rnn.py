"""Converters of recurrent layers: the input's projection as one matmul, then the core's recurrence.

Each direction is a recurrence of its own; the results of two are put together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, Unpack

import numpy as np

from smelt.frontend.common import Build, Value, moves
from smelt.frontend.common.converter import attribute_set
from smelt.frontend.common.moves import as_type
from smelt.frontend.common.values import static
from smelt.runtime.errors import closest

from .registry import Floats, Strs, onnx_op

ACTIVATIONS: dict[str, tuple[str, float | None, float | None]] = {
    "Relu": ("relu", None, None),
    "Tanh": ("tanh", None, None),
    "Sigmoid": ("sigmoid", None, None),
    "Affine": ("affine", 1.0, 0.0),
    "LeakyRelu": ("leaky_relu", 0.01, None),
    "ThresholdedRelu": ("thresholded_relu", 1.0, None),
    "ScaledTanh": ("scaled_tanh", 1.0, 1.0),
    "HardSigmoid": ("hard_sigmoid", 0.2, 0.5),
    "Elu": ("elu", 1.0, None),
    "Softsign": ("softsign", None, None),
    "Softplus": ("softplus", None, None),
}
"""ONNX's name -> the core's, and the defaults of alpha and beta; None where it takes none."""
_BY_LOWER = {n.lower(): n for n in ACTIVATIONS}
_BACKWARD = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


@attribute_set
class Recurring(TypedDict, total=False):
    """The attributes that all recurrent layers have."""

    activation_alpha: Floats
    activation_beta: Floats
    activations: Strs
    clip: float
    direction: str
    hidden_size: int
    layout: int


class _Layer:
    """A node's operands and attributes, checked, without what its directions do not share."""

    def __init__(
        self, g: Build, x: Value, w: Value, r: Value, b: Value | None, lengths: Value | None,
        gates: int, functions: Strs, attrs: Recurring,
    ) -> None:  # fmt: skip
        """functions: the activations of a direction where the node names none."""
        direction, self.layout = attrs.get("direction", "forward"), attrs.get("layout", 0)
        g.one_of("direction", direction, tuple(_BACKWARD))
        g.one_of("layout", self.layout, (0, 1))
        self.g, self.w, self.r, self.b, self.gates = g, w, r, b, gates
        self.directions, self.clip = _BACKWARD[direction], attrs.get("clip", 0.0)
        for name, v in (("X", x), ("W", w), ("R", r)):
            if v.rank != 3:
                g.malformed(f"{name} has {v.rank} dimensions, 3 needed")
        count, self.hidden = len(self.directions), r.shape[2]
        wanted = (count, self.hidden * gates)
        for name, v in (("W", w), ("R", r)):
            if static((*wanted, *v.shape[:2])) and v.shape[:2] != wanted:
                g.malformed(
                    f"{name} has the shape {v.shape}, ({count}, {gates} * {self.hidden}, ...) "
                    "needed"
                )
        size = attrs.get("hidden_size", self.hidden)
        if isinstance(self.hidden, int) and self.hidden != size:
            g.malformed(f"hidden_size={size}, and R is for {self.hidden} units")
        self.narrow, self.dtype = x.dtype, x.dtype if x.dtype == "float64" else "float32"
        self.x = as_type(g, moves.transpose(g, x, (1, 0, 2)) if self.layout else x, self.dtype)
        full = lengths is None or _are_full(lengths, self.x.shape[0])
        self.lengths, per = None if full else lengths, len(functions)
        names = attrs.get("activations") or functions * count
        chosen = _chosen(g, names, attrs, count * per)
        self.activations = [
            {k: v[d * per : (d + 1) * per] for k, v in chosen.items()} for d in range(count)
        ]

    def of(self, v: Value, d: int) -> Value:
        """What a weight holds for a direction, in the type of the computation."""
        if len(self.directions) > 1:
            v = moves.along(self.g, v, 0, d, d + 1)
        return as_type(self.g, moves.squeeze(self.g, v, (0,)), self.dtype)

    def state(self, v: Value | None, d: int) -> Value | None:
        """An initial state [batch, hidden] of a direction."""
        if v is None:
            return None
        return self.of(moves.transpose(self.g, v, (1, 0, 2)) if self.layout else v, d)

    def part(self, v: Value, first: int, last: int, axis: int = 0) -> Value:
        """The rows of some gates."""
        size = self.hidden
        return moves.along(self.g, v, axis, size * first, size * last)

    def projected(self, d: int, bias: Value | None) -> Value:
        """x w^T + bias for all time steps."""
        g, (length, batch, width) = self.g, self.x.shape
        flat = moves.reshape(g, self.x, (length * batch, width))
        y = g.call("matmul", flat, self.of(self.w, d), transpose_b=True)
        y = y if bias is None else g.call("add", y, bias)
        return moves.reshape(g, y, (length, batch, y.shape[1]))

    def recurrent(self, d: int) -> Value:
        """The recurrent weights [hidden, gates * hidden]."""
        return moves.transpose(self.g, self.of(self.r, d), (1, 0))

    def biases(self, d: int) -> tuple[Value | None, Value | None]:
        """The biases of the input and of the state."""
        if self.b is None:
            return None, None
        both = self.of(self.b, d)
        return self.part(both, 0, self.gates), self.part(both, self.gates, 2 * self.gates)

    def bias(self, d: int) -> Value | None:
        """The sum of both biases."""
        a, b = self.biases(d)
        return None if a is None or b is None else self.g.call("add", a, b)

    def results(self, one: Callable[[int, dict[str, Any]], tuple[Value, ...]]) -> tuple[Value, ...]:
        """(Y, the last states) from the results of each direction: one(direction, attributes)."""
        made = [
            one(d, {"reverse": back, "clip": self.clip, **self.activations[d]})
            for d, back in enumerate(self.directions)
        ]
        y, *states = [list(v) for v in zip(*made, strict=True)]
        return (self.joined(y, 1), *[self.joined(s, 0) for s in states])

    def joined(self, values: Sequence[Value], axis: int) -> Value:
        """The results of the directions along a dimension of their own, in the node's type."""
        g = self.g
        out = moves.stack(g, values, axis)
        if self.layout:
            out = moves.transpose(g, out, (2, 0, 1, 3) if axis else (1, 0, 2))
        return as_type(g, out, self.narrow)


def _are_full(lengths: Value, length: Any) -> bool:
    """Whether every row is known to have all time steps."""
    return lengths.known is not None and lengths.is_array and bool(np.all(lengths.known == length))


def _chosen(g: Build, names: Strs, attrs: Recurring, count: int) -> dict[str, tuple[Any, ...]]:
    """The activations for the core; each takes its numbers from the lists in order."""
    if len(names) != count:
        g.malformed(f"activations={names}: {len(names)} names, {count} needed")
    rest = {"alpha": list(attrs.get("activation_alpha", ())),
            "beta": list(attrs.get("activation_beta", ()))}  # fmt: skip
    found: dict[str, list[Any]] = {"activations": [], "alpha": [], "beta": []}
    for n in names:
        known = _BY_LOWER.get(n.lower())
        if known is None:
            near = closest(n, ACTIVATIONS, 1)
            hint = f" (nearest: {near[0]})" if near else ""
            g.unsupported(f"activation {n!r}{hint}", ", ".join(ACTIVATIONS))
        core, *defaults = ACTIVATIONS[known]
        found["activations"].append(core)
        for what, default in zip(("alpha", "beta"), defaults, strict=True):
            given = rest[what].pop(0) if default is not None and rest[what] else default
            found[what].append(float(given or 0.0))
    return {k: tuple(v) for k, v in found.items()}


@onnx_op("RNN", since=7)
def rnn(
    g: Build, x: Value, w: Value, r: Value, b: Value | None = None,
    sequence_lens: Value | None = None, initial_h: Value | None = None,
    **attrs: Unpack[Recurring],
) -> tuple[Value, ...]:  # fmt: skip
    """h = f(W x + R h + biases)."""
    layer = _Layer(g, x, w, r, b, sequence_lens, 1, ("Tanh",), attrs)

    def one(d: int, attrs: dict[str, Any]) -> tuple[Value, ...]:
        return g.calls(
            "rnn", layer.projected(d, layer.bias(d)), layer.recurrent(d),
            layer.state(initial_h, d), layer.lengths, **attrs,
        )  # fmt: skip

    return layer.results(one)


@onnx_op("GRU", since=7)
def gru(
    g: Build, x: Value, w: Value, r: Value, b: Value | None = None,
    sequence_lens: Value | None = None, initial_h: Value | None = None, *,
    linear_before_reset: int = 0, **attrs: Unpack[Recurring],
) -> tuple[Value, ...]:  # fmt: skip
    """Gates z, r, h; with linear_before_reset the state's product for h is scaled by r."""
    layer = _Layer(g, x, w, r, b, sequence_lens, 3, ("Sigmoid", "Tanh"), attrs)

    def one(d: int, attrs: dict[str, Any]) -> tuple[Value, ...]:
        weights, state = layer.recurrent(d), layer.state(initial_h, d)
        if not linear_before_reset:
            gates, last = layer.part(weights, 0, 2, axis=1), layer.part(weights, 2, 3, axis=1)
            x = layer.projected(d, layer.bias(d))
            return g.calls("gru", x, gates, last, None, state, layer.lengths, **attrs)
        own, other = layer.biases(d)
        bias = None
        if own is not None and other is not None:
            bias = layer.part(other, 2, 3)
            inner = g.call("add", layer.part(own, 0, 2), layer.part(other, 0, 2))
            own = moves.concat(g, [inner, layer.part(own, 2, 3)], 0)
        x = layer.projected(d, own)
        return g.calls("gru", x, weights, None, bias, state, layer.lengths, **attrs)

    return layer.results(one)


@onnx_op("LSTM", since=7)
def lstm(
    g: Build, x: Value, w: Value, r: Value, b: Value | None = None,
    sequence_lens: Value | None = None, initial_h: Value | None = None,
    initial_c: Value | None = None, p: Value | None = None, *, input_forget: int = 0,
    **attrs: Unpack[Recurring],
) -> tuple[Value, ...]:  # fmt: skip
    """Gates i, o, f, c; peepholes P of i, o, f."""
    layer = _Layer(g, x, w, r, b, sequence_lens, 4, ("Sigmoid", "Tanh", "Tanh"), attrs)

    def one(d: int, attrs: dict[str, Any]) -> tuple[Value, ...]:
        return g.calls(
            "lstm", layer.projected(d, layer.bias(d)), layer.recurrent(d),
            layer.state(initial_h, d), layer.state(initial_c, d),
            None if p is None else layer.of(p, d), layer.lengths,
            input_forget=bool(input_forget), **attrs,
        )  # fmt: skip

    return layer.results(one)
