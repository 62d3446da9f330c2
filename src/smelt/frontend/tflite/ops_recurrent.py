"""Converters of operators that go through time, and keep what they have seen for the next call."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from smelt.frontend.common import Value, moves
from smelt.frontend.common.moves import as_type

from .lstm import CELL, FORGET, INPUT, OUTPUT, Layer, joined, layer_of, parted, timed
from .lstm_float import float_lstm
from .lstm_integer import integer_lstm
from .node import Node
from .quantized import activated, distance, requantized, scaled
from .registry import tflite_op

_CELLS = {0: None, 1: "relu", 4: "tanh"}
"""Activations of cells by number."""


def _activation(g: Node, number: int) -> str:
    name = _CELLS.get(number)
    if name is None:
        g.unsupported(f"fused_activation_function={number}", "1 (RELU), 4 (TANH)")
    return name


def _floats(g: Node, *xs: Value | None) -> None:
    other = [x.dtype for x in xs if x is not None and x.dtype != "float32"]
    if other:
        g.unsupported(f"an operand of {other[0]}", "float32")


def _projected(g: Node, x: Value, w: Value, bias: Value | None) -> Value:
    """x w^T + bias for all time steps; x is [time, batch, width]."""
    flat = moves.reshape(g, x, (-1, x.shape[2]))
    y = g.call("matmul", flat, w, transpose_b=True)
    y = y if bias is None else g.call("add", y, bias)
    return moves.reshape(g, y, (*x.shape[:2], w.shape[0]))


@tflite_op("UNIDIRECTIONAL_SEQUENCE_LSTM", 4)
def sequence_lstm(
    g: Node, x: Value, *operands: Value | None, fused_activation_function: int = 0,
    cell_clip: float = 0.0, proj_clip: float = 0.0, time_major: bool = False,
    asymmetric_quantize_inputs: bool = False, diagonal_recurrent_tensors: bool = False,
) -> Value:  # fmt: skip
    """A layer of cells with gates; its last output and its cells are kept."""
    if diagonal_recurrent_tensors:
        g.unsupported("diagonal_recurrent_tensors=True", "False")
    layer = layer_of(g, operands, cell_clip, proj_clip)
    if g.integers:
        return integer_lstm(g, x, layer, time_major)
    cell = _activation(g, fused_activation_function)
    return _lstm(g, x, layer, cell, time_major, asymmetric_quantize_inputs)


def _lstm(g: Node, x: Value, layer: Layer, cell: str, time_major: bool, ranged: bool) -> Value:
    """A layer of floats."""
    narrow = layer.weights[FORGET]
    if not layer.plain or (narrow is not None and narrow.dtype == "int8"):
        return float_lstm(g, x, layer, cell, time_major, ranged)
    return _plain_lstm(g, x, layer, cell, time_major)


def _plain_lstm(g: Node, x: Value, layer: Layer, cell: str, time_major: bool) -> Value:
    """By the core's operator."""
    _floats(g, x, *layer.weights, *layer.recurrent)
    weights, recurrent, peepholes, biases = (
        list(parts) for parts in (layer.weights, layer.recurrent, layer.peepholes, layer.biases)
    )
    if weights[INPUT] is None:  # an input gate of 1 - f: sigmoid(-v) is 1 - sigmoid(v)
        for parts in (weights, recurrent, peepholes, biases):
            found = parts[FORGET]
            parts[INPUT] = None if found is None else g.call("negative", found)
    order = (INPUT, OUTPUT, FORGET, CELL)  # smelt's
    w, r, bias = (joined(g, parts, order) for parts in (weights, recurrent, biases))
    peephole = None if peepholes[OUTPUT] is None else joined(g, peepholes, order)
    y, h, c = g.calls(
        "lstm", _projected(g, timed(g, x, time_major), w, bias), moves.transpose(g, r, (1, 0)),
        layer.h, layer.c, peephole, None, activations=("sigmoid", cell, cell),
    )  # fmt: skip
    for number, v in zip(layer.states, (h, c), strict=True):
        g.keep(number, v)
    return timed(g, y, time_major)


@tflite_op("LSTM", 4)
def lstm(
    g: Node, x: Value, *operands: Value | None, fused_activation_function: int = 0,
    cell_clip: float = 0.0, proj_clip: float = 0.0, kernel_type: int = 0,
    asymmetric_quantize_inputs: bool = False,
) -> Value | tuple[Value, ...]:  # fmt: skip
    """One step of the same."""
    g.one_of("kernel_type", kernel_type, (0, 1))
    if kernel_type:
        return _basic_lstm(g, x, *operands)
    one = moves.expand_dims(g, x, (0,))
    y = sequence_lstm(
        g, one, *operands, fused_activation_function=fused_activation_function,
        cell_clip=cell_clip, proj_clip=proj_clip, time_major=True,
        asymmetric_quantize_inputs=asymmetric_quantize_inputs,
    )  # fmt: skip
    return moves.squeeze(g, y, (0,))


def _basic_lstm(
    g: Node, x: Value, h: Value | None = None, w: Value | None = None, bias: Value | None = None,
    c: Value | None = None,
) -> tuple[Value, ...]:  # fmt: skip
    """The kernel BASIC: output, cells, and what it computes on the way."""
    if h is None or w is None or bias is None or c is None:
        g.malformed("weights, biases or states are missing")
    _floats(g, x, h, w, bias, c)
    both = moves.concat(g, [x, h], 1)
    gates = g.call("add", g.call("matmul", both, w, transpose_b=True), bias)
    enter, new, forget, leave = parted(g, gates, (INPUT, CELL, FORGET, OUTPUT)).values()
    new = g.call("multiply", g.call("sigmoid", enter), g.call("tanh", new))
    c = g.call("add", new, g.call("multiply", g.call("sigmoid", forget), c))
    h = g.call("multiply", g.call("sigmoid", leave), g.call("tanh", c))
    g.keep(1, h)
    g.keep(4, c)
    return h, c, both, gates


# ------------------------------------------------------------------------------ in two directions


def _both(
    g: Node, x: Value, time_major: bool, merged: bool, run: Callable[[Value, int], Value]
) -> tuple[Value, ...]:
    """The outputs of a layer that goes forward and of one that goes backward.

    run     a sequence [time, batch, width] through layer 0 or 1
    merged  whether they are one result
    """
    x = timed(g, x, time_major)
    y = [run(x, 0), g.call("flip", run(g.call("flip", x, axes=(0,)), 1), axes=(0,))]
    y = [moves.concat(g, y, 2)] if merged else y
    return tuple([timed(g, v, time_major) for v in y])


@tflite_op("BIDIRECTIONAL_SEQUENCE_LSTM", 3)
def bidirectional_lstm(
    g: Node, x: Value, *operands: Value | None, fused_activation_function: int = 0,
    cell_clip: float = 0.0, proj_clip: float = 0.0, merge_outputs: bool = False,
    time_major: bool = True, asymmetric_quantize_inputs: bool = False,
) -> tuple[Value, ...]:  # fmt: skip
    """Two layers of cells with gates."""
    v = [x, *operands, *[None] * (47 - len(operands))]
    if any(u is not None for u in v[39:]):
        g.unsupported("an auxiliary input", "none")
    cell = _activation(g, fused_activation_function)

    def run(x: Value, side: int) -> Value:
        at, h = 17 * side, 35 + 2 * side
        layer = layer_of(g, [*v[1 + at : 18 + at], v[h], v[h + 1]], cell_clip, proj_clip, at,
                         (h, h + 1))  # fmt: skip
        return _lstm(g, x, layer, cell, True, asymmetric_quantize_inputs)

    return _both(g, x, time_major, merge_outputs, run)


@tflite_op("BIDIRECTIONAL_SEQUENCE_RNN", 3)
def bidirectional_rnn(
    g: Node, x: Value, *operands: Value | None, fused_activation_function: int = 0,
    time_major: bool = False, merge_outputs: bool = False,
    asymmetric_quantize_inputs: bool = False,
) -> tuple[Value, ...]:  # fmt: skip
    """Two layers of h = f(W x + R h + bias)."""
    v = [x, *operands, *[None] * (11 - len(operands))]
    if any(u is not None for u in v[9:]):
        g.unsupported("an auxiliary input", "none")

    def run(x: Value, side: int) -> Value:
        w, r, bias, state = v[1 + 4 * side : 5 + 4 * side]
        if w is None or r is None or bias is None or state is None:
            g.malformed("weights, biases or states are missing")
        return _rnn(g, x, w, r, bias, state, 4 + 4 * side, fused_activation_function)

    return _both(g, x, time_major, merge_outputs, run)


def _rnn(
    g: Node, x: Value, w: Value, r: Value, bias: Value, state: Value, kept: int, activation: int
) -> Value:
    """A sequence [time, batch, width]; kept: the number of the state."""
    _floats(g, x, w, r)
    right = moves.transpose(g, r, (1, 0))
    y, h = g.calls("rnn", _projected(g, x, w, bias), right, state, None,
                   activations=(_activation(g, activation),))  # fmt: skip
    g.keep(kept, h)
    return y


@tflite_op("UNIDIRECTIONAL_SEQUENCE_RNN", 3)
def sequence_rnn(
    g: Node, x: Value, w: Value, r: Value, bias: Value, state: Value, *, time_major: bool = False,
    fused_activation_function: int = 0, asymmetric_quantize_inputs: bool = False,
) -> Value:  # fmt: skip
    """h = f(W x + R h + bias), which is kept."""
    y = _rnn(g, timed(g, x, time_major), w, r, bias, state, 4, fused_activation_function)
    return timed(g, y, time_major)


@tflite_op("RNN", 3)
def rnn(
    g: Node, x: Value, w: Value, r: Value, bias: Value, state: Value, *,
    fused_activation_function: int = 0, asymmetric_quantize_inputs: bool = False,
) -> Value:  # fmt: skip
    """One step of the same."""
    _floats(g, x, w, r)
    y = g.call("matmul", x, w, transpose_b=True)
    y = g.call("add", g.call("add", y, bias), g.call("matmul", state, r, transpose_b=True))
    h = g.call(_activation(g, fused_activation_function), y)
    g.keep(4, h)
    return h


@tflite_op("SVDF", 4)
def svdf(
    g: Node, x: Value, features: Value, times: Value, bias: Value | None, state: Value, *,
    rank: int = 0, fused_activation_function: int = 0, asymmetric_quantize_inputs: bool = False,
) -> Value:  # fmt: skip
    """Filters over features, whose last results are kept, and over time; `rank` of them a unit."""
    filters, memory = times.shape
    if rank < 1 or not isinstance(filters, int) or filters % rank or x.rank != 2:
        g.malformed(f"rank={rank} of {filters} filters")
    batch = x.shape[0]
    if g.integers:
        new = _new_feature(g, x, features)
    else:
        _floats(g, x, features, times)
        new = g.call("matmul", x, features, transpose_b=True)
    past = moves.reshape(g, state, (batch, filters, memory))
    now = moves.reshape(g, new, (batch, filters, 1))
    seen = moves.concat(g, [moves.along(g, past, 2, 1, memory), now], 2)
    g.keep(4, moves.reshape(g, seen, state.shape))
    wide = "int32" if g.integers else "float32"
    products = g.call("multiply", as_type(g, seen, wide), as_type(g, times, wide))
    y = moves.reshape(g, products, (batch, filters // rank, rank * memory))
    y = g.call("sum", y, axes=(2,), keepdims=False)
    y = y if bias is None else g.call("add", y, bias)
    if not g.integers:
        return activated(g, y, fused_activation_function)
    ratio = np.float64(g.scale(g.tensor(4)) * g.scale(g.tensor(2)) / g.scale(g.out))
    g.one_of("fused_activation_function", fused_activation_function, (1,))
    return requantized(g, y, ratio, g.out)  # the kernel wants RELU said, and leaves it out


def _new_feature(g: Node, x: Value, features: Value) -> Value:
    """What the filters give for the features of now, in the state's steps, of 16 bits."""
    source, weights, state = (g.tensor(k) for k in (0, 1, 4))
    if x.dtype != "int8" or state.dtype != "int16":
        g.unsupported(f"quantized {x.dtype} with a state of {state.dtype}", "int8 with int16")
    away = as_type(g, distance(g, x, g.zero(source)), "int16")
    sums = g.call("matmul", away, features, transpose_b=True, out_dtype="int32")
    ratio = np.float64(g.scale(source) * g.scale(weights) / g.scale(state))
    y = scaled(g, sums, float(ratio))
    return as_type(g, g.call("clip", y, min=-32768, max=32767), "int16")
