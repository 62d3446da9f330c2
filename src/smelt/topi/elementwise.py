"""Operators on one operand, element by element: functions, activations, conversion."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from smelt.ir import build
from smelt.ir import dtype as dt
from smelt.ir.expr import Expr, IntImm, const
from smelt.ir.expr import cast as convert_to
from smelt.te.tensor import Tensor

from .common import (
    at,
    broadcast_shapes,
    dtype_only,
    float_only,
    known_dtype,
    named,
    number,
    numbers_only,
    require,
    same_dtype,
    tensor,
)
from .reference import Array, erf_array, logistic, rounded, widened
from .registry import Meaning, Op, op


def _map(x: Tensor, name: str, fn: Callable[[Expr], Expr]) -> Tensor:
    return tensor(x.shape, lambda *i: fn(x[i]), name)


def _activation(name: str, x: Tensor, fn: Callable[[Expr], Expr]) -> Tensor:
    float_only(x)
    return _map(x, name, fn)


def _function(
    name: str, meaning: Meaning, what: str, fn: Callable[[Expr], Expr] | None = None,
    integers: bool = False,
) -> Op:  # fmt: skip
    """An operator on floats.

    what      its docstring
    fn        of an element; None: the intrinsic of this name
    integers  are taken too, and stay as they are
    """

    def body(x: Tensor) -> Tensor:
        if integers and not dt.is_float(x.dtype):
            return _map(x, name, lambda v: v)
        return _activation(name, x, fn or functools.partial(build.call, name))

    body.__doc__ = what
    return op(name=name, numpy=rounded(meaning))(body)


# ------------------------------------------------------------------------------------ functions


exp = _function("exp", np.exp, "e to the power x.")
log = _function("log", np.log, "The natural logarithm of x.")
exp2 = _function("exp2", np.exp2, "2 to the power x.")
log2 = _function("log2", np.log2, "The logarithm of x to the base 2.")
log10 = _function("log10", np.log10, "The logarithm of x to the base 10.")
sqrt = _function("sqrt", np.sqrt, "The square root of x.")
rsqrt = _function("rsqrt", lambda x: 1 / np.sqrt(x), "1 / sqrt(x).")
tanh = _function("tanh", np.tanh, "The hyperbolic tangent of x.")
sigmoid = _function("sigmoid", logistic, "1 / (1 + exp(-x)).")
erf = _function("erf", erf_array, "The error function of x.")
sin = _function("sin", np.sin, "The sine of x, in radians.")
cos = _function("cos", np.cos, "The cosine of x, in radians.")
tan = _function("tan", np.tan, "The tangent of x, in radians.")
asin = _function("asin", np.arcsin, "The angle whose sine is x, in radians.")
acos = _function("acos", np.arccos, "The angle whose cosine is x, in radians.")
atan = _function("atan", np.arctan, "The angle whose tangent is x, in radians.")
sinh = _function("sinh", np.sinh, "The hyperbolic sine of x.")
cosh = _function("cosh", np.cosh, "The hyperbolic cosine of x.")
asinh = _function("asinh", np.arcsinh, "The inverse of sinh.")
acosh = _function("acosh", np.arccosh, "The inverse of cosh.")
atanh = _function("atanh", np.arctanh, "The inverse of tanh.")
floor = _function("floor", np.floor, "The largest integer not above x.", integers=True)
ceil = _function("ceil", np.ceil, "The smallest integer not below x.", integers=True)
trunc = _function("trunc", np.trunc, "x without its fraction.", integers=True)


@op
def round_(x: Tensor, *, mode: str = "even") -> Tensor:
    """The nearest integer; of two that are equally near the one that `mode` says.

    mode  "even", "away" (from zero) or "up" (the larger one)
    """
    require(mode in ("even", "away", "up"), f"mode={mode!r}; legal: 'even', 'away', 'up'")
    if mode == "even" or not dt.is_float(x.dtype):
        return _map(x, "round", lambda v: build.call("round", v) if dt.is_float(x.dtype) else v)

    def body(v: Expr) -> Expr:
        # the distance to the whole number below (in magnitude) is exact, or on the right side
        below = build.call("trunc" if mode == "away" else "floor", v)
        one = number(1, x.dtype)
        step = build.call("copysign", one, v) if mode == "away" else one
        return build.select(build.call("abs", v - below) >= 0.5, below + step, below)

    return _map(x, "round", body)


def _round(x: Array, mode: str) -> Array:
    if mode == "even" or x.dtype.kind in "iu":
        return np.asarray(np.rint(x))
    exact = x.astype(np.longdouble)  # one half is added without rounding
    if mode == "up":
        return np.asarray(np.floor(exact + 0.5))
    return np.asarray(np.copysign(np.floor(np.abs(exact) + 0.5), exact))


round_.numpy(rounded(_round))


@op(numpy=rounded(np.abs))
def abs_(x: Tensor) -> Tensor:
    """The magnitude of x."""
    if dt.kind(x.dtype) == "uint":
        return _map(x, "abs", lambda v: v)
    return _map(x, "abs", lambda v: build.call("abs", v))


@op(numpy=rounded(np.negative))
def negative(x: Tensor) -> Tensor:
    """-x; the negative of 0.0 is -0.0."""
    require(x.dtype != "bool", "x is bool, which has no negative; use logical_not")
    zero = const(-0.0 if dt.is_float(x.dtype) else 0, x.dtype)
    return _map(x, "negative", lambda v: zero - v)


@op(numpy=rounded(np.sign))
def sign(x: Tensor) -> Tensor:
    """1 where x > 0, -1 where x < 0, x elsewhere (0 and NaN)."""
    numbers_only(x=x)
    if dt.kind(x.dtype) == "uint":
        return _map(x, "sign", lambda v: build.minimum(v, 1))
    return _map(x, "sign", lambda v: build.select(v > 0, 1, build.select(v < 0, -1, v)))


reciprocal = _function("reciprocal", lambda x: 1 / x, "1 / x.", lambda v: 1 / v)


@op(numpy=rounded(lambda x: x * x))
def square(x: Tensor) -> Tensor:
    """x * x."""
    return _map(x, "square", lambda v: v * v)


@op(numpy=rounded(np.logical_not))
def logical_not(x: Tensor) -> Tensor:
    """The other truth value."""
    dtype_only("bool", x=x)
    return _map(x, "logical_not", build.logical_not)


@op(numpy=rounded(np.invert))
def bitwise_not(x: Tensor) -> Tensor:
    """All bits turned round; a truth value is one bit."""
    if x.dtype == "bool":
        return _map(x, "bitwise_not", build.logical_not)
    require(dt.is_int(x.dtype), f"x is {x.dtype}; it has to be an integer")
    return _map(x, "bitwise_not", lambda v: build.call("bitwise_not", v))


def _leading_zeros(x: Array) -> Array:
    bits = 8 * x.dtype.itemsize
    wide = x.view(f"u{x.dtype.itemsize}")
    return np.asarray(sum(wide >> k == 0 for k in range(bits))).astype(x.dtype)


@op(numpy=_leading_zeros)
def clz(x: Tensor) -> Tensor:
    """How many bits are above the highest one that is set: all bits of the type for 0."""
    require(dt.is_int(x.dtype) and x.dtype != "bool", f"x is {x.dtype}; it has to be an integer")
    return _map(x, "clz", lambda v: build.call("clz", v))


def _classified(name: str, x: Tensor, integers: bool) -> Tensor:
    """A test of floats, whose answer for all integers is known."""
    if not dt.is_float(x.dtype):
        return _map(x, name, lambda _: const(integers))
    return _map(x, name, lambda v: build.call(name, v, dtype="bool"))


@op(numpy=lambda x: np.isnan(widened(x)))
def isnan(x: Tensor) -> Tensor:
    """Whether x is no number; integers are."""
    return _classified("isnan", x, False)


@op
def isinf(x: Tensor, *, detect_negative: bool = True, detect_positive: bool = True) -> Tensor:
    """Whether x is infinite, on the sides asked for; integers are not."""
    if not dt.is_float(x.dtype):
        return _classified("isinf", x, False)
    inf = const(math.inf, x.dtype)
    sides = [inf] * detect_positive + [const(-math.inf, x.dtype)] * detect_negative
    if len(sides) == 2:
        return _map(x, "isinf", lambda v: build.call("isinf", v, dtype="bool"))
    return _map(x, "isinf", lambda v: build.any_of([build.equal(v, s) for s in sides]))


def _isinf(x: Array, detect_negative: bool, detect_positive: bool) -> Array:
    x = widened(x)
    return np.asarray(((x == np.inf) & detect_positive) | ((x == -np.inf) & detect_negative))


isinf.numpy(_isinf)


@op(numpy=lambda x: np.isfinite(widened(x)))
def isfinite(x: Tensor) -> Tensor:
    """Whether x is a number and not infinite; integers are."""
    return _classified("isfinite", x, True)


@op(numpy=lambda x, dtype: np.asarray(x, order="C").view(dt.to_numpy(dtype)))
def reinterpret(x: Tensor, *, dtype: str) -> Tensor:
    """The bits of x read as another element type of the same width; truth values have no bits."""
    legal = [t for t in dt.DTYPES if dt.width(t) == dt.width(x.dtype) and t != "bool"]
    require(x.dtype != "bool", "x is bool, whose bits have no meaning; cast it")
    require(dtype in legal, f"x is {x.dtype}, dtype={dtype!r}; legal: {', '.join(legal)}")
    return _map(x, "reinterpret", lambda v: v if dtype == x.dtype else _bits_as(v, dtype))


def _bits_as(v: Expr, dtype: str) -> Expr:
    if dt.is_int(v.dtype) and dt.is_int(dtype):
        return convert_to(dtype, v)
    return build.call("reinterpret", v, dtype=dtype)


@op
def cast(x: Tensor, *, dtype: str) -> Tensor:
    """x converted: floats to integers by truncation, numbers to bool by comparison with 0.

    What an integer type of 8 bits and more cannot hold becomes its nearest value, a NaN 0; of
    narrower ones the low bits stay. Floats are rounded to nearest, ties to even (those of
    float8_e8m0fnu: ties up); what is beyond the largest value becomes an infinity, where there is
    none NaN, where there is none the largest.
    """
    known_dtype(dtype)
    if dtype == "bool" and x.dtype != "bool":
        return _map(x, "cast", lambda v: build.not_equal(v, number(0, x.dtype)))
    return _map(x, "cast", lambda v: convert_to(dtype, v))


@cast.numpy
def _(x: Array, *, dtype: str) -> Array:
    """Conversion; bool by comparison with 0."""
    return x != 0 if dtype == "bool" else dt.converted(np.asarray(x), dtype)


@op(numpy=rounded(lambda x: x))
def identity(x: Tensor) -> Tensor:
    """x itself."""
    return _map(x, "identity", lambda v: v)


# ---------------------------------------------------------------------------------- activations


@op(chooses=True, numpy=rounded(lambda x: np.maximum(x, 0)))
def relu(x: Tensor) -> Tensor:
    """max(x, 0)."""
    return _map(x, "relu", lambda v: build.maximum(v, number(0, x.dtype)))


@op(chooses=True)
def clip(x: Tensor, *, min: float | None = None, max: float | None = None) -> Tensor:
    """min(max(x, min), max); None leaves a side open."""

    def body(v: Expr) -> Expr:
        v = v if min is None else build.maximum(v, _limit(min, x.dtype))
        return v if max is None else build.minimum(v, _limit(max, x.dtype))

    return _map(x, "clip", body)


def _clip(x: Array, min: float | None, max: float | None) -> Array:
    if x.dtype.kind in "iu":
        ends = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
        min, max = [None if v is None else int(np.clip(v, *ends)) for v in (min, max)]
    x = x if min is None else np.maximum(x, x.dtype.type(min))
    return np.asarray(x if max is None else np.minimum(x, x.dtype.type(max)))


clip.numpy(rounded(_clip))


def _limit(value: float, dtype: str) -> Expr:
    """A bound as a constant; one that an integer type cannot hold becomes its own limit."""
    if dt.is_float(dtype):
        return const(value, dtype)
    low, high = dt.limits(dtype)
    return const(low if value < low else high if value > high else int(value), dtype)


@op(numpy=rounded(lambda x, alpha: np.where(x > 0, x, alpha * x)))
def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    """x where x > 0, alpha * x elsewhere."""
    return _activation("leaky_relu", x, lambda v: build.select(v > 0, v, alpha * v))


@op(numpy=rounded(lambda x, alpha: np.where(x > alpha, x, 0)))
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x where x > alpha, 0 elsewhere."""
    return _activation("thresholded_relu", x, lambda v: build.select(v > alpha, v, 0.0))


@op(numpy=rounded(lambda x, slope: np.where(x > 0, x, slope * x)))
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """x where x > 0, slope * x elsewhere; `slope` has no known extent that repeats x."""
    same_dtype(x=x, slope=slope)
    shape = broadcast_shapes(x=x.shape, slope=slope.shape)
    beside = zip(reversed(x.shape), reversed(slope.shape), strict=False)
    repeats = any(build.is_const(a, 1) and isinstance(b, IntImm) and b.value > 1 for a, b in beside)
    require(
        len(slope.shape) <= len(x.shape) and not repeats,
        f"{named(slope=slope)} does not broadcast to {named(x=x)}",
    )

    def body(*i: Expr) -> Expr:
        v = at(x, shape, i)
        return build.select(v > 0, v, at(slope, shape, i) * v)

    return tensor(shape, body, "prelu")


@op(numpy=rounded(lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x))))
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x where x > 0, alpha * (exp(x) - 1) elsewhere."""
    return _activation("elu", x, lambda v: build.select(v > 0, v, alpha * build.call("expm1", v)))


@op
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)."""
    require(alpha != 0, "alpha=0 would divide by zero")

    def body(v: Expr) -> Expr:
        below = alpha * build.call("expm1", v / alpha)
        return build.maximum(v, 0.0) + build.minimum(below, 0.0)

    return _activation("celu", x, body)


celu.numpy(rounded(lambda x, alpha: np.maximum(x, 0) + np.minimum(alpha * np.expm1(x / alpha), 0)))


@op
def selu(
    x: Tensor, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875
) -> Tensor:
    """gamma * (x where x > 0, alpha * (exp(x) - 1) elsewhere)."""
    return _activation(
        "selu", x, lambda v: gamma * build.select(v > 0, v, alpha * build.call("expm1", v))
    )


selu.numpy(rounded(lambda x, alpha, gamma: gamma * np.where(x > 0, x, alpha * np.expm1(x))))


@op
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """x times the normal distribution at x: exact ("none") or by a formula with tanh ("tanh")."""
    require(approximate in ("none", "tanh"), f"approximate={approximate!r}; legal: 'none', 'tanh'")
    if approximate == "none":
        root = 1 / math.sqrt(2)
        return _activation("gelu", x, lambda v: 0.5 * v * (1.0 + build.call("erf", v * root)))
    c = math.sqrt(2 / math.pi)
    return _activation(
        "gelu", x, lambda v: 0.5 * v * (1.0 + build.call("tanh", c * (v + 0.044715 * (v * v * v))))
    )


def _gelu(x: Array, approximate: str) -> Array:
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return np.asarray(0.5 * x * (1 + np.tanh(inner)))
    return np.asarray(0.5 * x * (1 + erf_array(x / math.sqrt(2))))


gelu.numpy(rounded(_gelu))


@op(numpy=rounded(lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1)))
def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """alpha * x + beta, cut at 0 and 1."""
    return _activation(
        "hard_sigmoid", x, lambda v: build.maximum(build.minimum(alpha * v + beta, 1.0), 0.0)
    )


hard_swish = _function(
    "hard_swish", lambda x: x * np.clip(x / 6 + 0.5, 0, 1), "x * (x / 6 + 0.5, cut at 0 and 1).",
    lambda v: v * build.maximum(build.minimum(v * (1 / 6) + 0.5, 1.0), 0.0),
)  # fmt: skip


def _softplus(v: Expr) -> Expr:
    return build.maximum(v, 0.0) + build.call("log1p", build.call("exp", -build.call("abs", v)))


def _softplus_array(x: Array) -> Array:
    return np.asarray(np.logaddexp(x, np.zeros((), x.dtype)))


softplus = _function(
    "softplus", _softplus_array, "log(1 + exp(x)), in a form that does not overflow.", _softplus
)
softsign = _function(
    "softsign", lambda x: x / (1 + np.abs(x)), "x / (1 + |x|).",
    lambda v: v / (1.0 + build.call("abs", v)),
)  # fmt: skip
mish = _function(
    "mish", lambda x: x * np.tanh(_softplus_array(x)), "x * tanh(softplus(x)).",
    lambda v: v * build.call("tanh", _softplus(v)),
)  # fmt: skip
silu = _function(
    "silu", lambda x: x * logistic(x), "x * sigmoid(x).", lambda v: v * build.call("sigmoid", v)
)
