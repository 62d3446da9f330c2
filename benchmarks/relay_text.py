"""How long Relay's text takes: printing and reading, with and without the constants.

Run as `python benchmarks/relay_text.py`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import smelt.relay
from smelt.ir import structural_equal
from smelt.ir.module import IRModule
from smelt.relax.nodes import RelaxExpr, constant

ROUNDS = 3
relay: Any = smelt.relay
"""Its classes make nodes of other classes, which mypy does not follow."""


def dense(x: RelaxExpr, rows: int, columns: int) -> Any:
    """A layer with its bias; the weights are all one array, so that memory does not count."""
    w = constant(np.zeros((rows, columns), "float32"))
    return relay.nn.bias_add(relay.nn.dense(x, w), constant(np.zeros(rows, "float32")), axis=-1)


def encoder(layers: int, width: int) -> Any:
    """The values of a BERT: attention and two dense layers each, some 30 operators a layer."""
    x: RelaxExpr = relay.var("x", shape=(128, width))
    data = x
    for _ in range(layers):
        q, k, v = (
            relay.transpose(relay.reshape(dense(x, width, width), newshape=(128, 12, -1)),
                            axes=(1, 0, 2))
            for _ in range(3)
        )  # fmt: skip
        scores = relay.nn.softmax(relay.nn.batch_matmul(q, k) * 0.125, axis=-1)
        mixed = relay.nn.batch_matmul(scores, relay.transpose(v, axes=(0, 2, 1)))
        mixed = relay.reshape(relay.transpose(mixed, axes=(1, 0, 2)), newshape=(128, width))
        x = x + dense(mixed, width, width)
        inner = dense(x, 4 * width, width)
        x = x + dense(inner * (relay.erf(inner * 0.70710678) + 1.0) * 0.5, width, 4 * width)
    return IRModule.from_expr(relay.Function([data], x))


def chain(length: int) -> Any:
    """Operators behind each other."""
    x = relay.var("x", shape=(8,))
    e: RelaxExpr = x
    for _ in range(length):
        e = relay.nn.relu(e)
    return IRModule.from_expr(relay.Function([x], e))


def median(run: Callable[[], object]) -> float:
    """Milliseconds of processor time, the median of some rounds."""
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times) * 1e3


def main() -> None:
    """Print one line a program."""
    print(f"{'program':24s}   lines    MB  text: print    read  with constants: MB   print    read")
    programs = {
        "encoder, 12 x 768": encoder(12, 768),
        "chain of 1,000": chain(1_000),
        "chain of 10,000": chain(10_000),
    }
    for name, mod in programs.items():
        text, whole, table = mod.astext(False), mod.astext(), relay.meta_table(mod)
        assert structural_equal(relay.parse(whole), mod)
        figures = [
            median(lambda m=mod: m.astext(False)),  # type: ignore[misc]
            median(lambda t=text, w=table: relay.parse(t, meta=w)),  # type: ignore[misc]
            median(lambda m=mod: m.astext()),  # type: ignore[misc]
            median(lambda t=whole: relay.parse(t)),  # type: ignore[misc]
        ]
        lines = text.count("\n")
        print(
            f"{name:24s} {lines:7d} {len(text) / 1e6:5.1f} {figures[0]:9.0f} ms"
            f" {figures[1]:5.0f} ms {len(whole) / 1e6:16.1f} {figures[2]:6.0f} ms"
            f" {figures[3]:5.0f} ms"
        )


if __name__ == "__main__":
    main()
