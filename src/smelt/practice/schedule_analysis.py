"""Phase 3: schedules compared, over sizes."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.codegen.peak import machine_limits
from smelt.pipeline import build
from smelt.runtime import num_threads

from . import schedules
from .report import Report, gigaflops, seconds

SIZES = (16, 32, 64, 128, 256, 512)
COMPARED = ("naive", "tiled", "tiled, vectorised", "tiled, vectorised, parallel", "packed")


def main(sizes: Sequence[int] = SIZES, report: Report | None = None) -> None:
    """Time five schedules of a matrix product over sizes, as a table and as a chart.

    sizes  of the matrices, ascending; the table is about the largest
    """
    say = report or Report()
    say.title("Phase 3: schedules compared")
    limit = machine_limits()
    say.say(
        f"This machine multiplies and adds at {limit.gflops:.0f} GFLOP/s at most with "
        f"{num_threads()} threads, by a loop of nothing else; the last column is the share of it."
    )
    found = {
        name: {n: seconds(build(*schedules.ALL[name](n)), n, repeat=3) for n in sizes}
        for name in COMPARED
    }
    largest = sizes[-1]
    base = found["naive"][largest]
    rows = []
    for name, times in found.items():
        speed = gigaflops(largest, times[largest])
        share = f"{speed / limit.gflops:.1%}"
        rows.append((name, times[largest] * 1e3, speed, base / times[largest], share))
    say.table((f"{largest} x {largest}", "ms", "GFLOP/s", "times naive", "of the limit"), rows)
    rates = {name: {n: gigaflops(n, t) for n, t in times.items()} for name, times in found.items()}
    say.chart("GFLOP/s over sizes", rates)
    _crossover(say, found["tiled, vectorised"], found["tiled, vectorised, parallel"])


def _crossover(say: Report, serial: dict[int, float], parallel: dict[int, float]) -> None:
    say.question("At what matrix size does parallelization start helping?")
    rows = [(n, serial[n] * 1e6, parallel[n] * 1e6, serial[n] / parallel[n]) for n in serial]
    say.table(("size", "serial, us", "parallel, us", "gain"), rows)
    pays = [n for n in serial if all(parallel[m] < serial[m] for m in serial if m >= n)]
    threads = num_threads()
    if threads == 1:
        say.say("This process may use one processor: parallel loops run serially.")
    elif pays:
        say.say(
            f"Here from {pays[0]} x {pays[0]} on. Waking another thread costs some microseconds; a "
            f"smaller product is done by then. With tiles of 32 rows, a product of fewer than "
            f"{32 * threads} rows also has fewer tiles than would keep {threads} threads busy."
        )
    else:
        say.say("At none of these sizes here: other work keeps the processors busy, or all the "
                "products are too small.")  # fmt: skip


if __name__ == "__main__":
    main()
