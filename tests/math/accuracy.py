"""Inputs, references and the error measure: `python -m tests.math.accuracy` prints the table."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smelt.ir.expr import Expr, FloatImm, IntImm, Var
from smelt.ir.node import postorder
from smelt.tir.math import expand
from tests.math.evaluate import evaluate

Array = NDArray[Any]
Wide = np.longdouble

_erf = np.frompyfunc(math.erf, 1, 1)


def sigmoid(x: Array) -> Array:
    """In the reference precision."""
    e = np.exp(-np.abs(x))
    result: Array = np.where(x < 0, e, Wide(1)) / (1 + e)
    return result


def erf(x: Array) -> Array:
    """In float64, by the C library."""
    return np.asarray(_erf(x), Wide)


def sign(x: Array) -> Array:
    """-1, 0, 1 or NaN."""
    return np.sign(x) + 0


REFERENCES: dict[str, Callable[..., Array]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "erf": erf,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sign": sign,
    "atan2": np.arctan2,
    "fmod": np.fmod,
    "pow": np.power,
}
BINARY = ("atan2", "fmod", "pow")
FLOAT64 = tuple(n for n in REFERENCES if n not in ("erf", "fmod", "pow", "sin", "cos", "tan"))
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0]


def points32(step: int = 4096) -> Array:
    """Every `step`-th bit pattern, and close-set ones where functions change their course."""
    patterns = [np.arange(7, 1 << 32, step, dtype=np.uint64).astype(np.uint32)]
    centres = [
        0.25,
        0.5,
        0.70710678,
        1.0,
        1.41421356,
        2.0,
        0.34657359,
        0.69314718,
        1.0397208,
        3.925,
        9.01,
        17.3,
        87.33655,
        88.72284,
        89.4159,
        103.972,
        126.0,
        128.0,
        149.0,
        1.5707964,
        3.1415927,
        0.78539816,
        2.3561945,
        2.0**-13,
        2.0**-25,
        2.0**13,
        1.1754944e-38,
    ]
    for c in (*centres, *[-c for c in centres]):
        middle = int(np.float32(c).view(np.uint32))
        patterns.append(np.arange(middle - 500, middle + 500, dtype=np.uint32))
    patterns.append(np.arange(0, 500, dtype=np.uint32))
    rng = np.random.default_rng(1)
    dense = rng.uniform(-10, 10, 100_000).astype(np.float32)
    wide = rng.uniform(-1e5, 1e5, 50_000).astype(np.float32)
    special = np.array(SPECIAL, np.float32)
    return np.concatenate([np.concatenate(patterns).view(np.float32), dense, wide, special])


def points64(count: int = 40_000) -> Array:
    """Random bit patterns, uniform ones, and the special values."""
    rng = np.random.default_rng(2)
    patterns = rng.integers(0, 1 << 63, count, np.uint64) * np.uint64(2) + np.uint64(1)
    signs = rng.choice([-1.0, 1.0], count)
    spread = signs * 2.0 ** rng.uniform(-60, 11, count)
    return np.concatenate(
        [
            patterns.view(np.float64),
            rng.uniform(-5, 5, count),
            spread,
            rng.uniform(-750, 750, count),
            rng.uniform(0.5, 2, count),
            np.array(SPECIAL),
        ]
    )


def pairs(x: Array, count: int = 100_000) -> tuple[Array, Array]:
    """Two operands: shuffled values, moderate ones, and all pairs of special values."""
    rng = np.random.default_rng(3)
    special = np.array(SPECIAL, x.dtype)
    near = rng.uniform(-30, 30, (2, count)).astype(x.dtype)
    bases = np.abs(near[0]) * x.dtype.type(0.1)
    a = np.concatenate([x, near[0], bases, np.repeat(special, len(special)), np.round(near[0])])
    b = np.concatenate(
        [rng.permutation(x), near[1], near[1], np.tile(special, len(special)), np.round(near[1])]
    )
    return a, b


def ulps(got: Array, reference: Array) -> Array:
    """Errors in units of the last place of the rounded reference; wrong special values are inf."""
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        rounded = reference.astype(got.dtype)
        below = np.minimum(np.abs(rounded), np.nextafter(info.max, got.dtype.type(0)))
        error = np.abs(got.astype(Wide) - reference) / np.spacing(below).astype(Wide)
    exact = (got == rounded) & (np.signbit(got) == np.signbit(rounded))
    exact |= np.isnan(got) & np.isnan(rounded)
    plain = np.isfinite(rounded) & np.isfinite(got)
    zero = (rounded == 0) & (reference == 0)
    return np.where(exact & (~plain | zero), 0, np.where(plain & ~zero, error, np.inf))


def tree(name: str, dtype: str) -> tuple[Expr, tuple[Var, ...]]:
    """The expansion of a function and its operands."""
    operands = tuple(Var(n, dtype) for n in ("xy" if name in BINARY else "x"))
    e = expand(name, operands)
    assert e is not None
    return e, operands


def operations(e: Expr) -> int:
    """Nodes that are neither constants nor variables nor bit casts."""
    return sum(
        not isinstance(n, Var | IntImm | FloatImm) and getattr(n, "op", "") != "reinterpret"
        for n in postorder(e)
    )


def measure(name: str, dtype: str, step: int = 1 << 14) -> tuple[Array, Array, tuple[Array, ...]]:
    """Errors, results and inputs of one function."""
    e, operands = tree(name, dtype)
    x = points32(step * 8 if name in BINARY else step) if dtype == "float32" else points64()
    inputs = pairs(x) if len(operands) == 2 else (x,)
    got = evaluate(e, dict(zip(operands, inputs, strict=True)))
    with np.errstate(all="ignore"):
        reference = REFERENCES[name](*[i.astype(Wide) for i in inputs])
    return ulps(got, reference), got, inputs


def main() -> None:
    """Print name, float32 operations, float32 ulp, float64 ulp."""
    for name in REFERENCES:
        row = [name]
        for dtype in ("float32", "float64"):
            if dtype == "float64" and name not in FLOAT64:
                row.append("library")
                continue
            error, got, inputs = measure(name, dtype, 1 << 12)
            worst = int(np.argmax(error))
            row.append(f"{operations(tree(name, dtype)[0])} | {float(error[worst]):.2f}")
            if error[worst] > 4:
                row.append(f"at {[i[worst] for i in inputs]}, got {got[worst]!r}")
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
