"""Spaces that were measured whole, and how well searches and predictions do there.

A table holds what candidates take, each measured in turns with the default schedule. It is kept in
a file after every batch, so that measuring goes on where it was stopped; what is best is measured
again, since of many figures the smallest is one that noise has made small.
"""

import json
import os
import random
import re
import statistics
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from benchmarks.processes import ROOT
from benchmarks.regret import CLASSES, SHORT, spearman
from benchmarks.report import Results, table
from benchmarks.shapes import Conv, MatMul
from smelt.ir.errors import CompileError
from smelt.ir.options import Options
from smelt.pipeline import LOWER
from smelt.search.build import BuildJob, BuiltCandidate, LocalExecutor, build_all
from smelt.search.database import MemoryDatabase
from smelt.search.model import CostModel
from smelt.search.record import ErrorCode, machine_key
from smelt.search.runner import Attempt, LocalRunner, Outcome, Runner
from smelt.search.space import Candidate, RuleSpace
from smelt.search.timing import Protocol, Timed
from smelt.search.tune import Session, Settings, Task
from smelt.tuning import extract_tasks
from smelt.version import VERSION

FOLDER = ROOT / "build" / "tune"
THREADS = 2
WORKERS = 2
SPACES: dict[str, Callable[[], ModelProto]] = {
    "product 5 x 1000 x 1000, B given": MatMul(5, 1000, 1000, constant=False).model,
    "product 48 x 200 x 1000, B given": MatMul(48, 200, 1000, constant=False).model,
    "convolution 3x3, 37², 64 → 14": Conv(64, 14, 37, 3).model,
}
"""Kernels with one to three thousand decisions on two threads, all of which are measured."""
SMALL: dict[str, Callable[[], ModelProto]] = {
    "product 8 x 32 x 32": MatMul(8, 32, 32).model,
    "product 12 x 40 x 64": MatMul(12, 40, 64).model,
}
SEEDS = 5
NEAR = 1.02
"""A search has arrived within so much of the best."""
MORE, LEAST = 48, 5
"""Candidates of each further kernel; of fewer no ranks are told."""
_BATCH = 32
_AGAIN, _TURNS = 24, 5
PLAIN = Protocol(cores=THREADS)
LONGER = Protocol(cores=THREADS, rounds=25, least=9, seconds=0.4)


def task_of(model: ModelProto, threads: int = THREADS) -> Task:
    """The kernel of a model in which there is most to choose. Raises CompileError: in none."""
    found = []
    for task in extract_tasks(model, options=Options(threads=threads)):
        try:
            found.append((task.space.size, task))
        except CompileError:
            continue
    if not found:
        raise CompileError("there is nothing to choose in the model")
    return max(found, key=lambda v: v[0])[1]


def space_of(task: Task) -> RuleSpace:
    """What the rules may choose for a task."""
    assert isinstance(task.space, RuleSpace)
    return task.space


def every(space: RuleSpace) -> Iterator[Candidate]:
    """All candidates."""
    for a in space.algorithms:
        for rows in product(*[range(len(p)) for p in a.parts]):
            yield a.candidate(rows)


def some(space: RuleSpace, count: int, seed: int = 0) -> list[Candidate]:
    """So many different candidates, the default among them, cheap ones more often than others."""
    if space.size <= count:
        return list(every(space))
    source, found = random.Random(seed), {(c := space.default()).text: c}
    while len(found) < count:
        a = source.choice(space.algorithms)
        rows = [min(source.randrange(len(p)), source.randrange(len(p))) for p in a.parts]
        c = a.candidate(rows)
        found[c.text] = c
    return list(found.values())


@dataclass
class Table:
    """What candidates of a kernel take over its default, by their texts; infinite where they fail.

    again  the same of those that were measured longer
    """

    path: Path
    stamp: str
    seconds: float = float("nan")
    rows: dict[str, float] = field(default_factory=dict)
    again: dict[str, float] = field(default_factory=dict)

    @property
    def times(self) -> dict[str, float]:
        """The better figure of each."""
        return self.rows | self.again

    def save(self) -> None:
        """Keep it: the file is whole at any time."""

        def plain(rows: Mapping[str, float]) -> dict[str, float | None]:
            return {k: v if np.isfinite(v) else None for k, v in rows.items()}

        content = {"stamp": self.stamp, "seconds": self.seconds,
                   "rows": plain(self.rows), "again": plain(self.again)}  # fmt: skip
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(content, indent=0), encoding="utf-8")
        os.replace(partial, self.path)


def opened(path: Path, stamp: str) -> Table:
    """The table of a file; an empty one where there is none, or one of another machine, program or
    version."""
    if path.exists():
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["stamp"] == stamp:
            rows, again = ({k: float("inf") if v is None else v for k, v in content[name].items()}
                           for name in ("rows", "again"))  # fmt: skip
            return Table(path, stamp, content["seconds"], rows, again)
    return Table(path, stamp)


def measured(
    name: str,
    task: Task,
    candidates: Sequence[Candidate],
    folder: Path = FOLDER,
    say: Callable[[str], object] = print,
) -> Table:
    """The table of a kernel, in which these candidates are measured that are not there yet."""
    space = space_of(task)
    stamp = f"{space.workload.key} {machine_key(space.target, space.machine)} {VERSION}"
    found = opened(folder / f"{re.sub(r'[^a-z0-9]+', '_', name.lower()).strip('_')}.json", stamp)
    missing = [c for c in candidates if c.text not in found.rows]
    with LocalRunner() as runner:
        bench = _Bench(task, runner)
        for start in range(0, len(missing), _BATCH):
            bench.fill(found.rows, missing[start : start + _BATCH], PLAIN)
            found.seconds = bench.seconds
            found.save()
            say(f"{name}: {len(found.rows)} of {len(candidates)} measured")
        by_text = {c.text: c for c in candidates}
        for _ in range(_TURNS):
            ranked = sorted([t for t in by_text if np.isfinite(found.times[t])],
                            key=lambda t: found.times[t])  # fmt: skip
            if not ranked or ranked[0] in found.again:
                break
            chosen = [t for t in ranked if t not in found.again][:_AGAIN]
            bench.fill(found.again, [by_text[t] for t in chosen], LONGER)
            found.save()
    return found


class _Bench:
    """Builds and measures candidates of a task; its default is built when it is first needed."""

    def __init__(self, task: Task, runner: Runner) -> None:
        self.task, self.runner = task, runner
        self.executor = LocalExecutor(WORKERS)
        self.reference: Attempt | None = None
        self.seconds = float("nan")

    def attempts(self, candidates: Sequence[Candidate]) -> list[Attempt | None]:
        """Those that were built; None in the place of others."""
        space = space_of(self.task)
        jobs = [BuildJob(space.source(c), space.target, LOWER, self.task.cores)
                for c in candidates]  # fmt: skip
        built = build_all(self.executor, jobs)
        return [Attempt(c, b) if isinstance(b, BuiltCandidate) else None
                for c, b in zip(candidates, built, strict=True)]  # fmt: skip

    def fill(
        self, rows: dict[str, float], candidates: Sequence[Candidate], protocol: Protocol
    ) -> None:
        """Measure candidates, those with the same code once."""
        if self.reference is None:
            (self.reference,) = self.attempts([space_of(self.task).default()])
            assert self.reference is not None
        known: dict[str, float] = {}
        for c, attempt in zip(candidates, self.attempts(candidates), strict=True):
            if attempt is None or attempt.built is None:
                rows[c.text] = float("inf")
                continue
            digest = attempt.built.digest
            if digest not in known:
                timed = self.runner.run(self.reference, attempt, protocol).timed
                known[digest] = float("inf") if timed is None else timed.relative
                if timed is not None:
                    self.seconds = statistics.median(timed.reference)
            rows[c.text] = known[digest]


# ----------------------------------------------------------------------------------------- searches


class Answering(Runner):
    """Answers from a table.

    asked  texts of candidates, in the order in which they were measured first
    """

    name = "answering"
    needs_build = False

    def __init__(self, times: Mapping[str, float]) -> None:
        """times: of candidates by their texts."""
        self.times = times
        self.asked: dict[str, None] = {}

    def run(self, reference: Attempt, attempt: Attempt, protocol: Protocol) -> Outcome:
        """What stands in the table; what is not there has failed."""
        text = attempt.candidate.text
        self.asked.setdefault(text)
        if not np.isfinite(found := self.times.get(text, float("inf"))):
            return Outcome(None, ErrorCode.RUNTIME, "the table has no time of it")
        return Outcome(Timed((found,), (self.times[reference.candidate.text],)))


def searched(task: Task, times: Mapping[str, float], seed: int, learned: bool) -> int | None:
    """Measurements, beside that of the default, until a session has met a candidate that is near
    the best; None: it gave up."""
    good, runner = near(times), Answering(times)
    new = Task(task.make, task.name, cores=task.cores)
    # no end but the goal: a table costs nothing to ask
    settings = Settings(trials=len(times), seed=seed, learned=learned, patience=1 << 20)
    for _ in Session([new], MemoryDatabase(), settings, LOWER, runner).run():
        if good & runner.asked.keys():
            break
    return next((n for n, text in enumerate(runner.asked) if text in good), None)


def settled(task: Task, times: Mapping[str, float], seed: int) -> list[float]:
    """Measurements after which a session stops by itself, and how much longer than the best of the
    space the best takes that it has found."""
    runner = Answering(times)
    new = Task(task.make, task.name, cores=task.cores)
    settings = Settings(trials=len(times), seed=seed)
    for _ in Session([new], MemoryDatabase(), settings, LOWER, runner).run():
        pass
    found = min([times.get(text, float("inf")) for text in runner.asked])
    return [len(runner.asked) - 1, found / min(times.values())]


def drawn(default: str, times: Mapping[str, float], seed: int) -> int:
    """The same of a search that measures one candidate after another at random."""
    good, rest = near(times), sorted(times.keys() - {default})
    order = [default, *random.Random(seed).sample(rest, len(rest))]
    return next(n for n, text in enumerate(order) if text in good)


def near(times: Mapping[str, float]) -> set[str]:
    """The candidates that take hardly longer than the fastest."""
    best = min(times.values())
    return {text for text, t in times.items() if t <= NEAR * best}


def search_row(name: str, model: ModelProto, folder: Path, quick: bool) -> Results:
    """How many measurements the searches need in one space."""
    task = task_of(model, 1 if quick else THREADS)
    candidates = list(every(space_of(task)))
    times = measured(name, task, candidates, folder).times
    times = {
        c.text: times[c.text] for c in candidates
    }  # decisions of earlier rules may stand there
    default, seeds = space_of(task).default().text, range(2 if quick else SEEDS)
    ways: dict[str, list[int | None]] = {
        "engine": [searched(task, times, s, learned=True) for s in seeds],
        "closed form": [searched(task, times, s, learned=False) for s in seeds],
        "random": [drawn(default, times, s) for s in seeds],
    }
    best, good = min(times.values()), near(times)
    return {"space": name, "found": {
        "decisions": len(times), "near": len(good), "default": times[default] / best,
        "settled": [settled(task, times, s) for s in seeds],
        "failed": sum([not np.isfinite(t) for t in times.values()]), "needed": ways,
    }}  # fmt: skip


def search_rows(folder: Path, quick: bool, names: Collection[str] = ()) -> list[Results]:
    """All spaces."""
    spaces = dict(list(SMALL.items())[:1]) if quick else SPACES
    return [search_row(n, m(), folder, quick) for n, m in spaces.items() if not names or n in names]


def search_text(rows: Sequence[Results]) -> str:
    """The searches as markdown."""
    lines = []
    for r in rows:
        f = r["found"]
        needed = [counts(f["needed"][way]) for way in ("engine", "closed form", "random")]
        trials, ratios = zip(*f["settled"], strict=True)
        lines.append([r["space"], f["decisions"], f["near"], f"{f['default']:.2f}", *needed,
                      "50, a fifth of random", f"{statistics.median(trials):.0f}",
                      f"{statistics.median(ratios):.3f} … {max(ratios):.3f}", "1.02"])  # fmt: skip
    heading = ["space", "decisions", "near the best", "default / best", "engine, measurements",
               "without the learned model", "at random", "wanted, at most",
               "stops by itself after", "its best / the best", "wanted, at most"]  # fmt: skip
    return table(heading, lines) + (
        "\n\nMeasurements until one is within 2 % of the best of the space: the median of the "
        "seeds, and the most; 0: the default is. ∞: the search gave up."
    )


def counts(found: Sequence[int | None]) -> str:
    """Median and maximum."""
    numbers = [float("inf") if n is None else float(n) for n in found]
    return " … ".join(["∞" if np.isinf(n) else f"{n:.0f}"
                       for n in (statistics.median(numbers), max(numbers))])  # fmt: skip


# -------------------------------------------------------------------------------------- predictions


@dataclass(frozen=True)
class Known:
    """A kernel's candidates and what they take."""

    name: str
    features: np.ndarray[Any, Any]
    prior: np.ndarray[Any, Any]
    seconds: np.ndarray[Any, Any]

    def judged(self, score: np.ndarray[Any, Any]) -> list[float | None]:
        """The correlation of ranks, and how much longer than the fastest the best by the score
        takes."""
        regret = float(self.seconds[int(np.argmin(score))] / self.seconds.min() - 1)
        return [spearman(list(score), list(self.seconds)), regret]


def known_of(name: str, task: Task, candidates: Sequence[Candidate], found: Table) -> Known:
    """Those candidates of a table that ran."""
    times = found.times
    good = [c for c in candidates if np.isfinite(times.get(c.text, float("inf")))]
    seconds = found.seconds * np.array([times[c.text] for c in good])
    return Known(name, np.stack([c.features for c in good]),
                 np.log([c.predicted for c in good]), seconds)  # fmt: skip


def kernels(folder: Path, quick: bool) -> Iterator[Known]:
    """The spaces measured whole, and one kernel of each class that the costs were not fitted to."""
    for name, make in (SMALL if quick else SPACES).items():
        task = task_of(make(), 1 if quick else THREADS)
        candidates = list(every(space_of(task)))
        yield known_of(name, task, candidates, measured(name, task, candidates, folder))
    for name in () if quick else CLASSES:
        label, model = CLASSES[name](random.Random(f"{name} 2"))
        try:
            task = task_of(model)
        except CompileError:
            continue
        space = space_of(task)
        if space.size >= LEAST and space.default().predicted >= SHORT:
            candidates, title = some(space, MORE), f"{name}, {label}"
            yield known_of(title, task, candidates, measured(title, task, candidates, folder))


def learned_rows(folder: Path, quick: bool) -> list[Results]:
    """Each kernel, predicted by the closed form and by a model that has seen the others."""
    found = [k for k in kernels(folder, quick) if len(k.seconds) >= (2 if quick else LEAST)]
    rows = []
    for left in found:
        model = CostModel()
        for k in found:
            if k is not left:
                model.add(k.features, k.prior, k.seconds, k.name)
        model.fit(force=True)
        closed, learned = left.prior, left.prior + model.predict(left.features)
        rows.append({"kernel": left.name, "found": {
            "candidates": len(left.seconds), "trained": model.trained, "records": model.count,
            "closed form": left.judged(closed), "learned": left.judged(learned),
        }})  # fmt: skip
    return rows


def learned_text(rows: Sequence[Results]) -> str:
    """The predictions as markdown."""
    lines, ways = [], ("closed form", "learned")
    for r in rows:
        f = r["found"]
        ranks = ["–" if f[w][0] is None else f"{f[w][0]:.2f}" for w in ways]
        lines.append([r["kernel"], f["candidates"], *ranks,
                      *[f"{100 * f[w][1]:.0f} %" for w in ways], ""])  # fmt: skip
    means = []
    for column, form in ((0, "**{:.2f}**"), (1, "**{:.1%}**")):
        for w in ways:
            numbers = [r["found"][w][column] for r in rows if r["found"][w][column] is not None]
            means.append(form.format(statistics.median(numbers)) if numbers else "–")
    lines.append(["median", "", *means, "0.80; 5 %"])
    heading = ["kernel", "candidates", "Spearman, closed form", "learned", "regret, closed form",
               "learned", "wanted, learned"]  # fmt: skip
    return table(heading, lines) + (
        "\n\nLearned: by a model that has seen all kernels of the table but this one. Regret: how "
        "much longer than the fastest of the candidates the one takes that is predicted to be it."
    )
