"""Phase 2: a schedule by hand, one primitive at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from smelt import te
from smelt.pipeline import build, lower

from .report import Report, check, gigaflops, program_text, seconds
from .schedules import Scheduled, matmul, naive, tiled
from .traffic import cache_traffic


class Lesson(NamedTuple):
    """A primitive: its name, how it is written, what it is good for."""

    name: str
    call: str
    why: str


STEPS: tuple[Lesson, ...] = (
    Lesson(
        "split",
        "xo, xi = s[C].split(i, factor=F);  yo, yi = s[C].split(j, factor=F)",
        "A loop becomes two: one over tiles, one inside a tile. Nothing moves yet, so nothing is "
        "faster yet.",
    ),
    Lesson(
        "reorder",
        "s[C].reorder(xo, yo, k, xi, yi)",
        "The loops inside a tile go inside k. For one k, a strip of a column of A and a strip of a "
        "row of B now give F x F products: each element that is loaded is used F times.",
    ),
    Lesson(
        "vectorize",
        "s[C].vectorize(yi)",
        "The innermost loop walks over neighbours in memory: one vector instruction does many of "
        "its iterations.",
    ),
    Lesson(
        "unroll",
        "s[C].unroll(xi)",
        "The loop over the rows of a tile is written out: no counter, no jump.",
    ),
    Lesson(
        "parallel",
        "s[C].parallel(xo)",
        "Rows of tiles are shared out to the processors. No two write the same element.",
    ),
)


def _applied(s: te.Schedule, c: te.Tensor, factor: int) -> Iterator[str]:
    """Apply the primitives of STEPS, one each time that the next is asked for."""
    xo, xi = s[c].split(c.op.axis[0], factor=factor)
    yo, yi = s[c].split(c.op.axis[1], factor=factor)
    yield "split"
    s[c].reorder(xo, yo, c.op.reduce_axis[0], xi, yi)
    yield "reorder"
    s[c].vectorize(yi)
    yield "vectorize"
    s[c].unroll(xi)
    yield "unroll"
    s[c].parallel(xo)
    yield "parallel"


def apply_steps(count: int, n: int, factor: int) -> Scheduled:
    """The product with the first `count` primitives applied."""
    a, b, c = matmul(n)
    s = te.create_schedule(c.op)
    list(islice(_applied(s, c, factor), count))
    return Scheduled(s, [a, b, c])


def main(n: int = 256, report: Report | None = None) -> None:
    """Apply five primitives to a matrix product, showing the loops before and after each.

    n  the size of the matrices that are timed; the loops shown are those of a small product
    """
    say = report or Report()
    say.title("Phase 2: a schedule by hand")
    say.say("Five primitives, one after the other; F is 4 in the loops shown and 16 where timed.")
    before = program_text(apply_steps(0, 8, 4))
    say.program("The naive loops:", before)
    rows = [_timed("naive", 0, n)]
    for count, (name, call, why) in enumerate(STEPS, 1):
        say.say(f"{count}. {name}: {call}\n{why}")
        after = program_text(apply_steps(count, 8, 4))
        say.program("Before:", before)
        say.program("After:", after)
        before = after
        rows.append(_timed(f"+ {name}", count, n))
    say.table(("primitives", "ms", "GFLOP/s", "largest error"), rows)
    _traffic(say)


def _timed(name: str, count: int, n: int) -> tuple[object, ...]:
    mod = build(*apply_steps(count, n, 16))
    time = seconds(mod, n, repeat=3)
    return name, time * 1e3, gigaflops(n, time), f"{check(mod, n):.1e}"


def _traffic(say: Report, n: int = 64, cache: int = 4096) -> None:
    say.question("Why does tiling (split and reorder) improve cache performance?")
    say.say(
        f"""
The addresses of the {n} x {n} product ({n * n * 4 // 1024} KiB a matrix), in the order in which
the loops touch them, go through a simulated cache of {cache // 1024} KiB:

    naive      for each element of C: a row of A (neighbours) and a column of B (each element in
               another line of 64 bytes: fifteen sixteenths of what is fetched is not used before
               the line has to leave)
    tiled      for each tile of C: strips of A and B, fetched once and used by the whole tile
"""
    )
    rows = []
    tilings = {f"tiles of {tile}": tiled(n, tile) for tile in (8, 16, 32)}
    for name, scheduled in {"naive": naive(n), **tilings}.items():
        flat = lower(*scheduled)["main"]
        found = cache_traffic(flat, cache)
        rows.append((name, found.accesses, found.misses, found.bytes / 1024,
                     f"{found.misses / found.accesses:.2%}"))  # fmt: skip
    say.table(("loops", "accesses", "misses", "KiB fetched", "miss rate"), rows)
    best = min(misses for _, _, misses, _, _ in rows)
    say.say(f"The naive order fetches {rows[0][2] / best:.0f} times as much as the best tiling.")


if __name__ == "__main__":
    main()
