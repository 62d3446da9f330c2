"""Element by element, reductions, tensors made of nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from smelt import relay

from .support import Array, Case, floats, ints

A, B = floats(3, 4), floats(3, 4, seed=1)
P, Q = floats(3, 4, low=0.1, high=3), floats(3, 4, seed=2, low=0.5, high=2)
N, J = ints(3, 4), ints(4, seed=3, low=1, high=9)
BOOL = N > 0
ERF = np.vectorize(math.erf)


def op(name: str) -> Callable[..., Any]:
    """The builder of a name."""
    place: Any = relay
    for part in name.split("."):
        place = getattr(place, part)
    return place  # type: ignore[no-any-return]


def f32(fn: Callable[..., Any]) -> Callable[..., Array]:
    """A function of numpy whose result is float32."""
    return lambda *xs: np.asarray(fn(*[x.astype("float64") for x in xs])).astype("float32")


def away(x: Array) -> Array:
    """Rounded, halves away from zero."""
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


UNARY: dict[str, tuple[Callable[..., Any], Array]] = {
    "exp": (np.exp, A), "log": (np.log, P), "log2": (np.log2, P), "log10": (np.log10, P),
    "sqrt": (np.sqrt, P), "rsqrt": (lambda x: 1 / np.sqrt(x), P), "tanh": (np.tanh, A),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), A), "erf": (ERF, A), "sin": (np.sin, A),
    "cos": (np.cos, A), "tan": (np.tan, A / 2), "asin": (np.arcsin, A / 2),
    "acos": (np.arccos, A / 2), "atan": (np.arctan, A), "sinh": (np.sinh, A),
    "cosh": (np.cosh, A), "asinh": (np.arcsinh, A), "acosh": (np.arccosh, P + 1),
    "atanh": (np.arctanh, A / 3), "floor": (np.floor, A), "ceil": (np.ceil, A),
    "trunc": (np.trunc, A), "round": (away, np.array([0.5, 1.5, -0.5, 2.4, -2.6], "float32")),
    "abs": (np.abs, A), "negative": (np.negative, A), "sign": (np.sign, A),
    "copy": (lambda x: x, A), "nn.relu": (lambda x: np.maximum(x, 0), A),
    "fast_exp": (np.exp, A), "fast_tanh": (np.tanh, A), "fast_erf": (ERF, A),
    "annotation.stop_fusion": (lambda x: x, A), "annotation.checkpoint": (lambda x: x, A),
    "annotation.bitpack_start": (lambda x: x, A), "annotation.bitpack_end": (lambda x: x, A),
    "annotation.force_cast": (lambda x: x, A),
}  # fmt: skip
LOOSE = ("fast_exp", "fast_tanh", "fast_erf")

FLOAT_PAIRS: dict[str, tuple[Callable[..., Any], Array, Array]] = {
    "add": (np.add, A, B), "subtract": (np.subtract, A, B[0]), "multiply": (np.multiply, A, B),
    "divide": (np.divide, A, Q), "power": (np.power, P, B), "minimum": (np.minimum, A, B),
    "maximum": (np.maximum, A, B), "floor_divide": (np.floor_divide, A, Q),
    "floor_mod": (np.mod, A, Q), "mod": (np.fmod, A, Q), "trunc_mod": (np.fmod, A, Q),
    "trunc_divide": (lambda x, y: np.trunc(x / y), A, Q),
}  # fmt: skip

OTHER_PAIRS: dict[str, tuple[Callable[..., Any], Array, Array]] = {
    "equal": (np.equal, N, ints(3, 4)), "not_equal": (np.not_equal, N, J),
    "less": (np.less, N, J), "less_equal": (np.less_equal, N, J), "greater": (np.greater, A, B),
    "greater_equal": (np.greater_equal, A, B),
    "logical_and": (np.logical_and, BOOL, A > 0), "logical_or": (np.logical_or, BOOL, A > 0),
    "logical_xor": (np.logical_xor, BOOL, A > 0), "bitwise_and": (np.bitwise_and, N, J),
    "bitwise_or": (np.bitwise_or, N, J), "bitwise_xor": (np.bitwise_xor, N, J),
    "left_shift": (np.left_shift, N, J % 5), "right_shift": (np.right_shift, N, J % 5),
}  # fmt: skip


def rounded(x: Array) -> Array:
    """fixed_point_multiply by 0.75 * 2 ** -1."""
    return np.floor(x.astype("float64") * 0.375 + 0.5).astype("int32")


def elementwise() -> list[Case]:
    """One case for each operator of one or two operands."""
    out = [
        Case(n, op(n), [x], f32(fn), 1e-5 if n in LOOSE else 2e-6) for n, (fn, x) in UNARY.items()
    ]
    out += [Case(n, op(n), [a, b], f32(fn)) for n, (fn, a, b) in FLOAT_PAIRS.items()]
    out += [Case(n, op(n), [a, b], fn) for n, (fn, a, b) in OTHER_PAIRS.items()]
    odd = np.array([1, np.nan, np.inf, -np.inf], "float32")
    by = np.array([1 << 30, (1 << 30) + (1 << 29)], "int32")
    zero, one = np.zeros(2, "int32"), np.ones(2, "int32")
    big = ints(3, 2, low=-10000, high=10000)
    q = np.array([0.5, 0.75])
    return [
        *out,
        Case("isnan", relay.isnan, [odd], np.isnan), Case("isinf", relay.isinf, [odd], np.isinf),
        Case("isfinite", relay.isfinite, [odd], np.isfinite),
        Case("logical_not", relay.logical_not, [BOOL], np.logical_not),
        Case("bitwise_not", relay.bitwise_not, [N], np.invert),
        Case("divide", relay.divide, [N, J], lambda a, b: np.trunc(a / b).astype("int32")),
        Case("floor_divide", relay.floor_divide, [N, J], np.floor_divide),
        Case("mod", relay.mod, [N, J], np.fmod), Case("floor_mod", relay.floor_mod, [N, J], np.mod),
        Case("trunc_divide", relay.trunc_divide, [N, J],
             lambda a, b: np.trunc(a / b).astype("int32")),
        Case("cast", lambda x: relay.cast(x, "int32"), [A], lambda x: x.astype("int32")),
        Case("cast_like", relay.cast_like, [A, N], lambda x, y: x.astype("int32")),
        Case("reinterpret", lambda x: relay.reinterpret(x, "int32"), [A],
             lambda x: x.view("int32")),
        Case("clip", lambda x: relay.clip(x, -1, 1.5), [A], lambda x: np.clip(x, -1, 1.5)),
        Case("clip", lambda x: relay.clip(x, 0, 6), [N], lambda x: np.clip(x, 0, 6)),
        Case("nn.leaky_relu", lambda x: relay.nn.leaky_relu(x, 0.1), [A],
             f32(lambda x: np.where(x > 0, x, 0.1 * x))),
        Case("nn.prelu", lambda x, a: relay.nn.prelu(x, a, axis=1), [A, Q[0]],
             f32(lambda x, a: np.where(x > 0, x, a * x))),
        Case("nn.prelu", lambda x, a: relay.nn.prelu(x, a, axis=0), [A, Q[0, :1]],
             f32(lambda x, a: np.where(x > 0, x, a * x))),
        Case("where", relay.where, [BOOL, A, B[0]], np.where),
        Case("device_copy", lambda x: relay.device_copy(x, "cpu", "cpu"), [A], lambda x: x),
        Case("on_device", lambda x: relay.annotation.on_device(x, "cpu"), [A], lambda x: x),
        Case("annotation.cast_hint", lambda x: relay.annotation.cast_hint(x, "int8"), [A],
             lambda x: x),
        Case("annotation.compiler_begin", lambda x: relay.annotation.compiler_begin(x, "dnnl"), [A],
             lambda x: x),
        Case("annotation.compiler_end", lambda x: relay.annotation.compiler_end(x, "dnnl"), [A],
             lambda x: x),
        Case("fixed_point_multiply",
             lambda x: relay.fixed_point_multiply(x, (1 << 30) + (1 << 29), -1), [big], rounded),
        Case("fixed_point_multiply_per_axis",
             lambda x, y, a, b: relay.fixed_point_multiply_per_axis(x, y, a, b, False, True, [1]),
             [big, by, zero, one],
             lambda x, *_: np.floor(x.astype("float64") * q / 2 + 0.5).astype("int32")),
    ]  # fmt: skip


def reduced(name: str, x: Array) -> list[Case]:
    """A reduction over some axes, over the others, over all."""
    ours, theirs = op(name), getattr(np, name)
    return [
        Case(name, lambda v: ours(v, axis=(0, 2)), [x], f32(lambda v: theirs(v, axis=(0, 2)))),
        Case(name, lambda v: ours(v, axis=1, keepdims=True, exclude=True), [x],
             f32(lambda v: theirs(v, axis=(0, 2), keepdims=True))),
        Case(name, ours, [x], f32(theirs)),
    ]  # fmt: skip


def reductions() -> list[Case]:
    """Reductions, statistics, running sums."""
    x = floats(2, 3, 4)
    b = x > 0
    n = ints(2, 3, 4, low=1, high=4)
    out: list[Case] = []
    for name in ("sum", "prod", "min", "max", "mean"):
        out += reduced(name, x)
    return [
        *out,
        Case("argmax", lambda v: relay.argmax(v, axis=-1), [x],
             lambda v: v.argmax(-1).astype("int32")),
        Case("argmax", lambda v: relay.argmax(v, keepdims=True), [x],
             lambda v: v.argmax().astype("int32").reshape(1, 1, 1)),
        Case("argmin", lambda v: relay.argmin(v, 0, True), [x],
             lambda v: v.argmin(0)[None].astype("int32")),
        Case("all", lambda v: relay.all(v, axis=1), [b], lambda v: v.all(1)),
        Case("any", lambda v: relay.any(v, [0, 1], True), [b],
             lambda v: v.any((0, 1), keepdims=True)),
        Case("cumsum", lambda v: relay.cumsum(v, 1), [n],
             lambda v: np.cumsum(v, 1).astype("int32")),
        Case("cumsum", lambda v: relay.cumsum(v, dtype="int64", exclusive=True), [n],
             lambda v: np.cumsum(v) - v.reshape(-1)),
        Case("cumprod", lambda v: relay.cumprod(v, -1), [n],
             lambda v: np.cumprod(v, -1).astype("int32")),
        Case("variance", lambda v: relay.variance(v, axis=1), [x], f32(lambda v: v.var(1))),
        Case("variance", lambda v: relay.variance(v, [0], True, unbiased=True), [x],
             f32(lambda v: v.var(0, keepdims=True, ddof=1))),
        Case("std", lambda v: relay.std(v, axis=[0, 1]), [x], f32(lambda v: v.std((0, 1)))),
        Case("mean_variance", lambda v: relay.mean_variance(v, axis=2), [x],
             lambda v: (f32(lambda u: u.mean(2))(v), f32(lambda u: u.var(2))(v))),
        Case("mean_std", lambda v: relay.mean_std(v, 2, True), [x],
             lambda v: (f32(lambda u: u.mean(2, keepdims=True))(v),
                        f32(lambda u: u.std(2, keepdims=True))(v))),
        Case("logsumexp", lambda v: relay.logsumexp(v, 1), [x],
             f32(lambda v: np.log(np.exp(v).sum(1)))),
    ]  # fmt: skip


def created() -> list[Case]:
    """Tensors made of nothing, or of a shape."""
    i = np.array([[1, 0], [4, -1]], "int32")
    two, five = np.array(2, "float32"), np.array(5, "float32")
    eye = np.where(i[..., None] == np.arange(5), 5, 2).astype("float32")
    m = floats(2, 4, 4)
    replaced = m.copy()
    replaced[:, range(4), range(4)] = floats(2, 4)
    return [
        Case("zeros", lambda: relay.zeros((2, 3), "int32"), [], np.zeros((2, 3), "int32")),
        Case("ones", lambda: relay.ones([2], "float32"), [], np.ones(2, "float32")),
        Case("full", lambda: relay.full(1.0, (2, 3), "float32"), [], np.ones((2, 3), "float32")),
        Case("full", lambda v: relay.full(v, (2, 3)), [two], np.full((2, 3), 2, "float32")),
        Case("full", lambda: relay.full(relay.const(7), (2,), "int64"), [], np.full(2, 7)),
        Case("zeros_like", relay.zeros_like, [N], np.zeros_like),
        Case("ones_like", relay.ones_like, [A], np.ones_like),
        Case("full_like", relay.full_like, [A, two], lambda a, _: np.full_like(a, 2)),
        Case("arange", lambda: relay.arange(5), [], np.arange(5, dtype="float32")),
        Case("arange", lambda: relay.arange(1, 7, 2, "int32"), [],
             np.arange(1, 7, 2, dtype="int32")),
        Case("arange",
             lambda: relay.arange(relay.const(5), relay.const(0), relay.const(-2), "int64"),
             [], np.arange(5, 0, -2)),
        Case("one_hot", lambda v, a, b: relay.one_hot(v, a, b, 5, -1, "float32"), [i, five, two],
             eye),
        Case("one_hot", lambda v: relay.one_hot(v, relay.const(5.0), relay.const(2.0), 5, 0,
                                                "float32"), [i], np.moveaxis(eye, -1, 0)),
        Case("shape_of", relay.shape_of, [A], np.array([3, 4], "int32")),
        Case("ndarray_size", lambda v: relay.ndarray_size(v, "int64"), [A], np.array(12)),
        Case("meshgrid", lambda a, b: relay.meshgrid([a, b]), [A[0], B[0, :3]],
             lambda a, b: np.meshgrid(a, b, indexing="ij")),
        Case("meshgrid", lambda a, b: relay.meshgrid([a, b], "xy"), [A[0], B[0, :3]],
             lambda a, b: np.meshgrid(a, b)),
        Case("matrix_set_diag", lambda a, b: relay.matrix_set_diag(a, b), [m, floats(2, 4)],
             lambda *_: replaced),
        Case("trilu", lambda v: relay.trilu(v, relay.const(1), False), [m],
             lambda v: np.tril(v, 1)),
        Case("trilu", lambda v, k: relay.trilu(v, k), [m, np.array(-1, "int32")],
             lambda v, _: np.triu(v, -1)),
    ]  # fmt: skip


CASES = [*elementwise(), *reductions(), *created()]
