"""Phase 1: tensor expressions say what is computed, not how."""

from __future__ import annotations

import numpy as np

from smelt import te
from smelt.pipeline import build, lower
from smelt.tir.printer import script

from . import schedules
from .report import Report, check, gigaflops, program_text, seconds


def main(n: int = 256, report: Report | None = None) -> None:
    """Declare an addition and a matrix product, look at their loops, run them.

    n  the size of the matrices
    """
    say = report or Report()
    say.title("Phase 1: tensor expressions")
    _addition(say)
    _product(say, n)
    _separation(say, n)


def _addition(say: Report) -> None:
    say.say(
        """
A tensor expression gives a formula for each element of a tensor. `te.placeholder` is a tensor that
is given, `te.compute` one that follows from others, element by element. Its size may be unknown:

    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
"""
    )
    n = te.var("n")
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c = te.compute((n,), lambda i: a[i] + b[i], name="C")
    s = te.create_schedule(c.op)
    mod = lower(s, [a, b, c], simple_mode=True)
    say.program("smelt.lower(s, [A, B, C], simple_mode=True) shows its loops:", script(mod["main"]))
    built = build(s, [a, b, c])
    for size in (5, 1000):
        x, y = np.arange(size, dtype=np.float32), np.ones(size, np.float32)
        out = np.zeros(size, np.float32)
        built(x, y, out)
        if not np.array_equal(out, x + 1):
            raise AssertionError(f"the sum of size {size} is wrong")
    say.say(
        "smelt.build(s, [A, B, C]) compiled it once; it ran with 5 and with 1000 elements, and "
        "numpy agrees."
    )


def _product(say: Report, n: int) -> None:
    say.say(
        """
A reduction runs over an axis of its own:

    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
"""
    )
    small = schedules.naive(4)
    say.program("Its loops, for 4 x 4 matrices:", program_text(small))
    error = check(build(*schedules.naive(n)), n)
    say.say(f"Compiled for {n} x {n}: numpy agrees, the largest relative error is {error:.1e}.")


def _separation(say: Report, n: int) -> None:
    say.question("Why is the computation declared apart from the schedule?")
    rows = []
    for name in ("naive", "tiled, vectorised, parallel"):
        time = seconds(build(*schedules.ALL[name](n)), n, repeat=3)
        rows.append((name, time * 1e3, gigaflops(n, time)))
    say.table(("schedule", "ms", "GFLOP/s"), rows)
    say.say(
        f"""
Both are the same five lines of formula; the second has a few lines of schedule more, and is
{rows[0][1] / rows[1][1]:.0f} times as fast here. Because the formula does not change, neither does
the result: the compiler checks every step of a schedule, or a person and a search may try hundreds
of them. An eager framework calls a kernel that somebody wrote beforehand: it cannot reorder the
loops of one operator, nor join the loops of two.
"""
    )


if __name__ == "__main__":
    main()
