"""An AutoTVM template of 10,000 configs, 20 trials: `python -m benchmarks.autotvm_template`.

A matrix product with three splits, an order and what becomes of the inner loops. For each of ten
seeds XGBTuner and RandomTuner get the same number of trials. What a config takes is measured once
and kept in a file, so that seeds and tuners are compared on the same times.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from smelt import autotvm, te
from smelt.search.runner import Attempt, LocalRunner, Outcome, Runner
from smelt.search.timing import Protocol, Timed

TRIALS, SEEDS = 20, 10
FAILED = 1e9


@autotvm.template("benchmark/matmul")
def matmul(n: int) -> tuple[Any, list[Any]]:
    """Ten sizes of three tiles each, five orders, a vector or none."""
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    (y, x), (k,) = C.op.axis, s[C].op.reduce_axis
    cfg = autotvm.get_config()
    parts = []
    for name, axis in (("tile_y", y), ("tile_x", x), ("tile_k", k)):
        cfg.define_split(name, axis, num_outputs=2)
        parts += cfg[name].apply(s, C, axis)
    yo, yi, xo, xi, ko, ki = parts
    orders = [[yo, xo, ko, yi, ki, xi], [yo, xo, ko, ki, yi, xi], [yo, ko, xo, yi, ki, xi],
              [ko, yo, xo, yi, ki, xi], [xo, yo, ko, ki, yi, xi]]  # fmt: skip
    cfg.define_reorder("order", parts, policy="candidate", candidate=orders)
    cfg["order"].apply(s, C, parts)
    cfg.define_annotate("inner", [xi], policy="try_vec")
    cfg["inner"].apply(s, C, [xi])
    return s, [A, B, C]


class TableRunner(Runner):
    """Measures a config once, and keeps what it takes in a file."""

    name = "table"

    def __init__(self, path: Path) -> None:
        """path  of the table; it is read where it is there already."""
        self.path, self._runner = path, LocalRunner(20.0)
        self.table: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}

    def seconds(self, attempt: Attempt) -> float:
        """What a config takes; FAILED where it cannot be run."""
        key = attempt.candidate.text
        if key not in self.table:
            asked = Protocol(rounds=5, least=1, seconds=0.2, hopeless=1e9)
            timed = self._runner.run(attempt, attempt, asked).timed
            self.table[key] = FAILED if timed is None else min(timed.seconds + timed.reference)
            self.path.write_text(json.dumps(self.table, indent=0))
        return self.table[key]

    def run(self, reference: Attempt, attempt: Attempt, protocol: Protocol) -> Outcome:
        """What the table says."""
        return Outcome(Timed((self.seconds(attempt),), (self.seconds(reference),)))

    def close(self) -> None:
        """End the process that measures."""
        self._runner.close()


def best(kind: Any, size: int, trials: int, seed: int, runner: Runner) -> float:
    """Seconds of the fastest config that a tuner finds."""
    task = autotvm.task.create("benchmark/matmul", (size,), "llvm -mcpu=native")
    tuner = kind(task, seed=seed)
    tuner.tune(trials, autotvm.measure_option("local", runner))
    return float(tuner.best_measure_pair[1].mean)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare tuners, seed by seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--table", type=Path, default=Path("build/autotvm_template.json"))
    given = parser.parse_args(arguments)
    given.table.parent.mkdir(parents=True, exist_ok=True)
    runner = TableRunner(given.table)
    task = autotvm.task.create("benchmark/matmul", (given.size,), "llvm -mcpu=native")
    print(f"{len(task.config_space)} configs, {given.trials} trials; GFLOP/s")
    print("seed    XGB  random")
    won = 0
    for seed in range(given.first, given.first + given.seeds):
        learned, drawn = [best(t, given.size, given.trials, seed, runner)
                          for t in (autotvm.tuner.XGBTuner, autotvm.tuner.RandomTuner)]  # fmt: skip
        won += learned < drawn
        print(f"{seed:4} {task.flop / learned / 1e9:6.1f}  {task.flop / drawn / 1e9:6.1f}",
              flush=True)  # fmt: skip
    print(f"XGBTuner is ahead in {won} of {given.seeds}")


if __name__ == "__main__":
    main()
