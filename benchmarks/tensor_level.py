"""A product scheduled by hand, and the scheduler's speed: `python -m benchmarks.tensor_level`.

The product is a tensor expression with a classic schedule (see `smelt.practice.schedules`). All
schedules, the processor's limit and oneDNN (through PyTorch) take turns in one process.
"""

import statistics
import time
from collections.abc import Callable

from benchmarks.report import Results, table, write
from benchmarks.schedule_speed import HARDWARE, conv
from smelt import te
from smelt.choices import default_schedule
from smelt.pipeline import lower_program as lower
from smelt.practice import schedules
from smelt.practice.comparison import compare
from smelt.rules.cpu import schedule
from smelt.tir.nodes import PrimFunc
from smelt.tir.parser import parse
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule, Trace

SIZE = 512
RUNS = 30

TWELVE = """
b0 = sch.get_block("C")
l1, l2, l3 = sch.get_loops(b0)
l4, l5 = sch.split(l1, factors=[None, 8])
l6, l7 = sch.split(l2, factors=[None, 32])
l8, l9 = sch.split(l3, factors=[None, 4])
sch.reorder(l4, l6, l8, l9, l5, l7)
b10 = sch.cache_write(b0, 0, "local")
sch.reverse_compute_at(b10, l6)
sch.parallel(l4)
sch.unroll(l5)
sch.vectorize(l7)
b11 = sch.decompose_reduction(b0, l8)
"""


def milliseconds(run: Callable[[], object], runs: int = RUNS) -> float:
    """The median time of a call."""
    run()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def product(n: int) -> PrimFunc:
    """The plain program."""
    return te.create_prim_func([*schedules.matmul(n)], "matmul")


def long_text() -> str:
    """The text of a program of about 200 lines: a packed product with ragged edges, lowered."""
    made = schedules.packed(SIZE + 6)
    return script(lower(te.lower_schedule(*made).func)).strip()


def measure() -> Results:
    """The product, and what the scheduler and the script take."""
    found = compare(SIZE)
    trace, plain = Trace.from_text(TWELVE), product(SIZE)
    text = long_text()
    rules = str(default_schedule(plain).trace)
    window = schedule(conv(64, 56, 64), HARDWARE).func
    blocks = script(window)
    return {
        "size": SIZE,
        "threads": found.threads,
        "limit": found.limit,
        "seconds": found.seconds,
        "share": {name: found.share(name) for name in found.seconds},
        "scheduler": {
            "trace of 12 steps": milliseconds(lambda: trace.apply(Schedule(plain))),
            "trace of the rules": milliseconds(
                lambda: Trace.from_text(rules).apply(Schedule(plain))
            ),
            f"parse and print {len(text.splitlines())} lines": milliseconds(
                lambda: script(parse(text))
            ),
            f"parse and print {len(blocks.splitlines())} lines with blocks": milliseconds(
                lambda: script(parse(blocks))
            ),
            "lower a 3x3 convolution of 64 channels, 56 x 56": milliseconds(lambda: lower(window)),
        },
    }


def section(results: Results) -> str:
    """For RESULTS.md."""
    seconds = results["seconds"]
    rows = [
        (
            name,
            f"{s * 1e3:.3f}",
            f"{2 * results['size'] ** 3 / s / 1e9:.1f}",
            f"{results['share'][name]:.1%}",
            f"{seconds['naive'] / s:.1f}",
        )
        for name, s in seconds.items()
    ]
    n = results["size"]
    parts = [
        f"A {n} x {n} x {n} product of floats as a tensor expression with a classic schedule, "
        f"{results['threads']} threads; limit {results['limit']:.0f} GFLOP/s in the same run. "
        "`naive` went through LLVM's O3 pipeline.",
        table(("schedule", "ms", "GFLOP/s", "of the limit", "times naive"), rows),
    ]
    if "oneDNN" in seconds:
        ratio = seconds["packed"] / seconds["oneDNN"]
        parts.append(f"`packed` takes {ratio:.2f} times as long as oneDNN.")
    parts.append(
        table(
            ("scheduler and script", "ms"),
            [(name, f"{ms:.2f}") for name, ms in results["scheduler"].items()],
        )
    )
    return "\n\n".join(parts)


if __name__ == "__main__":
    write("tensor_level", measure())
