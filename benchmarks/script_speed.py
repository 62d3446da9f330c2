"""How long the text form takes: printing and parsing kernels, scheduled and lowered.

Run as `python benchmarks/script_speed.py`.
"""

from __future__ import annotations

import ast
import statistics
import time
from collections.abc import Callable

from smelt import te
from smelt.ir import structural_equal
from smelt.pipeline import LOWER
from smelt.rules.cpu import schedule
from smelt.target import Target, machine_of
from smelt.tir.nodes import PrimFunc
from smelt.tir.parser import parse
from smelt.tir.printer import script

MACHINE = machine_of(Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver5"), cores=2)
ROUNDS = 15


def convolution(channels: int, filters: int, size: int) -> PrimFunc:
    """relu(conv2d(pad(X), W) + bias), 3 x 3."""
    x = te.placeholder((1, channels, size, size), name="X")
    w = te.placeholder((filters, channels, 3, 3), name="W")
    bias = te.placeholder((filters,), name="bias")
    pad = te.compute(
        (1, channels, size + 2, size + 2),
        lambda b, c, i, j: te.if_then_else(
            te.all_of(i >= 1, i <= size, j >= 1, j <= size), x[b, c, i - 1, j - 1], 0.0
        ),
        name="pad",
    )
    rc, ry, rx = (te.reduce_axis((0, n), k) for n, k in ((channels, "c"), (3, "y"), (3, "x")))
    conv = te.compute(
        (1, filters, size, size),
        lambda b, o, i, j: te.sum(pad[b, rc, i + ry, j + rx] * w[o, rc, ry, rx], [rc, ry, rx]),
        name="conv",
    )
    relu = te.compute(
        conv.shape, lambda b, o, i, j: te.maximum(conv[b, o, i, j] + bias[o], 0.0), name="relu"
    )
    return te.create_prim_func([x, w, bias, relu], "conv")


def stages() -> dict[str, PrimFunc]:
    """The convolution at every stage that changes it."""
    func = convolution(16, 32, 28)
    found = {"naive": func}
    func = found["scheduled"] = schedule(func, MACHINE, frozenset()).func
    for step in LOWER:
        func = found[step.file] = step.fn(func)
    return found


def median(run: Callable[[], object]) -> float:
    """Milliseconds of processor time, the median of some rounds."""
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times) * 1e3


def main() -> None:
    """Print one line a stage."""
    print(f"{'stage':20s} lines  kB   print   parse  (Python's own part)  equal   200 lines: both")
    for name, func in stages().items():
        text = script(func)
        again = parse(text)
        printing = median(lambda f=func: script(f))  # type: ignore[misc]
        parsing = median(lambda t=text: parse(t))  # type: ignore[misc]
        python = median(lambda t=text: ast.parse(t))  # type: ignore[misc]
        equal = median(lambda f=func, g=again: structural_equal(f, g))  # type: ignore[misc]
        lines = text.count("\n")
        both = (printing + parsing) * 200 / lines
        print(
            f"{name:20s} {lines:5d} {len(text) / 1e3:4.0f} {printing:7.2f} {parsing:7.2f}"
            f" {python:20.2f} {equal:7.2f} {both:13.1f} ms"
        )


if __name__ == "__main__":
    main()
