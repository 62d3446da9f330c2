"""Programs that the tests tune."""

from __future__ import annotations

from typing import Any

import numpy as np

import smelt
from smelt import auto_scheduler, relay, te

NATIVE = "llvm -mcpu=native"


def matmul_add(rows: int, depth: int, columns: int, dtype: str) -> list[te.Tensor]:
    """The program of the classic tutorial: A B + C."""
    a = te.placeholder((rows, depth), name="A", dtype=dtype)
    b = te.placeholder((depth, columns), name="B", dtype=dtype)
    c = te.placeholder((rows, columns), name="C", dtype=dtype)
    k = te.reduce_axis((0, depth), name="k")
    product = te.compute(
        (rows, columns),
        lambda i, j: te.sum(a[i, k] * b[k, j], axis=k),
        name="matmul",
        attrs={"layout_free_placeholders": [b]},
    )
    out = te.compute((rows, columns), lambda i, j: product[i, j] + c[i, j], name="out")
    return [a, b, c, out]


auto_scheduler.register_workload("tests.matmul_add", matmul_add)


def square(n: int) -> auto_scheduler.SearchTask:
    """A task of the program on squares."""
    args = (n, n, n, "float32")
    return auto_scheduler.SearchTask(func=matmul_add, args=args, target=NATIVE)


def error_of(mod: Any, n: int) -> float:
    """How wrong a compiled one is, against the largest element."""
    rng = np.random.default_rng(n)
    a, b, c = (rng.standard_normal((n, n), np.float32) for _ in range(3))
    out = np.zeros((n, n), np.float32)
    mod(a, b, c, out)
    expected = a.astype(np.float64) @ b + c
    return float(np.abs(out - expected).max() / np.abs(expected).max())


def options(
    trials: int, *callbacks: auto_scheduler.MeasureCallback, **others: Any
) -> auto_scheduler.TuningOptions:
    """Options that print nothing."""
    return auto_scheduler.TuningOptions(
        num_measure_trials=trials, measure_callbacks=callbacks, verbose=0, **others
    )


def network() -> tuple[smelt.IRModule, dict[str, np.ndarray[Any, Any]]]:
    """Two dense layers, and their weights."""
    x = relay.var("x", shape=(4, 32))
    w, v = relay.var("w", shape=(48, 32)), relay.var("v", shape=(16, 48))
    hidden = relay.nn.relu(relay.nn.dense(x, w))
    mod = smelt.IRModule.from_expr(relay.Function([x, w, v], relay.nn.dense(hidden, v)))
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((48, 32), np.float32),
               "v": rng.standard_normal((16, 48), np.float32)}  # fmt: skip
    return mod, weights
