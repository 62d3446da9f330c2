"""Kernels measured beside themselves, as candidates are beside the default; see `benchmarks.tune`.

What is found to be faster here is a winner that is none.
"""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from math import exp, log
from pathlib import Path

import smelt
from benchmarks.report import Results, table
from smelt.ir.errors import CompileError
from smelt.pipeline import LOWER
from smelt.search.build import BuildJob, BuiltCandidate, LocalExecutor, build_all
from smelt.search.runner import Attempt, LocalRunner
from smelt.search.timing import Protocol
from smelt.search.tune import Task, beats
from smelt.tuning import extract_tasks

MODELS, QUICK = ("resnet18", "mobilenet_v2"), ("mlp",)


def names(quick: bool) -> Sequence[str]:
    """The models of the zoo whose kernels are measured."""
    return QUICK if quick else MODELS


def ratio(t: Task, runner: LocalRunner) -> tuple[float, bool] | None:
    """A kernel's time over its own, and whether it would be a winner; None: it cannot be tuned."""
    try:
        default = t.space.default()
    except CompileError:
        return None
    job = BuildJob(t.space.source(default), t.space.target, LOWER, t.cores, True)
    (built,) = build_all(LocalExecutor(), [job])
    assert isinstance(built, BuiltCandidate)
    other = Attempt(default, replace(built, digest=f"{built.digest} again"))
    protocol = Protocol(t.cores, t.cold, rounds=60, least=7, seconds=1.0, decide=True)
    timed = runner.run(Attempt(default, built), other, protocol).timed
    assert timed is not None
    return timed.relative, beats(timed)


def measure(folder: Path, threads: Sequence[int], quick: bool = False) -> list[Results]:
    """The kernels of some models of the zoo."""
    rows: list[Results] = []
    for name in names(quick):
        for count in threads:
            options = smelt.Options(threads=count)
            tasks = extract_tasks(str(folder / f"{name}.onnx"), options=options)
            with LocalRunner(20.0) as runner:
                found = [r for t in tasks if (r := ratio(t, runner)) is not None]
            told = {"ratios": [r for r, _ in found], "winners": sum([w for _, w in found])}
            rows.append({"model": name, "threads": count, "found": told})
            print(name, count, "done", flush=True)
    return rows


def section(rows: Sequence[Results]) -> str:
    """The results as markdown."""
    lines = []
    for r in rows:
        f = r["found"]
        off = [abs(log(x)) for x in f["ratios"]]
        lines.append([f"{r['model']}, {r['threads']}", str(len(off)),
                      f"{100 * (exp(statistics.median(off)) - 1):.1f} %",
                      f"{100 * (exp(max(off)) - 1):.1f} %", str(f["winners"])])  # fmt: skip
    heading = ["model, threads", "kernels", "apart, median", "at most", "winners"]
    note = "Apart: how far the ratio of a kernel's time to its own is from 1. Winners: false ones."
    return "\n\n".join([table(heading, lines), note])
