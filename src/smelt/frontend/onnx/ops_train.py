"""Converters of derivatives and of the steps of optimisers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from smelt.frontend.common import Build, Graph, Value
from smelt.ir.errors import Unsupported
from smelt.relax.derivative import derivatives, with_values

from .registry import Strs, onnx_op

DOMAIN = "ai.onnx.preview.training"


def _groups(g: Build, tensors: Sequence[Value], kinds: int) -> list[tuple[Value, ...]]:
    """One tuple for each tensor that is trained, of operands that come kind by kind."""
    if len(tensors) % kinds:
        g.malformed(f"{len(tensors)} tensors after R and T; their number is a multiple of {kinds}")
    count = len(tensors) // kinds
    return [tuple(tensors[k::count]) for k in range(count)]


def _by_kind(results: Sequence[tuple[Value, ...]]) -> tuple[Value, ...]:
    """Results of the tensors, kind by kind."""
    return tuple([v for kind in zip(*results, strict=True) for v in kind])


class _Steps:
    """Calls of operators by name."""

    def __init__(self, g: Build) -> None:
        self.g = g

    def __getattr__(self, op: str) -> Callable[..., Value]:
        return partial(self.g.call, op)


def _regular(s: _Steps, x: Value, gradient: Value, norm: float) -> Value:
    """The gradient with that of norm / 2 |x|^2."""
    return s.add(s.multiply(x, norm), gradient) if norm else gradient


@onnx_op("Adagrad", domain=DOMAIN)
def adagrad(
    g: Build, rate: Value, count: Value, *tensors: Value, decay_factor: float = 0.0,
    epsilon: float = 1e-6, norm_coefficient: float = 0.0,
) -> tuple[Value, ...]:  # fmt: skip
    """Steps divided by the root of the sum of squares of all gradients so far."""
    s, results = _Steps(g), []
    for x, gradient, squares in _groups(g, tensors, 3):
        past = s.add(s.multiply(g.call("cast", count, dtype=x.dtype), decay_factor), 1.0)
        step = s.divide(rate, past)
        regular = _regular(s, x, gradient, norm_coefficient)
        squares = s.add(squares, s.multiply(regular, regular))
        size = s.add(g.call("sqrt", squares), epsilon)
        moved = s.subtract(x, s.divide(s.multiply(step, regular), size))
        results.append((moved, squares))
    return _by_kind(results)


@onnx_op("Adam", domain=DOMAIN)
def adam(
    g: Build, rate: Value, count: Value, *tensors: Value, alpha: float = 0.9, beta: float = 0.999,
    epsilon: float = 1e-6, norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0,
) -> tuple[Value, ...]:  # fmt: skip
    """Steps along the running mean of the gradients, divided by that of their squares."""
    s, results = _Steps(g), []
    for x, gradient, mean, squares in _groups(g, tensors, 4):
        regular = _regular(s, x, gradient, norm_coefficient)
        mean = s.add(s.multiply(mean, alpha), s.multiply(regular, 1 - alpha))
        square = s.multiply(regular, regular)
        squares = s.add(s.multiply(squares, beta), s.multiply(square, 1 - beta))
        step = g.call(
            "where", s.greater(count, 0), _corrected(g, s, rate, count, x.dtype, alpha, beta), rate
        )
        size = s.add(g.call("sqrt", squares), epsilon)
        moved = s.subtract(x, s.divide(s.multiply(step, mean), size))
        if norm_coefficient_post:
            moved = s.multiply(moved, 1 - norm_coefficient_post)
        results.append((moved, mean, squares))
    return _by_kind(results)


def _corrected(
    g: Build, s: _Steps, rate: Value, count: Value, dtype: str, alpha: float, beta: float
) -> Value:
    """The rate with the bias of running means that began at 0 taken out."""
    n = g.call("cast", count, dtype=dtype)
    above = g.call("sqrt", s.subtract(1.0, s.power(beta, n)))
    return s.divide(s.multiply(rate, above), s.subtract(1.0, s.power(alpha, n)))


@onnx_op("Momentum", domain=DOMAIN)
def momentum(
    g: Build, rate: Value, count: Value, *tensors: Value, alpha: float, beta: float, mode: str,
    norm_coefficient: float,
) -> tuple[Value, ...]:  # fmt: skip
    """Steps along a running sum of the gradients."""
    g.one_of("mode", mode, ("standard", "nesterov"))
    s, results = _Steps(g), []
    for x, gradient, speed in _groups(g, tensors, 3):
        regular = _regular(s, x, gradient, norm_coefficient)
        share = g.call(
            "where", s.greater(count, 0), g.constant(beta, x.dtype), g.constant(1.0, x.dtype)
        )
        speed = s.add(s.multiply(speed, alpha), s.multiply(share, regular))
        along = speed if mode == "standard" else s.add(regular, s.multiply(speed, alpha))
        results.append((s.subtract(x, s.multiply(rate, along)), speed))
    return _by_kind(results)


@onnx_op("Gradient", domain=DOMAIN)
def gradient(
    g: Build, first: Value, *rest: Value, xs: Strs, y: str, zs: Strs = ()
) -> tuple[Value, ...]:
    """The derivatives of a tensor of the graph by others, where these have the operands' values."""
    given = (first, *rest)
    if len(given) != len(xs) + len(zs):
        g.malformed(f"{len(given)} operands for xs={xs} and zs={zs}")
    named = g.walk.branch(Graph(g.step.label, [], {}, [], [y, *xs, *zs]))
    values = [v for v in named if isinstance(v, Value)]
    if len(values) != len(named):
        g.unsupported("a sequence in xs, zs or y", "tensors")
    result, *places = values
    where = {old.expr: new.expr for old, new in zip(places, given, strict=True)}
    try:
        whole = with_values(result.expr, where)
        made = derivatives(whole, [v.expr for v in given[: len(xs)]])
    except Unsupported as e:
        raise Unsupported(f"{g.where}: {e}") from e
    return tuple([Value(v.type, d) for v, d in zip(given, made, strict=False)])
