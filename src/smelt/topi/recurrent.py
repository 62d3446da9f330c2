"""Recurrent layers in one direction: what a time step adds to a projection of the input.

A step is one contraction of the state with the recurrent weights, whose contiguous dimension is
the gates', and elementwise work on its result. The projection of the input for all time steps, with
the biases, is an operand: one large matmul.

Shapes       x [length, batch, gates * hidden]; r [hidden, gates * hidden]; states [batch, hidden];
             result y [length, batch, hidden]; gates stand one behind the other
lengths      [batch] how many time steps each row has (an integer); y is 0 behind them, and the
             last state is the one at the end of the row. Without them all rows are full
reverse      from the last time step of each row to the first
activations  names from ACTIVATIONS, with `alpha` and `beta`, a number each for every activation
             (0 where it takes none)
clip         bound of the operands of the gates' activations; 0: none
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import call, maximum, minimum, select
from smelt.ir.expr import INDEX, Expr, cast, const
from smelt.te.tensor import Tensor
from smelt.tir.nodes import Buffer, BufferLoad, Stmt

from .common import agree, named, number, require, same_dtype, take_forms
from .program import block, let, program, scratch, seq, steps, store, summed, when
from .reference import Array, logistic
from .registry import op

ACTIVATIONS: dict[str, Callable[..., Expr]] = {
    "relu": lambda v, a, b: maximum(v, 0.0),
    "tanh": lambda v, a, b: call("tanh", v),
    "sigmoid": lambda v, a, b: call("sigmoid", v),
    "affine": lambda v, a, b: v * a + b,
    "leaky_relu": lambda v, a, b: select(v < 0.0, v * a, v),
    "thresholded_relu": lambda v, a, b: select(v >= a, v, number(0, v.dtype)),
    "scaled_tanh": lambda v, a, b: call("tanh", v * b) * a,
    "hard_sigmoid": lambda v, a, b: minimum(maximum(v * a + b, 0.0), 1.0),
    "elu": lambda v, a, b: select(v >= 0.0, v, call("expm1", v) * a),
    "softsign": lambda v, a, b: v / (call("abs", v) + 1.0),
    "softplus": lambda v, a, b: maximum(v, 0.0) + call("log1p", call("exp", -call("abs", v))),
}
"""Name -> function of a value, alpha and beta."""


V = TypeVar("V")


def _functions(
    table: Mapping[str, Callable[..., V]], names: Sequence[str], alpha: Sequence[float],
    beta: Sequence[float], count: int,
) -> list[Callable[[Any], V]]:  # fmt: skip
    """The activations."""
    require(len(names) == count, f"activations={tuple(names)}; {count} are needed")
    for what, values in (("alpha", alpha), ("beta", beta)):
        require(
            len(values) in (0, count),
            f"{what}={tuple(values)}; {count} numbers are needed, or none",
        )
    for n in names:
        require(n in ACTIVATIONS, f"activation {n!r}; legal: {', '.join(ACTIVATIONS)}")

    parameters = zip(names, alpha or [0.0] * count, beta or [0.0] * count, strict=True)
    return [functools.partial(table[n], a=float(a), b=float(b)) for n, a, b in parameters]


class _Layer:
    """The operands that all layers have, checked, and their extents."""

    def __init__(
        self, x: Tensor, r: Tensor, states: dict[str, Tensor | None], lengths: Tensor | None,
        gates: tuple[int, int], reverse: bool, clip: float,
    ) -> None:  # fmt: skip
        """gates: columns of x and of r for each hidden unit."""
        inputs, own = gates
        self.x, self.r, self.lengths, self.reverse, self.bound = x, r, lengths, reverse, clip
        require(clip >= 0, f"clip={clip}; legal: numbers from 0")
        given = {k: v for k, v in {"x": x, "r": r, **states}.items() if v is not None}
        self.dtype = same_dtype(**given)
        require(
            self.dtype in ("float32", "float64"),
            f"x is {self.dtype}; legal: float32, float64; cast narrow floats",
        )
        forms = ["[length, batch, inputs]", "[hidden, columns]", *["[rows, hidden]"] * len(states)]
        take_forms(*forms, "[batch]", x=x, r=r, **states, lengths=lengths)
        self.length, self.batch, self.hidden = x.shape[0], x.shape[1], r.shape[0]
        self.columns = self.hidden * own
        agree(self.columns, r.shape[1], f"{named(r=r)} needs {own} columns per row")
        for name, t in states.items():
            if t is not None:
                shown = named(**{name: t})
                agree(self.batch, t.shape[0], f"{shown} needs one row per row of x")
        if lengths is not None:
            require(dt.is_int(lengths.dtype), f"lengths is {lengths.dtype}; legal: integers")
        columns = self.hidden * inputs
        agree(columns, x.shape[2], f"{named(x=x)} needs {inputs} columns per hidden unit")
        self.gates = scratch([self.batch, self.columns], self.dtype, "gates")

    @property
    def states(self) -> list[Expr]:
        """The shape of a state."""
        return [self.batch, self.hidden]

    def first(self, pairs: Sequence[tuple[Tensor, Tensor | None]], name: str) -> Stmt:
        """The states before the first step: given, or 0."""

        def one(b: Expr, j: Expr) -> Stmt:
            return seq(*[
                store(s, (b, j), number(0, self.dtype) if given is None else given[b, j])
                for s, given in pairs
            ])  # fmt: skip

        return block(name, self.states, one)

    def clip(self, v: Expr) -> Expr:
        """The operand of a gate's activation."""
        return minimum(maximum(v, -self.bound), self.bound) if self.bound else v

    def product(self, h: Tensor) -> Stmt:
        """gates = h r."""
        return _dot(self.gates, self, self.columns, h, self.r, "product")

    def gate(self, k: int, place: Expr, b: Expr, j: Expr) -> Expr:
        """What gate k of a unit gets from the input and from the state."""
        at = j + self.hidden * k
        return self.x[place, b, at] + BufferLoad(self.gates, (b, at))

    def count(self, b: Expr) -> Expr:
        """How many time steps a row has."""
        if self.lengths is None:
            return self.length
        return minimum(cast(INDEX, self.lengths[b]), self.length)

    def each(self, t: Expr, y: Tensor, name: str, body: Callable[[Expr, Expr, Expr], Stmt]) -> Stmt:
        """body(place, b, j) for every unit of the rows that are not over, where place is the time
        that is read and written in step t; y is 0 in the others."""

        def one(b: Expr, j: Expr) -> Stmt:
            inner = body(self.count(b) - 1 - t if self.reverse else t, b, j)
            if self.lengths is None:
                return inner
            return when(t < self.count(b), inner, store(y, (t, b, j), number(0, self.dtype)))

        return block(name, self.states, one)


def _dot(target: Buffer, layer: _Layer, columns: Expr, state: Buffer, r: Tensor, name: str) -> Stmt:
    """target = state r."""

    def term(b: Expr, n: Expr, k: Expr) -> Expr:
        return BufferLoad(state, (b, k)) * r[k, n]

    return summed(target, [layer.batch, columns], layer.hidden, term, name)


def _recurrence(
    layer: _Layer, operands: Sequence[Tensor | None], given: Sequence[Tensor | None],
    step: Callable[..., Stmt], name: str, own: Sequence[Buffer] = (),
) -> tuple[Tensor, ...]:  # fmt: skip
    """y and the last states.

    given  what each state is before the first step; None: 0
    step   (time, y, states...) -> what is done
    own    buffers beside the gates that live in one step
    """

    def body(*outs: Tensor) -> Stmt:
        first = layer.first(list(zip(outs[1:], given, strict=True)), "first")
        buffers = [layer.gates, *own]
        return seq(first, steps(layer.length, buffers, lambda t: step(t, *outs)))

    shapes = [[layer.length, layer.batch, layer.hidden], *[layer.states] * len(given)]
    present = [t for t in operands if t is not None]
    return program(shapes, [layer.dtype] * len(shapes), present, body, name)


@op
def rnn(
    x: Tensor, r: Tensor, h0: Tensor | None = None, lengths: Tensor | None = None, *,
    reverse: bool = False, activations: tuple[str, ...] = ("tanh",),
    alpha: tuple[float, ...] = (), beta: tuple[float, ...] = (), clip: float = 0.0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """h = f(x[t] + h r): (y, the last h). See the module for operands and attributes."""
    layer = _Layer(x, r, {"h0": h0}, lengths, (1, 1), reverse, clip)
    (f,) = _functions(ACTIVATIONS, activations, alpha, beta, 1)

    def step(t: Expr, y: Tensor, h: Tensor) -> Stmt:
        def cell(place: Expr, b: Expr, j: Expr) -> Stmt:
            value = f(layer.clip(layer.gate(0, place, b, j)))
            return let(value, lambda v: seq(store(h, (b, j), v), store(y, (place, b, j), v)))

        return seq(layer.product(h), layer.each(t, y, "cell", cell))

    return _recurrence(layer, [x, r, h0, lengths], [h0], step, "rnn")


_ARRAY_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "relu": lambda v, a, b: np.where(v > 0, v, 0),
    "tanh": lambda v, a, b: np.tanh(v),
    "sigmoid": lambda v, a, b: logistic(v),
    "affine": lambda v, a, b: a * v + b,
    "leaky_relu": lambda v, a, b: np.where(v < 0, a * v, v),
    "thresholded_relu": lambda v, a, b: np.where(v >= a, v, 0),
    "scaled_tanh": lambda v, a, b: a * np.tanh(b * v),
    "hard_sigmoid": lambda v, a, b: np.clip(a * v + b, 0, 1),
    "elu": lambda v, a, b: np.where(v >= 0, v, a * (np.exp(np.minimum(v, 0)) - 1)),
    "softsign": lambda v, a, b: v / (1 + np.abs(v)),
    "softplus": lambda v, a, b: np.logaddexp(v, 0),
}


def _clipped(v: Array, clip: float) -> Array:
    return np.clip(v, -clip, clip) if clip else v


def _recurrence_array(
    x: Array, hidden: int, states: Sequence[Array | None], lengths: Array | None, reverse: bool,
    step: Callable[..., Sequence[Array]],
) -> tuple[Array, ...]:  # fmt: skip
    """y and the last states. step: (x, states...) of a row at a time -> its states, the first is
    what y shows."""
    length, rows = x.shape[:2]
    now = [np.zeros((rows, hidden), x.dtype) if s is None else s.copy() for s in states]
    y = np.zeros((length, rows, hidden), x.dtype)
    for row in range(rows):
        count = length if lengths is None else min(max(int(lengths[row]), 0), length)
        for t in reversed(range(count)) if reverse else range(count):
            made = step(x[t, row], *[s[row] for s in now])
            for s, v in zip(now, made, strict=True):
                s[row] = v
            y[t, row] = made[0]
    return y, *now


@rnn.numpy
def _(
    x: Array, r: Array, h0: Array | None = None, lengths: Array | None = None, *, reverse: bool,
    activations: Sequence[str], alpha: Sequence[float], beta: Sequence[float], clip: float,
) -> tuple[Array, ...]:  # fmt: skip
    """One gate."""
    (f,) = _functions(_ARRAY_FUNCTIONS, activations, alpha, beta, 1)

    def step(v: Array, h: Array) -> list[Array]:
        return [f(_clipped(v + h @ r, clip))]

    return _recurrence_array(x, r.shape[0], [h0], lengths, reverse, step)


def _check_reset(layer: _Layer, r: Tensor, candidate: Tensor | None, bias: Tensor | None) -> None:
    """The operands of gru's candidate for the next state."""
    if candidate is not None:
        same_dtype(r=r, candidate=candidate)
        require(bias is None, "bias is for layers without candidate; add it to x")
        for extent in candidate.shape:
            agree(layer.hidden, extent, f"{named(candidate=candidate)} has to be square, as h")
    if bias is not None:
        same_dtype(r=r, bias=bias)
        agree(layer.hidden, bias.shape[-1], f"{named(bias=bias)} needs one per unit")


@op
def gru(
    x: Tensor, r: Tensor, candidate: Tensor | None = None, bias: Tensor | None = None,
    h0: Tensor | None = None, lengths: Tensor | None = None, *,
    reverse: bool = False, activations: tuple[str, ...] = ("sigmoid", "tanh"),
    alpha: tuple[float, ...] = (), beta: tuple[float, ...] = (), clip: float = 0.0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """h = (1 - z) * n + z * h: (y, the last h). See the module for operands and attributes.

    Gates      z, r, n; x has all three
    candidate  [hidden, hidden]: n = g(x_n + (r * h) candidate), and `r` has the gates z and r.
               Without it `r` has all three, and n = g(x_n + r * (h r_n + bias))
    bias       [hidden], only without `candidate`
    """
    layer = _Layer(x, r, {"h0": h0}, lengths, (3, 3 if candidate is None else 2), reverse, clip)
    hidden = layer.hidden
    _check_reset(layer, r, candidate, bias)
    f, g = _functions(ACTIVATIONS, activations, alpha, beta, 2)
    kept = scratch(layer.states, layer.dtype, "kept")
    last = scratch(layer.states, layer.dtype, "last")

    def step(t: Expr, y: Tensor, h: Tensor) -> Stmt:
        def gate(k: int, place: Expr, b: Expr, j: Expr) -> Expr:
            return f(layer.clip(layer.gate(k, place, b, j)))

        def reset(place: Expr, b: Expr, j: Expr) -> Stmt:
            return store(kept, (b, j), gate(1, place, b, j) * h[b, j])

        def inner(place: Expr, b: Expr, j: Expr) -> Expr:
            if candidate is not None:
                return BufferLoad(last, (b, j))
            own = BufferLoad(layer.gates, (b, j + hidden * 2))
            return gate(1, place, b, j) * (own if bias is None else own + bias[j])

        def cell(place: Expr, b: Expr, j: Expr) -> Stmt:
            def end(z: Expr) -> Stmt:
                n = g(layer.clip(x[place, b, j + hidden * 2] + inner(place, b, j)))
                return let(n + z * (h[b, j] - n), lambda v: seq(
                    store(h, (b, j), v), store(y, (place, b, j), v)
                ))  # fmt: skip

            return let(gate(0, place, b, j), end, "z")

        parts = [layer.product(h)]
        if candidate is not None:
            parts.append(layer.each(t, y, "reset", reset))
            parts.append(_dot(last, layer, hidden, kept, candidate, "inner"))
        return seq(*parts, layer.each(t, y, "cell", cell))

    own = [] if candidate is None else [kept, last]
    operands = [x, r, candidate, bias, h0, lengths]
    return _recurrence(layer, operands, [h0], step, "gru", own)


@gru.numpy
def _(
    x: Array, r: Array, candidate: Array | None = None, bias: Array | None = None,
    h0: Array | None = None, lengths: Array | None = None, *, reverse: bool,
    activations: Sequence[str], alpha: Sequence[float], beta: Sequence[float], clip: float,
) -> tuple[Array, ...]:  # fmt: skip
    """Gates z, r, n."""
    f, g = _functions(_ARRAY_FUNCTIONS, activations, alpha, beta, 2)
    size = r.shape[0]

    def step(v: Array, h: Array) -> list[Array]:
        own = np.split(v, 3)
        z = f(_clipped(own[0] + h @ r[:, :size], clip))
        keep = f(_clipped(own[1] + h @ r[:, size : 2 * size], clip))
        if candidate is not None:
            seen = (keep * h) @ candidate
        else:
            seen = h @ r[:, 2 * size :]
            seen = keep * (seen if bias is None else seen + bias)
        n = g(_clipped(own[2] + seen, clip))
        return [(1 - z) * n + z * h]

    return _recurrence_array(x, size, [h0], lengths, reverse, step)


@op
def lstm(
    x: Tensor, r: Tensor, h0: Tensor | None = None, c0: Tensor | None = None,
    peephole: Tensor | None = None, lengths: Tensor | None = None, *,
    reverse: bool = False, activations: tuple[str, ...] = ("sigmoid", "tanh", "tanh"),
    alpha: tuple[float, ...] = (), beta: tuple[float, ...] = (), clip: float = 0.0,
    input_forget: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    """c = f * c + i * n, h = o * tanh(c): (y, the last h, the last c). See the module for operands
    and attributes.

    Gates         i, o, f, n
    peephole      [3 * hidden]: what i, o and f see of c
    input_forget  f = 1 - i
    """
    layer = _Layer(x, r, {"h0": h0, "c0": c0}, lengths, (4, 4), reverse, clip)
    hidden = layer.hidden
    if peephole is not None:
        same_dtype(r=r, peephole=peephole)
        agree(hidden * 3, peephole.shape[-1], f"{named(peephole=peephole)} needs 3 rows")
    f, g, out = _functions(ACTIVATIONS, activations, alpha, beta, 3)

    def step(t: Expr, y: Tensor, h: Tensor, c: Tensor) -> Stmt:
        def cell(place: Expr, b: Expr, j: Expr) -> Stmt:
            def gate(k: int, seen: Expr) -> Expr:
                v = layer.gate(k, place, b, j)
                if peephole is not None and k < 3:
                    v = v + peephole[j + hidden * k] * seen
                return layer.clip(v)

            def after(i: Expr) -> Stmt:
                forget = const(1.0, layer.dtype) - i if input_forget else f(gate(2, c[b, j]))
                return let(forget * c[b, j] + i * g(gate(3, c[b, j])), end, "state")

            def end(v: Expr) -> Stmt:
                return let(f(gate(1, v)) * out(v), lambda w: seq(
                    store(c, (b, j), v), store(h, (b, j), w), store(y, (place, b, j), w)
                ))  # fmt: skip

            return let(f(gate(0, c[b, j])), after, "i")

        return seq(layer.product(h), layer.each(t, y, "cell", cell))

    operands = [x, r, h0, c0, peephole, lengths]
    return _recurrence(layer, operands, [h0, c0], step, "lstm")


@lstm.numpy
def _(
    x: Array, r: Array, h0: Array | None = None, c0: Array | None = None,
    peephole: Array | None = None, lengths: Array | None = None, *, reverse: bool,
    activations: Sequence[str], alpha: Sequence[float], beta: Sequence[float], clip: float,
    input_forget: bool,
) -> tuple[Array, ...]:  # fmt: skip
    """Gates i, o, f, n."""
    f, g, out = _functions(_ARRAY_FUNCTIONS, activations, alpha, beta, 3)
    size = r.shape[0]
    seen = np.zeros(3 * size, x.dtype) if peephole is None else peephole
    see_i, see_o, see_f = np.split(seen, 3)

    def step(v: Array, h: Array, c: Array) -> list[Array]:
        i, o, forget, n = np.split(v + h @ r, 4)
        i = f(_clipped(i + see_i * c, clip))
        forget = 1 - i if input_forget else f(_clipped(forget + see_f * c, clip))
        after = forget * c + i * g(_clipped(n, clip))
        return [f(_clipped(o + see_o * after, clip)) * out(after), after]

    return _recurrence_array(x, size, [h0, c0], lengths, reverse, step)
