"""Converters of operators that go through time, and keep what they have seen for the next call."""

from __future__ import annotations

import numpy as np

from smelt.frontend.common import Value, moves
from smelt.frontend.common.moves import as_type

from .lstm import CELL, FORGET, INPUT, OUTPUT, STATES, Layer, joined, layer_of, timed
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
    narrow = layer.weights[FORGET]
    if not layer.plain or (narrow is not None and narrow.dtype == "int8"):
        return float_lstm(g, x, layer, cell, time_major, asymmetric_quantize_inputs)
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
    g.keep(STATES, h)
    g.keep(STATES + 1, c)
    return timed(g, y, time_major)


@tflite_op("UNIDIRECTIONAL_SEQUENCE_RNN", 3)
def sequence_rnn(
    g: Node, x: Value, w: Value, r: Value, bias: Value, state: Value, *, time_major: bool = False,
    fused_activation_function: int = 0, asymmetric_quantize_inputs: bool = False,
) -> Value:  # fmt: skip
    """h = f(W x + R h + bias), which is kept."""
    _floats(g, x, w, r)
    cell = _activation(g, fused_activation_function)
    steps = _projected(g, timed(g, x, time_major), w, bias)
    y, h = g.calls("rnn", steps, moves.transpose(g, r, (1, 0)), state, None, activations=(cell,))
    g.keep(4, h)
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
