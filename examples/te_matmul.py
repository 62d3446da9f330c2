"""A matrix product as a tensor program, scheduled by hand, and timed beside its peers.

python examples/te_matmul.py [SIZE]

naive     the loops of the formula, through LLVM's own optimiser at its highest level
parallel  tiled, vectorised, shared out to the processors
packed    B packed in strips, a tile of C in registers (cache_write), its rows unrolled
oneDNN    the product of PyTorch, where that is installed

The limit is that of a loop of multiply-adds alone, measured in the same run.
"""

import inspect
import sys

from smelt.practice import schedules
from smelt.practice.comparison import compare


def main(n: int = 512) -> None:
    """Show the packed schedule, and print what the schedules are worth."""
    print(inspect.getsource(schedules.packed))
    found = compare(n)
    print(f"{n} x {n} x {n}, float32, {found.threads} threads; limit {found.limit:.0f} GFLOP/s")
    print(f"{'':10}{'ms':>10}{'GFLOP/s':>10}{'of limit':>10}{'x naive':>10}")
    for name, seconds in found.seconds.items():
        gain = found.seconds["naive"] / seconds
        print(f"{name:10}{seconds * 1e3:10.3f}{found.speed(name):10.1f}"
              f"{found.share(name):10.1%}{gain:10.1f}")  # fmt: skip
    if "oneDNN" in found.seconds:
        ratio = found.seconds["packed"] / found.seconds["oneDNN"]
        print(f"packed takes {ratio:.2f} times as long as oneDNN")


if __name__ == "__main__":
    main(*[int(text) for text in sys.argv[1:2]])
