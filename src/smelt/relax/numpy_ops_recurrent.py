"""The operators in numpy: recurrent layers, row by row and step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from .numpy_ops import NUMPY_OPS, Array, numpy_op

Function = Callable[[Array], Array]

_FUNCTIONS: dict[str, Callable[[Array, float, float], Array]] = {
    "relu": lambda v, a, b: np.where(v > 0, v, 0),
    "tanh": lambda v, a, b: np.tanh(v),
    "sigmoid": lambda v, a, b: np.asarray(NUMPY_OPS["sigmoid"](v)),
    "affine": lambda v, a, b: a * v + b,
    "leaky_relu": lambda v, a, b: np.where(v < 0, a * v, v),
    "thresholded_relu": lambda v, a, b: np.where(v >= a, v, 0),
    "scaled_tanh": lambda v, a, b: a * np.tanh(b * v),
    "hard_sigmoid": lambda v, a, b: np.clip(a * v + b, 0, 1),
    "elu": lambda v, a, b: np.where(v >= 0, v, a * (np.exp(np.minimum(v, 0)) - 1)),
    "softsign": lambda v, a, b: v / (1 + np.abs(v)),
    "softplus": lambda v, a, b: np.logaddexp(v, 0),
}


def _functions(
    names: Sequence[str], alpha: Sequence[float], beta: Sequence[float]
) -> list[Function]:
    return [
        _function(n, alpha[k] if alpha else 0, beta[k] if beta else 0) for k, n in enumerate(names)
    ]


def _function(name: str, alpha: float, beta: float) -> Function:
    return lambda v: _FUNCTIONS[name](v, alpha, beta)


def _clipped(v: Array, clip: float) -> Array:
    return np.clip(v, -clip, clip) if clip else v


def _start(x: Array, r: Array, state: Array | None) -> Array:
    return np.zeros((x.shape[1], r.shape[0]), x.dtype) if state is None else state.copy()


def _visits(x: Array, lengths: Array | None, reverse: bool) -> Iterator[tuple[int, int]]:
    """(time, row) in the order in which a layer meets them."""
    for row in range(x.shape[1]):
        count = x.shape[0] if lengths is None else min(max(int(lengths[row]), 0), x.shape[0])
        for t in range(count):
            yield (count - 1 - t if reverse else t), row


@numpy_op
def rnn(
    x: Array, r: Array, h0: Array | None = None, lengths: Array | None = None, *, reverse: bool,
    activations: Sequence[str], alpha: Sequence[float], beta: Sequence[float], clip: float,
) -> tuple[Array, ...]:  # fmt: skip
    """One gate."""
    (f,) = _functions(activations, alpha, beta)
    h = _start(x, r, h0)
    y = np.zeros((*x.shape[:2], r.shape[0]), x.dtype)
    for t, row in _visits(x, lengths, reverse):
        y[t, row] = h[row] = f(_clipped(x[t, row] + h[row] @ r, clip))
    return y, h


@numpy_op
def gru(
    x: Array, r: Array, candidate: Array | None = None, bias: Array | None = None,
    h0: Array | None = None, lengths: Array | None = None, *, reverse: bool,
    activations: Sequence[str], alpha: Sequence[float], beta: Sequence[float], clip: float,
) -> tuple[Array, ...]:  # fmt: skip
    """Gates z, r, n."""
    f, g = _functions(activations, alpha, beta)
    h = _start(x, r, h0)
    size = r.shape[0]
    y = np.zeros((*x.shape[:2], size), x.dtype)
    for t, row in _visits(x, lengths, reverse):
        own = np.split(x[t, row], 3)
        z = f(_clipped(own[0] + h[row] @ r[:, :size], clip))
        keep = f(_clipped(own[1] + h[row] @ r[:, size : 2 * size], clip))
        if candidate is not None:
            seen = (keep * h[row]) @ candidate
        else:
            seen = h[row] @ r[:, 2 * size :]
            seen = keep * (seen if bias is None else seen + bias)
        n = g(_clipped(own[2] + seen, clip))
        y[t, row] = h[row] = (1 - z) * n + z * h[row]
    return y, h


@numpy_op
def lstm(
    x: Array, r: Array, h0: Array | None = None, c0: Array | None = None,
    peephole: Array | None = None, lengths: Array | None = None, *, reverse: bool,
    activations: Sequence[str], alpha: Sequence[float], beta: Sequence[float], clip: float,
    input_forget: bool,
) -> tuple[Array, ...]:  # fmt: skip
    """Gates i, o, f, n."""
    f, g, out = _functions(activations, alpha, beta)
    h, c = _start(x, r, h0), _start(x, r, c0)
    size = r.shape[0]
    y = np.zeros((*x.shape[:2], size), x.dtype)
    seen = np.zeros(3 * size, x.dtype) if peephole is None else peephole
    see_i, see_o, see_f = np.split(seen, 3)
    for t, row in _visits(x, lengths, reverse):
        i, o, forget, n = np.split(x[t, row] + h[row] @ r, 4)
        i = f(_clipped(i + see_i * c[row], clip))
        forget = 1 - i if input_forget else f(_clipped(forget + see_f * c[row], clip))
        c[row] = forget * c[row] + i * g(_clipped(n, clip))
        h[row] = f(_clipped(o + see_o * c[row], clip)) * out(c[row])
        y[t, row] = h[row]
    return y, h, c
