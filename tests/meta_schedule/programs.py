"""Programs to tune, and what they have to compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import smelt
from smelt import te
from smelt.tir.nodes import PrimFunc

NATIVE = "llvm -mcpu=native"


def matmul_twice(n: int = 32) -> PrimFunc:
    """Twice a product."""
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((n, n), lambda i, j: C[i, j] * 2.0, name="D")
    return te.create_prim_func([A, B, D])


def doubled(n: int = 64) -> PrimFunc:
    """One elementwise step after another."""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((n,), lambda i: B[i] * 2.0, name="C")
    return te.create_prim_func([A, C])


def total(n: int = 4096) -> PrimFunc:
    """One sum."""
    A = te.placeholder((n,), name="A")
    k = te.reduce_axis((0, n), name="k")
    S = te.compute((1,), lambda i: te.sum(A[k], axis=k), name="S")
    return te.create_prim_func([A, S])


EXPECTED: dict[str, Callable[..., Any]] = {
    "matmul_twice": lambda a, b: a @ b * 2,
    "doubled": lambda a: (a + 1) * 2,
    "total": lambda a: a.sum(keepdims=True),
}


def check(made: Any, kind: str) -> None:
    """A schedule, or a module, computes what its program says."""
    function = smelt.build(made, target=NATIVE)
    *inputs, out = made.func.buffers if hasattr(made, "func") else made["main"].buffers
    rng = np.random.default_rng(0)
    given = [rng.random([int(e.value) for e in b.shape], "float32") for b in inputs]
    result = np.zeros([int(e.value) for e in out.shape], "float32")
    function(*given, result)
    np.testing.assert_allclose(result, EXPECTED[kind](*given), rtol=2e-4)
