"""Writers of recurrent layers: the core's recurrence takes the input's projection, ONNX's layers
the input.

Where the projection is a product of matrices and a bias, these are the layer's W and B; else the
projection itself is the input, and W is the identity.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import Unsupported
from smelt.relax.nodes import RelaxExpr, call, constant

from .ops_rnn import ACTIVATIONS
from .write_graph import Results, Writer, at_once, dtype_of, shape_of, written
from .write_math import is_call, operand_of

_NAMES = {core: (name, a, b) for name, (core, a, b) in ACTIVATIONS.items()}
"""The core's name -> ONNX's, and the defaults of the numbers that it takes."""


class Projection(NamedTuple):
    """x w^T + bias: x [length, batch, inputs], w [gates, inputs], bias [gates]."""

    x: RelaxExpr
    w: RelaxExpr
    bias: RelaxExpr | None


def _transposed(x: RelaxExpr) -> RelaxExpr:
    """A matrix turned, at once where it is a constant."""
    if is_call(x, "transpose"):
        return operand_of(x)
    return at_once(x, lambda data: np.ascontiguousarray(data.T), "transpose", axes=(1, 0))


def projection(x: RelaxExpr) -> Projection:
    """What an operand is made of."""
    length, batch, columns = shape_of(x)
    flat = operand_of(x) if is_call(x, "reshape") and len(shape_of(operand_of(x))) == 2 else x
    bias = None
    if is_call(flat, "add"):
        for a, b in (flat.args, flat.args[::-1]):
            if is_call(a, "matmul") and b is not None and shape_of(b) == (columns,):
                flat, bias = a, b
                break
    if is_call(flat, "matmul"):
        a, b = flat.args
        assert a is not None
        assert b is not None
        plain = not flat.attrs["transpose_a"] and not flat.attrs["out_dtype"]
        if plain and len(shape_of(b)) == 2 and dtype_of(a) == dtype_of(x):
            shape = (length, batch, shape_of(a)[-1])
            source = a
            if shape_of(a) != shape:
                inner = operand_of(a) if is_call(a, "reshape") else a
                source = inner if shape_of(inner) == shape else call("reshape", a, shape=shape)
            return Projection(source, b if flat.attrs["transpose_b"] else _transposed(b), bias)
    if not isinstance(columns, int):
        raise Unsupported("a projection of a symbolic number of gates")
    return Projection(x, constant(np.eye(columns, dtype=dt.to_numpy(dtype_of(x)))), None)


def _one(x: RelaxExpr | None) -> RelaxExpr | None:
    """With a dimension for the direction in front."""
    if x is None:
        return None
    if is_call(x, "squeeze") and shape_of(operand_of(x)) == (1, *shape_of(x)):
        return operand_of(x)
    return at_once(x, lambda data: data[None], "expand_dims", axes=(0,))


def _layer(
    w: Writer, op: str, x: RelaxExpr, r: RelaxExpr, second: RelaxExpr | None,
    states: list[RelaxExpr | None], lengths: RelaxExpr | None, reverse: bool, activations: Any,
    alpha: Any, beta: Any, clip: float, more: Any = (), **attrs: Any,
) -> Results:  # fmt: skip
    """A layer of ONNX in one direction; gives y and the last states.

    r       [gates, hidden], as ONNX has it
    second  the bias of the state's product, [gates]
    """
    found = projection(x)
    hidden, gates = shape_of(r)[1], shape_of(r)[0]
    bias = None
    if found.bias is not None or second is not None:
        if not isinstance(gates, int):
            raise Unsupported("a symbolic number of units")
        zero = constant(np.zeros(gates, dt.to_numpy(dtype_of(x))))
        bias = call("concat", *[zero if b is None else b for b in (found.bias, second)], axis=0)
    named, numbers = _chosen(activations, alpha, beta)
    seen = None if lengths is None else w.as_type(lengths, "int32")
    made = w.emit(
        op, found.x, _one(found.w), _one(r), _one(bias), seen, *[_one(s) for s in states], *more,
        results=1 + len(states), hidden_size=hidden, activations=named, clip=clip or None,
        direction="reverse" if reverse else "forward", **numbers, **attrs,
    )  # fmt: skip
    y, *last = made
    axis = [np.array([n]) for n in (1, 0)]
    return w.emit("Squeeze", y, axis[0]), *[w.emit("Squeeze", s, axis[1]) for s in last]


def _chosen(activations: Any, alpha: Any, beta: Any) -> tuple[list[str], dict[str, Any]]:
    """ONNX's names of activations, and the numbers of those that take any."""
    names = [_NAMES[core][0] for core in activations]
    numbers = {}
    for place, what, given in ((1, "alpha", alpha), (2, "beta", beta)):
        taken = [n for n, core in enumerate(activations) if _NAMES[core][place] is not None]
        found = [float(given[n]) if given else 0.0 for n in taken]
        numbers[f"activation_{what}"] = found or None
    return names, numbers


@written("rnn")
def rnn(
    w: Writer, x: RelaxExpr, r: RelaxExpr, h0: RelaxExpr | None = None,
    lengths: RelaxExpr | None = None, **attrs: Any,
) -> Results:  # fmt: skip
    """RNN."""
    return _layer(w, "RNN", x, _transposed(r), None, [h0], lengths, **attrs)


@written("lstm")
def lstm(
    w: Writer, x: RelaxExpr, r: RelaxExpr, h0: RelaxExpr | None = None,
    c0: RelaxExpr | None = None, peephole: RelaxExpr | None = None,
    lengths: RelaxExpr | None = None, *, input_forget: bool, **attrs: Any,
) -> Results:  # fmt: skip
    """LSTM; gates stand in ONNX's order."""
    return _layer(w, "LSTM", x, _transposed(r), None, [h0, c0], lengths, more=[_one(peephole)],
                  input_forget=int(input_forget) or None, **attrs)  # fmt: skip


@written("gru")
def gru(
    w: Writer, x: RelaxExpr, r: RelaxExpr, candidate: RelaxExpr | None = None,
    bias: RelaxExpr | None = None, h0: RelaxExpr | None = None,
    lengths: RelaxExpr | None = None, **attrs: Any,
) -> Results:  # fmt: skip
    """GRU; with a candidate of its own the state is reset before its product."""
    turned, second = _transposed(r), None
    if candidate is not None:
        turned = call("concat", turned, _transposed(candidate), axis=0)
    elif bias is not None:
        hidden = shape_of(r)[0]
        if not isinstance(hidden, int):
            raise Unsupported("a symbolic number of units")
        none = constant(np.zeros(2 * hidden, dt.to_numpy(dtype_of(x))))
        second = call("concat", none, bias, axis=0)
    return _layer(w, "GRU", x, turned, second, [h0], lengths,
                  linear_before_reset=int(candidate is None), **attrs)  # fmt: skip
