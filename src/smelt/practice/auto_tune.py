"""Phase 5: schedules found by a search. smelt has none yet; this shows what there is instead."""

from __future__ import annotations

from smelt import te
from smelt.pipeline import build, default_schedule

from . import schedules
from .report import Report, gigaflops, seconds


def main(n: int = 512, report: Report | None = None) -> None:
    """Say that there is no search yet; compare the default rules with schedules by hand.

    n  the size of the matrices
    """
    say = report or Report()
    say.title("Phase 5: automatic schedules")
    say.say(
        """
smelt does not search for schedules yet: there is no auto_scheduler, no auto-tuning and no database
of found schedules in this version. This phase will be filled in when there is.

What it has are rules: they choose tile sizes in closed form from a description of the processor
(registers, vector width, caches), at once. What they choose is a trace of the same primitives that
a person would use, and can be printed, edited and replayed:
"""
    )
    a, b, c = schedules.matmul(n)
    func = te.create_prim_func([a, b, c], "matmul")
    sch = default_schedule(func)
    say.program(f"The rules' schedule of a {n} x {n} product:", str(sch.trace))
    mod = build(sch)
    times = {name: seconds(build(*make(n)), n) for name, make in schedules.ALL.items()}
    times["the rules"] = seconds(mod, n)
    say.table(
        ("schedule", "ms", "GFLOP/s"),
        [(name, t * 1e3, gigaflops(n, t)) for name, t in times.items()],
    )
    say.question("Why does a search often beat schedules by hand, and what does it cost?")
    say.say(
        """
A search tries more combinations than a person has patience for, on the machine itself, and so finds
what a model of the machine does not know. It costs minutes to hours of measuring for each operator
and each machine. Rules cost nothing, hold for shapes that nobody has measured, and are as good as
what their author understood.
"""
    )


if __name__ == "__main__":
    main()
