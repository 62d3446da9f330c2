"""Phase 5: schedules found by a search, beside those by hand: `... auto_tune --quick`."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from smelt import auto_scheduler, te
from smelt.choices import default_schedule
from smelt.pipeline import build
from smelt.runtime.program import Module

from . import schedules
from .comparison import TURN
from .report import Report, check, gigaflops, operands

QUICK, TRIALS = 50, 200
"""Measurements: with --quick, and without."""
BY_HAND = ("tiled", "tiled, vectorised", "tiled, vectorised, parallel", "packed")
RULES, TUNED = "the rules, untuned", "auto_scheduler"


def matmul(n: int) -> list[te.Tensor]:
    """C = A B, all n x n."""
    return list(schedules.matmul(n))


auto_scheduler.register_workload("smelt.practice.matmul", matmul)


def main(
    n: int = 512, report: Report | None = None, quick: bool = False, trials: int | None = None
) -> dict[str, float]:
    """Let a search find a schedule of a product, and compare it with schedules by hand.

    n       the size of the matrices
    quick   few measurements; trials: how many, if neither

    The result is seconds by schedule.
    """
    say = report or Report()
    count = trials or (QUICK if quick else TRIALS)
    say.title("Phase 5: automatic schedules")
    say.say(
        f"""
The rules know some sketches of a matrix product: what is tiled, held in registers, packed, shared
out. Each has decisions, such as the sizes of tiles. A closed form says at once what every decision
should take; a search measures those that look best, {count} of them here, learns where the form is
wrong, and keeps what it has measured in a log. Each candidate is timed in turns with the default.
"""
    )
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "matmul.json"
        task = _searched(say, n, count, log)
        tuned = task.apply_best(log)
        say.program(f"The best schedule of a {n} x {n} product:", task.print_best(log))
    by_rules = default_schedule(te.create_prim_func(matmul(n), "main"))
    times = _compared(n, {
        **{name: build(*schedules.ALL[name](n)) for name in BY_HAND},
        RULES: build(by_rules),
        TUNED: build(*tuned),
    })  # fmt: skip
    by_hand = min([times[name] for name in BY_HAND])
    say.table(
        ("schedule", "ms", "GFLOP/s", "times the best by hand"),
        [(name, t * 1e3, gigaflops(n, t), by_hand / t) for name, t in times.items()],
    )
    say.question("Why does a search often beat schedules by hand, and what does it cost?")
    say.say(
        """
A search tries more combinations than a person has patience for, on the machine itself, and so finds
what a model of the machine does not know. It costs seconds to minutes of measuring for each
operator, each shape and each machine. Rules cost nothing, hold for shapes that nobody has measured,
and are as good as what their author understood; here they are also where the search begins.
"""
    )
    return times


def _searched(say: Report, n: int, trials: int, log: Path) -> auto_scheduler.SearchTask:
    """A task whose search has filled a log."""
    start = time.perf_counter()
    task = auto_scheduler.SearchTask(func=matmul, args=(n,), target="llvm -mcpu=native")
    policy = auto_scheduler.SketchPolicy(task, auto_scheduler.XGBModel(), seed=0, verbose=0)
    options = auto_scheduler.TuningOptions(
        num_measure_trials=trials, measure_callbacks=[auto_scheduler.RecordToFile(log)], verbose=0
    )
    task.tune(options, search_policy=policy)
    records = list(auto_scheduler.load_records(log))
    failed = [r for _, r in records if r.error_no]
    say.say(
        f"{len(records)} measurements in {time.perf_counter() - start:.1f} s, {len(failed)} of "
        f"them failed; the task's key is {task.workload_key}"
    )
    return task


def _compared(n: int, mods: Mapping[str, Module], rounds: int = 5) -> dict[str, float]:
    """Median seconds of each, after its result has been compared with numpy's; all take turns, so
    that the machine's moods meet all of them."""
    a, b, c = operands(n)
    calls = {}
    for name, mod in mods.items():
        error = check(mod, n)
        if not error < 1e-4:
            raise AssertionError(f"{name}: the product of size {n} is wrong by {error:.1e}")
        calls[name] = mod[mod.entry_name].bind(a, b, c)
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            call.time(1)  # not counted: threads of the one before may still be spinning
            found[name] += [call.time(1) / 1e3 for _ in range(TURN)]
    return {name: statistics.median(times) for name, times in found.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m smelt.practice.auto_tune")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} measurements")
    main(quick=parser.parse_args().quick)
