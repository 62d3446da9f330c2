"""How many index expressions a second the Analyzer simplifies.

Run as `python benchmarks/arith_speed.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from smelt.arith import Analyzer
from smelt.ir.build import all_of, ceildiv, minimum
from smelt.ir.expr import Expr, Var

ROUNDS = 300


def expressions() -> tuple[dict[Var, int], Var, list[Expr]]:
    """What schedules write: fused, split and guarded indices; fresh variables each time."""
    i, j, k, m = (Var(name) for name in "ijkm")
    n = Var("n")
    fused = i * 128 + j * 16 + k
    return (
        {i: 64, j: 8, k: 16, m: 4},
        n,
        [
            fused // 16,
            fused % 16,
            fused // 64 * 64 + fused % 64,
            (fused * 4 + m) // 32,
            (fused * 4 + m) // 4 % 8,
            i * 128 + j * 16 + k < 8192,
            fused < 100,
            all_of(i * 2 + m >= 1, i * 2 + m < 57),
            minimum(i * 16 + 16, n) - i * 16,
            (i * n + k) % n,
            ceildiv(n, 16) * 16 >= n,
            (i - 1) * 56 + j * 4 + m - 1,
        ],
    )


def rate(run: Callable[[], int]) -> float:
    """Items a second, the best of five."""
    best = 0.0
    for _ in range(5):
        start = time.perf_counter()
        count = run()
        best = max(best, count / (time.perf_counter() - start))
    return best


def cold() -> int:
    """A fresh Analyzer and fresh variables for every dozen expressions."""
    count = 0
    for domains, n, items in prepared:
        analyzer = Analyzer(domains)
        analyzer.assume_positive(n)
        for e in items:
            analyzer.simplify(e)
        count += len(items)
    return count


def warm() -> int:
    """The same expressions again: the memo."""
    domains, n, items = prepared[0]
    analyzer = Analyzer(domains)
    analyzer.assume_positive(n)
    for _ in range(ROUNDS):
        for e in items:
            analyzer.simplify(e)
    return ROUNDS * len(items)


def single(index: int) -> Callable[[], int]:
    """One of the dozen with a fresh Analyzer each time."""

    def run() -> int:
        for domains, n, items in prepared:
            analyzer = Analyzer(domains)
            analyzer.assume_positive(n)
            analyzer.simplify(items[index])
        return len(prepared)

    return run


if __name__ == "__main__":
    prepared = [expressions() for _ in range(ROUNDS)]
    for run in (cold, warm):
        speed = rate(run)
        print(f"{run.__name__:5s} {speed:12,.0f} expressions/s   {1e6 / speed:8.2f} us each")
    for index in range(len(prepared[0][2])):
        print(f"  fresh analyzer, expression {index:2d} {1e6 / rate(single(index)):8.2f} us")
