"""Activations that models spell out: recognised as polynomials in x and one function of x.

An expression such as `0.5 * x * (1 + erf(x / sqrt 2))` is expanded into coefficients of products
of x and t = erf(...): {x: 0.5, x t: 0.5}. So the order of operands and the place of constants do
not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from smelt.relax.nodes import Call, Constant, RelaxExpr

from .engine import GraphRewriter, RuleSet
from .match import close, dtype_of, is_op, op_name, scalar_of, strip_scale, type_is

ACTIVATION_RULES = RuleSet()
rule = ACTIVATION_RULES.rule

Poly = dict[tuple[int, int], float]
"""(power of x, power of t) -> coefficient."""


def _times(a: Poly, b: Poly) -> Poly:
    out: Poly = {}
    for (i, j), p in a.items():
        for (k, m), q in b.items():
            key = (i + k, j + m)
            out[key] = out.get(key, 0.0) + p * q
    return out


def _plus(a: Poly, b: Poly, sign: float = 1.0) -> Poly:
    return {k: a.get(k, 0.0) + sign * b.get(k, 0.0) for k in {**a, **b}}


def polynomial(
    n: RelaxExpr | None, x: RelaxExpr, t: RelaxExpr | None, depth: int = 8
) -> Poly | None:
    """A value as a polynomial in x and t; None where it is something else."""
    if n is x:
        return {(1, 0): 1.0}
    if t is not None and n is t:
        return {(0, 1): 1.0}
    k = scalar_of(n)
    if k is not None:
        return {(0, 0): k}
    if depth == 0 or not isinstance(n, Call):
        return None
    form = _FORMS.get(op_name(n))
    parts = [polynomial(a, x, t, depth - 1) for a in n.args] if form else []
    known = [p for p in parts if p is not None]
    if form is None or not parts or len(known) != len(parts):
        return None
    return form(known, scalar_of(n.args[-1]))


def _power(p: Poly, k: float | None) -> Poly | None:
    square = _times(p, p)
    return square if k == 2.0 else _times(square, p) if k == 3.0 else None


_FORMS: dict[str, Callable[[list[Poly], float | None], Poly | None]] = {
    "add": lambda p, k: _plus(p[0], p[1]),
    "subtract": lambda p, k: _plus(p[0], p[1], -1.0),
    "multiply": lambda p, k: _times(p[0], p[1]),
    "negative": lambda p, k: _times(p[0], {(0, 0): -1.0}),
    "square": lambda p, k: _times(p[0], p[0]),
    "divide": lambda p, k: _times(p[0], {(0, 0): 1.0 / k}) if k else None,
    "power": lambda p, k: _power(p[0], k),
}
"""Operator: (its operands as polynomials, the last one if it is a number) -> the result as one."""


def is_poly(p: Poly | None, want: Poly, dtype: str) -> bool:
    """Whether a polynomial has these coefficients, about."""
    if p is None:
        return False
    p = {k: c for k, c in p.items() if c != 0.0}
    return p.keys() == want.keys() and all(close(p[k], c, dtype) for k, c in want.items())


def _below(n: RelaxExpr | None, depth: int) -> Iterator[RelaxExpr]:
    """What a value is made from by polynomial operators, the value itself first."""
    if n is None or isinstance(n, Constant):
        return
    yield n
    if depth and isinstance(n, Call) and op_name(n) in _FORMS:
        for a in n.args:
            yield from _below(a, depth - 1)


def _function(n: Call, *names: str) -> Call | None:
    """The function t that a value is a polynomial of."""
    return next((t for t in _below(n, 4) if is_op(t, *names)), None)


def _of_type(n: Call, t: Call, *, depth: int = 6) -> Iterator[RelaxExpr]:
    """Candidates for x: what t's operand is made from."""
    for x in dict.fromkeys(_below(t.args[0], depth)):
        if type_is(x, n):
            yield x


# ---------------------------------------------------------------------------------------- gelu

_ROOT = 1 / math.sqrt(2)
_TANH = math.sqrt(2 / math.pi)
_HALF: Poly = {(1, 0): 0.5, (1, 1): 0.5}


@rule("multiply", "add", "divide")
def gelu_spelled(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """x / 2 * (1 + erf(x / sqrt(2)))  =  gelu(x)
    x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))  =  gelu(x, approximate="tanh")"""
    t = _function(n, "erf", "tanh")
    if t is None:
        return None
    dtype = dtype_of(n)
    inner: Poly = {(1, 0): _ROOT}
    if is_op(t, "tanh"):
        inner = {(1, 0): _TANH, (3, 0): _TANH * 0.044715}
    for x in _of_type(n, t):
        if not is_poly(polynomial(t.args[0], x, None), inner, dtype):
            continue
        if is_poly(polynomial(n, x, t), _HALF, dtype) and g.only_inside(n, x):
            return g.call("gelu", x, approximate="none" if is_op(t, "erf") else "tanh")
    return None


# ---------------------------------------------------------------------------- sigmoid, softplus


def _exp_and_one(x: RelaxExpr | None) -> RelaxExpr | None:
    """v of exp(v) + 1."""
    if not is_op(x, "add") or scalar_of(x.args[1]) != 1.0 or not is_op(x.args[0], "exp"):
        return None
    return x.args[0].args[0]


def _exp_of_minus(x: RelaxExpr | None) -> RelaxExpr | None:
    """v of exp(-v) + 1."""
    e = _exp_and_one(x)
    v, k = (None, 0.0) if e is None else strip_scale(e)
    return v if k == -1.0 else None


@rule("reciprocal")
def sigmoid_spelled(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """1 / (1 + exp(-x))  =  sigmoid(x)"""
    x = _exp_of_minus(n.args[0])
    return g.call("sigmoid", x) if x is not None and g.only_inside(n, x) else None


@rule("divide")
def over_one_plus_exp(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """y / (1 + exp(-x))  =  y * sigmoid(x)"""
    x = _exp_of_minus(n.args[1])
    if x is None or not type_is(x, n.args[1]) or not g.only_inside(n, x, n.args[0]):
        return None
    return g.call("multiply", n.args[0], g.call("sigmoid", x))


@rule("multiply")
def product_with_function(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """x * sigmoid(x)  =  silu(x)        x * tanh(softplus(x))  =  mish(x)
    x * hard_sigmoid(x, 1 / 6, 1 / 2)  =  hard_swish(x)"""
    for x, t in (n.args, n.args[::-1]):
        if not is_op(t, "sigmoid", "tanh", "hard_sigmoid") or not g.single(t):
            continue
        if is_op(t, "sigmoid") and t.args[0] is x:
            return g.call("silu", x)
        soft = t.args[0] if is_op(t, "tanh") else None
        if is_op(soft, "softplus") and soft.args[0] is x and g.single(soft):
            return g.call("mish", x)
        sixth = is_op(t, "hard_sigmoid") and close(t.attrs["alpha"], 1 / 6)
        if sixth and t.attrs["beta"] == 0.5 and t.args[0] is x:
            return g.call("hard_swish", x)
    return None


@rule("log")
def softplus_spelled(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """log(1 + exp(x))  =  softplus(x)"""
    x = _exp_and_one(n.args[0])
    return g.call("softplus", x) if x is not None and g.only_inside(n, x) else None


# --------------------------------------------------------------------------- hard sigmoid, swish


def _hard(t: Call, x: RelaxExpr, dtype: str) -> float | None:
    """The k with t = k * (x / 6 + 1 / 2, cut at 0 and 1): 6 for clip(x + 3, 0, 6)."""
    k = t.attrs["max"]
    if t.attrs["min"] != 0.0 or k is None or k <= 0:
        return None
    fits = is_poly(polynomial(t.args[0], x, None), {(1, 0): k / 6, (0, 0): k / 2}, dtype)
    return float(k) if fits else None


@rule("multiply", "divide")
def hard_swish_spelled(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """x * clip(x + 3, 0, 6) / 6  =  hard_swish(x)"""
    t = _function(n, "clip")
    if t is None:
        return None
    for x in _of_type(n, t, depth=3):
        k = _hard(t, x, dtype_of(n))
        if k and is_poly(polynomial(n, x, t), {(1, 1): 1 / k}, dtype_of(n)) and g.only_inside(n, x):
            return g.call("hard_swish", x)
    return None
