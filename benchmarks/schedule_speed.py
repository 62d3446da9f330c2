"""How long schedules take: twelve steps on a matrix product, and replays of the default rules.

Run as `python benchmarks/schedule_speed.py`. Times are medians of 50 runs.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from smelt import te
from smelt.rules.cpu import schedule
from smelt.target import Target, machine_of
from smelt.tir.nodes import PrimFunc
from smelt.tir.schedule import Schedule, Trace

ROUNDS = 50
HARDWARE = machine_of(Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver5"), cores=2)


def matmul(m: int, n: int, k: int) -> PrimFunc:
    """C = A B."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    return te.create_prim_func(
        [a, b, te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")]
    )


def conv(c: int, h: int, o: int) -> PrimFunc:
    """relu of a convolution of a padded image with 3 x 3 filters."""
    x, f = te.placeholder((1, c, h, h), name="X"), te.placeholder((o, c, 3, 3), name="W")

    def padded(n: te.Var, k: te.Var, i: te.Var, j: te.Var) -> te.Expr:
        inside = te.all_of(i >= 1, i < h + 1, j >= 1, j < h + 1)
        return te.if_then_else(inside, x[n, k, i - 1, j - 1], 0.0)

    pad = te.compute((1, c, h + 2, h + 2), padded, name="pad")
    rc, ry, rx = (te.reduce_axis((0, e), name) for e, name in ((c, "rc"), (3, "ry"), (3, "rx")))
    y = te.compute(
        (1, o, h, h),
        lambda n, k, i, j: te.sum(pad[n, rc, i + ry, j + rx] * f[k, rc, ry, rx], [rc, ry, rx]),
        name="conv",
    )
    out = te.compute((1, o, h, h), lambda n, k, i, j: te.maximum(y[n, k, i, j], 0.0), name="relu")
    return te.create_prim_func([x, f, out])


def twelve_steps(func: PrimFunc) -> Schedule:
    """Register tiles of 4 x 8, as a user writes them."""
    sch = Schedule(func)
    tile = sch.cache_write("C", 0, "local")
    i, j, k = sch.get_loops("C")
    i_o, i_i = sch.split(i, [None, 4])
    j_o, j_i = sch.split(j, [None, 8])
    k_o, k_i = sch.split(k, [None, 4])
    sch.reorder(i_o, j_o, k_o, k_i, i_i, j_i)
    sch.reverse_compute_at(tile, j_o)
    sch.parallel(i_o)
    sch.unroll(i_i)
    sch.vectorize(j_i)
    sch.decompose_reduction("C", k_o)
    sch.unroll(k_i)
    return sch


def median(run: Callable[..., object], *args: object) -> float:
    """The median time of a call in milliseconds."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run(*args)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def replay(func: PrimFunc, trace: Trace) -> Schedule:
    """A trace on a fresh schedule."""
    sch = Schedule(func)
    trace.apply(sch)
    return sch


if __name__ == "__main__":
    cases: list[tuple[str, PrimFunc, Schedule]] = []
    for sizes in ((512, 512, 512), (37, 51, 29)):
        func = matmul(*sizes)
        name = "matmul " + " x ".join(map(str, sizes))
        print(f"{name:22s} by hand {median(twelve_steps, func):8.2f} ms")
        cases.append((name + ", 12 steps", func, twelve_steps(func)))
        cases.append((name + ", rules", func, schedule(func, HARDWARE)))
    func = conv(64, 56, 64)
    cases.append(("conv 64 x 56 x 56, rules", func, schedule(func, HARDWARE)))
    for name, func, made in cases:
        text = str(made.trace)
        trace = Trace.from_text(text)
        parse = median(Trace.from_text, text)
        again = median(replay, func, trace)
        print(f"{name:34s} {len(trace):3d} steps   parse {parse:6.2f}   replay {again:8.2f} ms")
