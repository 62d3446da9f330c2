"""Evaluates scalar expression trees with numpy, one rounding an operation: the tests' oracle."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smelt.ir import dtype as dt
from smelt.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    Var,
)
from smelt.ir.node import postorder

Array = NDArray[Any]

_libm = ctypes.CDLL(ctypes.util.find_library("m"))
_libm.fma.restype = ctypes.c_double
_libm.fma.argtypes = [ctypes.c_double] * 3
_slow_fma = np.frompyfunc(_libm.fma, 3, 1)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b as a rounded sum and its error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def round_to_odd(a: Array, b: Array) -> Array:
    """a + b in float64, an inexact sum rounded to the neighbour whose last bit is 1."""
    s, error = two_sum(a, b)
    even = (s.view(np.int64) & 1) == 0
    move = even & (error != 0) & np.isfinite(s) & np.isfinite(error)
    return np.where(move, np.nextafter(s, np.copysign(np.inf, error)), s)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """a * b as a rounded product and its error (Dekker, Veltkamp)."""

    def halves(x: Array) -> tuple[Array, Array]:
        c = x * 134217729.0
        high = c - (c - x)
        return high, x - high

    p = a * b
    (ah, al), (bh, bl) = halves(a), halves(b)
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def fma32(a: Array, b: Array, c: Array) -> Array:
    """The float32 product is exact in float64; the sum is rounded to odd, so twice does no harm."""
    wide = round_to_odd(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64))
    return wide.astype(np.float32)


def fma64(a: Array, b: Array, c: Array) -> Array:
    """By error-free transformations (Boldo and Melquiond 2008); odd ranges by the C library."""
    p, low = two_product(a, b)
    u, v = two_sum(c, low)
    t, w = two_sum(p, u)
    result = t + round_to_odd(w, v)
    sizes = [np.abs(x) for x in (a, b, c, p, result)]
    safe = np.logical_and.reduce([(s < 1e290) & ((s > 1e-250) | (s == 0)) for s in sizes])
    safe &= np.abs(p) > 0
    if not safe.all():
        rest = ~safe
        result[rest] = _slow_fma(a[rest], b[rest], c[rest]).astype(np.float64)
    return result


def fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c with one rounding."""
    a, b, c = (np.ascontiguousarray(x) for x in np.broadcast_arrays(a, b, c))
    return fma32(a, b, c) if a.dtype == np.float32 else fma64(a, b, c)


_BINARY: dict[type, Callable[[Array, Array], Array]] = {
    Add: np.add,
    Sub: np.subtract,
    Mul: np.multiply,
    Div: np.divide,
    Min: np.minimum,
    Max: np.maximum,
    EQ: np.equal,
    NE: np.not_equal,
    LT: np.less,
    LE: np.less_equal,
    GT: np.greater,
    GE: np.greater_equal,
    And: np.logical_and,
    Or: np.logical_or,
}

_CALLS: dict[str, Callable[..., Array]] = {
    "fma": fma,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "copysign": np.copysign,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
}


def apply(e: Expr, values: Mapping[Expr, Array]) -> Array:
    """The value of one node from those of its operands."""
    kind = dt.to_numpy(e.dtype)
    match e:
        case IntImm(_, v) | FloatImm(_, v):
            return np.full(1, v, kind)
        case Not(a):
            return np.logical_not(values[a])
        case Select(c, a, b):
            return np.where(values[c], values[a], values[b])
        case Cast(_, a):
            return values[a].astype(kind)
        case Call(_, "reinterpret", (a,)):
            return np.ascontiguousarray(values[a]).view(kind)
        case Call(_, op, args):
            return _CALLS[op](*[values[a] for a in args])
    return _BINARY[type(e)](values[e.a], values[e.b])  # type: ignore[attr-defined]


def evaluate(expr: Expr, inputs: Mapping[Var, Array]) -> Array:
    """The value of a tree for arrays of inputs."""
    values: dict[Expr, Array] = dict(inputs.items())
    with np.errstate(all="ignore"):
        for node in postorder(expr):
            if isinstance(node, Expr) and node not in values:
                values[node] = apply(node, values)
                assert values[node].dtype == dt.to_numpy(node.dtype), node
    return values[expr]
