"""The operators in numpy, written from their definitions: elementwise, reductions, creation.

They are the oracle of everything else, so they never look at the tensor expressions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from smelt.ir.dtype import converted, from_numpy, is_int, to_numpy

Array = np.ndarray[Any, Any]
Index = tuple[Any, ...]
NUMPY_OPS: dict[str, Callable[..., Any]] = {}
"""Operator name -> function of arrays (None = operand left out) and attributes."""


def numpy_op(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Enter a function under its name, without an underscore at the end."""
    NUMPY_OPS[fn.__name__.rstrip("_")] = fn
    return fn


def widened(x: Array) -> Array:
    """Narrow floats as float32, in which sums are formed; integers of a few bits as int32."""
    if x.dtype.itemsize >= 4 or x.dtype.kind in "iub":
        return x
    return x.astype(np.int32 if is_int(from_numpy(x.dtype)) else np.float32)


def summed(x: Array, out_dtype: str) -> Array:
    """An operand of a product in the type that products are added up in."""
    if not out_dtype:
        return widened(x)
    to = to_numpy(out_dtype)
    return x.astype(to) if to.kind in "iu" or to.itemsize > 4 else widened(x)


def _same(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose result has the first operand's element type, computed in a wide one."""

    def run(x: Array, *more: Array, **attrs: Any) -> Array:
        wide = [widened(np.asarray(v)) for v in (x, *more)]
        return np.asarray(fn(*wide, **attrs)).astype(x.dtype)

    return run


def _each(fn: Callable[[float], float]) -> Callable[[Array], Array]:
    return lambda x: np.asarray(np.vectorize(fn, otypes=[np.float64])(x.astype(np.float64)))


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1 / (1 + e), e / (1 + e)))


def _softplus(x: Array) -> Array:
    return np.asarray(np.logaddexp(x, np.zeros((), x.dtype)))


def _gelu(x: Array, approximate: str) -> Array:
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return np.asarray(0.5 * x * (1 + np.tanh(inner)))
    return np.asarray(0.5 * x * (1 + _each(math.erf)(x / math.sqrt(2))))


def _clip(x: Array, min: float | None, max: float | None) -> Array:
    if x.dtype.kind in "iu":
        info = np.iinfo(x.dtype)
        low = info.min if min is None else int(np.clip(min, info.min, info.max))
        high = info.max if max is None else int(np.clip(max, info.min, info.max))
        return np.asarray(np.minimum(np.maximum(x, x.dtype.type(low)), x.dtype.type(high)))
    x = x if min is None else np.maximum(x, x.dtype.type(min))
    return np.asarray(x if max is None else np.minimum(x, x.dtype.type(max)))


def _isinf(x: Array, detect_negative: bool, detect_positive: bool) -> Array:
    x = widened(x)
    return np.asarray(((x == np.inf) & detect_positive) | ((x == -np.inf) & detect_negative))


def _round(x: Array, mode: str) -> Array:
    if mode == "even" or x.dtype.kind in "iu":
        return np.asarray(np.rint(x))
    exact = x.astype(np.longdouble)  # one half is added without rounding
    if mode == "up":
        return np.asarray(np.floor(exact + 0.5))
    return np.asarray(np.copysign(np.floor(np.abs(exact) + 0.5), exact))


UNARY: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "log10": np.log10,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "tanh": np.tanh, "sigmoid": _sigmoid, "erf": _each(math.erf), "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
    "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": _round, "abs": np.abs,
    "negative": np.negative, "sign": np.sign, "reciprocal": lambda x: 1 / x,
    "square": lambda x: x * x, "identity": lambda x: x, "relu": lambda x: np.maximum(x, 0),
    "bitwise_not": np.invert, "logical_not": np.logical_not, "clip": _clip,
    "leaky_relu": lambda x, alpha: np.where(x > 0, x, alpha * x),
    "thresholded_relu": lambda x, alpha: np.where(x > alpha, x, 0),
    "prelu": lambda x, slope: np.where(x > 0, x, slope * x),
    "elu": lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)),
    "celu": lambda x, alpha: np.maximum(x, 0) + np.minimum(alpha * np.expm1(x / alpha), 0),
    "selu": lambda x, alpha, gamma: gamma * np.where(x > 0, x, alpha * np.expm1(x)),
    "gelu": _gelu,
    "hard_sigmoid": lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "softplus": _softplus, "softsign": lambda x: x / (1 + np.abs(x)),
    "annotation.compiler_begin": lambda x, compiler: x,
    "annotation.compiler_end": lambda x, compiler: x,
    "mish": lambda x: x * np.tanh(_softplus(x)), "silu": lambda x: x * _sigmoid(x),
}  # fmt: skip


def _truncated(a: Array, b: Array) -> Array:
    """The quotient of integers rounded toward zero; 0 where b is 0."""
    safe = np.where(b == 0, 1, b)
    down = np.floor_divide(a, safe)
    up = (down < 0) & (down * safe != a)
    return np.where(b == 0, 0, down + up)


def _divide(a: Array, b: Array) -> Array:
    return _truncated(a, b) if a.dtype.kind in "iu" else a / b


def _power(a: Array, b: Array) -> Array:
    if a.dtype.kind in "iu":
        return np.trunc(np.power(a.astype(np.float64), b.astype(np.float64)))
    return np.power(a, b)


BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": _divide,
    "mod": np.mod, "fmod": np.fmod, "floor_divide": np.floor_divide, "power": _power,
    "minimum": np.minimum, "maximum": np.maximum, "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "left_shift": np.left_shift,
    "right_shift": np.right_shift,
}  # fmt: skip

TESTS: dict[str, Callable[..., Any]] = {
    "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor,
    "isnan": lambda x: np.isnan(widened(x)), "isinf": _isinf,
    "isfinite": lambda x: np.isfinite(widened(x)),
    "reinterpret": lambda x, dtype: np.asarray(x, order="C").view(to_numpy(dtype)),
    "where": lambda c, a, b: np.where(c, a, b),
}  # fmt: skip

NUMPY_OPS.update({name: _same(fn) for name, fn in {**UNARY, **BINARY}.items()})
NUMPY_OPS.update(TESTS)


@numpy_op
def cast(x: Array, *, dtype: str) -> Array:
    """Conversion; bool by comparison with 0."""
    return x != 0 if dtype == "bool" else converted(np.asarray(x), dtype)


# ------------------------------------------------------------------------------------ reductions


def _axes(axes: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if axes is None else tuple(axes)


def _reduction(fn: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Array, *, axes: Sequence[int] | None, keepdims: bool) -> Array:
        wide = widened(x)
        result = fn(wide, axis=_axes(axes), keepdims=keepdims)
        return np.asarray(result).astype(x.dtype)

    return run


def _mean(x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    count = math.prod(x.shape if axis is None else [x.shape[a] for a in axis])
    total = np.sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype)
    return _divide(np.asarray(total), np.asarray(max(count, x.dtype.kind in "iu"), x.dtype))


def _log_sum(x: Array, **options: Any) -> Array:
    total = np.sum(x, dtype=x.dtype, **options)
    return np.asarray(np.log(np.maximum(total, 0) if x.dtype.kind in "iu" else total))


def _extreme(fn: Callable[..., Any], name: str) -> Callable[..., Any]:
    """np.max or np.min, with the value that any other beats where there is no element."""

    def run(x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
        if x.dtype == bool:
            return np.asarray((np.any if name == "max" else np.all)(x, axis, keepdims=keepdims))
        low, high = (-np.inf, np.inf)
        if x.dtype.kind in "iu":
            low, high = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
        worst = low if name == "max" else high
        return np.asarray(fn(x, axis=axis, keepdims=keepdims, initial=worst))

    return run


def _log_sum_exp(x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    largest = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    largest = np.where(np.isfinite(largest), largest, 0)
    total = np.log(np.sum(np.exp(x - largest), axis=axis, keepdims=True)) + largest
    gone = tuple(range(x.ndim)) if axis is None else axis
    return np.asarray(total if keepdims else np.squeeze(total, gone))


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda x, **k: np.sum(x, dtype=x.dtype, **k),
    "prod": lambda x, **k: np.prod(x, dtype=x.dtype, **k),
    "mean": _mean, "max": _extreme(np.max, "max"), "min": _extreme(np.min, "min"),
    "all": np.all, "any": np.any,
    "reduce_l1": lambda x, **k: np.sum(np.abs(x), dtype=x.dtype, **k),
    "reduce_l2": lambda x, **k: np.sqrt(np.sum(x * x, dtype=x.dtype, **k)),
    "reduce_sum_square": lambda x, **k: np.sum(x * x, dtype=x.dtype, **k),
    "reduce_log_sum": _log_sum,
    "reduce_log_sum_exp": _log_sum_exp,
}  # fmt: skip

NUMPY_OPS.update({name: _reduction(fn) for name, fn in REDUCTIONS.items()})


def _position(fn: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Array, *, axis: int, keepdims: bool, select_last_index: bool) -> Array:
        if select_last_index:
            back = fn(np.flip(x, axis), axis=axis, keepdims=keepdims)
            return np.asarray(x.shape[axis] - 1 - back, np.int64)
        return np.asarray(fn(x, axis=axis, keepdims=keepdims), np.int64)

    return run


NUMPY_OPS["argmax"] = _position(np.argmax)
NUMPY_OPS["argmin"] = _position(np.argmin)


@numpy_op
def softmax(x: Array, *, axis: int) -> Array:
    """exp(x - max) over its sum."""
    w = widened(x)
    e = np.exp(w - np.max(w, axis=axis, keepdims=True, initial=-np.inf))
    result: Array = (e / np.sum(e, axis=axis, keepdims=True)).astype(x.dtype)
    return result


@numpy_op
def log_softmax(x: Array, *, axis: int) -> Array:
    """x - max - log(sum(exp(x - max)))."""
    w = widened(x)
    moved = w - np.max(w, axis=axis, keepdims=True, initial=-np.inf)
    total = np.log(np.sum(np.exp(moved), axis=axis, keepdims=True))
    result: Array = (moved - total).astype(x.dtype)
    return result


def _running(fn: Callable[..., Any], start: int) -> Callable[..., Array]:
    def run(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
        w = np.flip(widened(x), axis) if reverse else widened(x)
        total = fn(w, axis=axis, dtype=w.dtype)
        if exclusive:
            total = np.roll(total, 1, axis)
            first = [slice(None)] * x.ndim
            first[axis] = slice(0, 1)
            total[tuple(first)] = start
        return np.asarray(np.flip(total, axis) if reverse else total).astype(x.dtype)

    return run


NUMPY_OPS["cumsum"] = _running(np.cumsum, 0)
NUMPY_OPS["cumprod"] = _running(np.cumprod, 1)


# -------------------------------------------------------------------------------------- creation


@numpy_op
def full(*, shape: Sequence[int], value: float, dtype: str) -> Array:
    """One value everywhere."""
    return np.full(shape, value, to_numpy(dtype))


@numpy_op
def arange(*, start: float, step: float, count: int, dtype: str) -> Array:
    """start + i * step."""
    t = to_numpy(dtype)
    result: Array = np.asarray(start, t) + np.arange(count).astype(t) * np.asarray(step, t)
    return result.astype(t)


@numpy_op
def eye(*, rows: int, columns: int, k: int, dtype: str) -> Array:
    """Ones on a diagonal."""
    return np.eye(rows, columns, k).astype(to_numpy(dtype))
