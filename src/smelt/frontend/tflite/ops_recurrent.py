"""Converters of operators that go through time, and keep what they have seen for the next call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smelt.frontend.common import Value, moves
from smelt.frontend.common.moves import as_type

from .node import Node
from .quantized import activated, distance, requantized, scaled
from .registry import Ints, tflite_op

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


def _absent(g: Node, what: str, *xs: Value | None) -> None:
    if any(x is not None for x in xs):
        g.unsupported(what, "none")


def _projected(g: Node, x: Value, w: Value, bias: Value | None) -> Value:
    """x w^T + bias for all time steps; x is [time, batch, width]."""
    flat = moves.reshape(g, x, (-1, x.shape[2]))
    y = g.call("matmul", flat, w, transpose_b=True)
    y = y if bias is None else g.call("add", y, bias)
    return moves.reshape(g, y, (*x.shape[:2], w.shape[0]))


def _timed(g: Node, x: Value, time_major: bool) -> Value:
    if x.rank != 3:
        g.malformed(f"a sequence of {x.rank} dimensions, 3 expected")
    return x if time_major else moves.transpose(g, x, (1, 0, 2))


def _joined(g: Node, parts: Sequence[Value | None], order: Ints) -> Value | None:
    """The parts of gates one behind the other; None where one is missing."""
    chosen = [v for v in (parts[k] for k in order) if v is not None]
    return moves.concat(g, chosen, 0) if len(chosen) == len(order) else None


@tflite_op("UNIDIRECTIONAL_SEQUENCE_LSTM", 4)
def sequence_lstm(
    g: Node, x: Value, *operands: Value | None, fused_activation_function: int = 0,
    cell_clip: float = 0.0, proj_clip: float = 0.0, time_major: bool = False,
    asymmetric_quantize_inputs: bool = False, diagonal_recurrent_tensors: bool = False,
) -> Value:  # fmt: skip
    """A layer of cells with gates; its last output and its cells are kept."""
    given = [*operands, *[None] * (23 - len(operands))]
    weights, recurrent, peepholes = given[0:4], given[4:8], given[8:11]  # i, f, c, o; i, f, o
    biases, projection, state, norms = given[11:15], given[15:17], given[17:19], given[19:23]
    _absent(g, "a projection of the output", *projection)
    _absent(g, "normalized gates", *norms)
    if cell_clip or diagonal_recurrent_tensors:
        g.unsupported(f"cell_clip={cell_clip}, diagonal_recurrent_tensors="
                      f"{diagonal_recurrent_tensors}", "0, False")  # fmt: skip
    _floats(g, x, *weights, *recurrent)
    if weights[0] is None:  # an input gate of 1 - f: sigmoid(-v) is 1 - sigmoid(v)
        for parts, forget in ((weights, 1), (recurrent, 1), (peepholes, 1), (biases, 1)):
            found = parts[forget]
            parts[0] = None if found is None else g.call("negative", found)
    # TFLite has the gates in the order i, f, c, o, and smelt i, o, f, c
    w, r, bias = (_joined(g, parts, (0, 3, 1, 2)) for parts in (weights, recurrent, biases))
    if w is None or r is None or state[0] is None or state[1] is None:
        g.malformed("weights or states are missing")
    cell = _activation(g, fused_activation_function)
    peephole = _joined(g, peepholes, (0, 2, 1))
    y, h, c = g.calls(
        "lstm", _projected(g, _timed(g, x, time_major), w, bias), moves.transpose(g, r, (1, 0)),
        state[0], state[1], peephole, None, activations=("sigmoid", cell, cell),
    )  # fmt: skip
    g.keep(18, h)
    g.keep(19, c)
    return _timed(g, y, time_major)


@tflite_op("UNIDIRECTIONAL_SEQUENCE_RNN", 3)
def sequence_rnn(
    g: Node, x: Value, w: Value, r: Value, bias: Value, state: Value, *, time_major: bool = False,
    fused_activation_function: int = 0, asymmetric_quantize_inputs: bool = False,
) -> Value:  # fmt: skip
    """h = f(W x + R h + bias), which is kept."""
    _floats(g, x, w, r)
    cell = _activation(g, fused_activation_function)
    steps = _projected(g, _timed(g, x, time_major), w, bias)
    y, h = g.calls("rnn", steps, moves.transpose(g, r, (1, 0)), state, None, activations=(cell,))
    g.keep(4, h)
    return _timed(g, y, time_major)


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
