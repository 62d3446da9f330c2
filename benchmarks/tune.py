"""How fast and how well schedules are tuned: `python -m benchmarks.tune [FOLDER] --only PART`.

    speed     decisions that are scored in a second
    built     candidates that are built, and measured, in a second
    search    measurements until a search is near the best of a space that was measured whole
    learned   how well the order of candidates is predicted, of kernels that were never seen
    equal     kernels beside themselves: what is found to be faster there is not
    models    what tuning makes of models, in one minute and in five
    tvm       a model after 17 minutes beside apache-tvm's first round
    formulas  the same for programs by themselves, against their loops as written
    killed    whether records survive a session that is killed

What `search` and `learned` measure, and what apache-tvm finds, is kept in build/tune: a run that
was stopped goes on there.
"""

import random
import statistics
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from benchmarks import (
    models,
    tune_equal,
    tune_formulas,
    tune_killed,
    tune_models,
    tune_peer,
    tune_tables,
)
from benchmarks.options import arguments, report
from benchmarks.regret import CLASSES
from benchmarks.report import Results, table
from benchmarks.shapes import Conv, MatMul
from benchmarks.tune_tables import FOLDER, PLAIN, THREADS, WORKERS, space_of, task_of
from benchmarks.zoo import NOISY
from smelt.pipeline import LOWER
from smelt.rules.cost import seconds
from smelt.rules.sketch import Space, score
from smelt.search.build import BuildJob, BuiltCandidate, LocalExecutor, build_all
from smelt.search.model import CostModel
from smelt.search.runner import Attempt, LocalRunner
from smelt.search.space import Candidate, RuleSpace
from smelt.target import Machine

MANY = 100_000
"""Decisions that are scored in bulk."""
RECORDS = 320
BUILT = 24
LIMITS = ("1", "2")

Make = Callable[[], ModelProto]


def _unseen(name: str) -> Make:
    return lambda: CLASSES[name](random.Random(f"{name} 2"))[1]


SPEED: dict[str, Make] = {
    "contraction": MatMul(29, 834, 604, constant=False).model,
    "contraction, Winograd": Conv(64, 64, 56, 3).model,
    "window": Conv(96, 96, 56, 3, 1, 96).model,
    "elementwise": _unseen("elementwise"),
}
"""A kernel for each kind of space."""

KERNELS: dict[str, tuple[Make, str | None]] = {
    "product": (MatMul(128, 768, 768).model, None),
    "3x3 convolution, Winograd": (Conv(64, 64, 56, 3).model, "winograd"),
    "3x3 convolution, direct": (Conv(64, 64, 56, 3).model, ""),
    "depthwise convolution": (Conv(96, 96, 56, 3, 1, 96).model, None),
    "softmax": (_unseen("softmax"), None),
    "pooling": (_unseen("pooling"), None),
    "elementwise": (_unseen("elementwise"), None),
}
"""A kernel for each class, and how the algorithm's name begins, where one is meant."""


# -------------------------------------------------------------------------------------------- speed


def rate(work: Callable[[], int], least: float) -> float:
    """Things a second: the median of some turns, after one that is not counted."""
    work()
    found: list[float] = []
    end = time.perf_counter() + least
    while time.perf_counter() < end or len(found) < 3:
        start = time.perf_counter()
        count = work()
        found.append(count / (time.perf_counter() - start))
    return statistics.median(found)


def trained(space: RuleSpace, count: int = RECORDS) -> CostModel:
    """A model that has learned from so many records: of times that are made up, since how long it
    takes to ask it does not depend on what it was told."""
    source, model = np.random.default_rng(0), CostModel()
    pool = space.pool(source, (), lambda prior, _: prior)
    rows = source.integers(len(pool), size=count)
    noise = source.normal(0, 0.2, count)
    model.add(pool.features[rows], pool.prior[rows], np.exp(pool.prior[rows] + noise), "made up")
    model.fit(force=True)
    return model


def speed_row(name: str, model: ModelProto, quick: bool) -> Results:
    """How many decisions of a kernel's space are scored in a second."""
    space, least = space_of(task_of(model)), 0.05 if quick else 1.0
    parts = [p for a in space.algorithms for part in a.parts for p in part.scored]
    _, widest = max(parts, key=lambda p: len(p[1].seconds))
    learned = trained(space)
    rng = np.random.default_rng(0)

    def pooled(fresh: bool, predict: bool) -> int:
        # without its cached columns: what the first look at a kernel takes
        used = RuleSpace(space.spec) if fresh else space
        pool = used.pool(rng, (), lambda prior, _: prior)
        expected = pool.prior + learned.predict(pool.features) if predict else pool.prior
        return len(np.argsort(expected, kind="stable"))

    def whole() -> int:
        return len(score(widest.space, space.machine).seconds)

    found = {
        "decisions": space.size,
        "enumerated": len(widest.seconds),
        "whole": rate(whole, least),
        "bulk": rate(_bulk(widest.space, space.machine), least),
        "first": rate(partial(pooled, True, False), least),
        "closed": rate(partial(pooled, False, False), least),
        "learned": rate(partial(pooled, False, True), least) if learned.trained else None,
    }
    return {"space": name, "found": found}


def _bulk(space: Space, machine: Machine) -> Callable[[], int]:
    """Scores many decisions at once, whatever the space's size."""
    rng = np.random.default_rng(0)
    columns = {d.name: np.array(d.values)[rng.integers(len(d.values), size=MANY)]
               for d in space.domains}  # fmt: skip

    def work() -> int:
        with np.errstate(divide="ignore", invalid="ignore"):
            return int(np.broadcast_to(seconds(space.cost(columns), machine), (MANY,)).size)

    return work


def speed_text(rows: Sequence[Results]) -> str:
    """The rates as markdown."""
    lines = []
    for r in rows:
        f = r["found"]
        cells = [f[k] for k in ("bulk", "whole", "first", "closed", "learned")]
        lines.append([r["space"], f"{f['decisions']:.0f}", f["enumerated"],
                      *["–" if c is None else f"{c:,.0f}" for c in cells],
                      "100,000; 20,000 learned"])  # fmt: skip
    heading = ["space", "decisions", "enumerated", f"{MANY:,} at once", "a sketch's space",
               "first pool", "later pools", "with the learned model",
               "wanted, at least"]  # fmt: skip
    return table(heading, lines) + (
        "\n\nDecisions scored in a second. Enumerated: of the widest sketch of one part, legal or "
        "not. Small spaces cost what an empty one does."
    )


# -------------------------------------------------------------------------------------------- built


def wanted_ones(space: RuleSpace, body: str | None, count: int) -> list[Candidate]:
    """So many candidates of an algorithm, the cheapest first; some again where there are fewer."""
    found: list[Candidate] = []
    for a in space.algorithms:
        if body is None or (a.plan.body.startswith(body) if body else not a.plan.body):
            longest = max(range(len(a.parts)), key=lambda n: len(a.parts[n]))
            for row in np.argsort(a.parts[longest].seconds, kind="stable")[:count]:
                rows = [*a.cheapest]
                rows[longest] = int(row)
                found.append(a.candidate(rows))
    return [found[n % len(found)] for n in range(count)] if found else []


def built_row(name: str, quick: bool) -> Results:
    """How many candidates of a kernel are built, and measured, in a second."""
    make, body = KERNELS[name]
    task = task_of(make())
    space, executor = space_of(task), LocalExecutor(WORKERS)
    chosen = wanted_ones(space, body, 4 if quick else BUILT)
    if not chosen:
        return {"kernel": name, "error": f"no algorithm {body!r} fits"}
    jobs = [BuildJob(space.source(c), space.target, LOWER, task.cores) for c in chosen]
    (reference,) = build_all(executor, [BuildJob(space.source(space.default()), space.target,
                                                 LOWER, task.cores)])  # fmt: skip
    build_all(executor, jobs[: 2 * WORKERS])  # every worker has met the kernel
    start = time.perf_counter()
    built = build_all(executor, jobs)
    building = time.perf_counter() - start
    good = [(c, b) for c, b in zip(chosen, built, strict=True) if isinstance(b, BuiltCandidate)]
    assert isinstance(reference, BuiltCandidate)
    first = Attempt(space.default(), reference)
    with LocalRunner() as runner:
        runner.run(first, first, PLAIN)
        start = time.perf_counter()
        for c, b in good:
            runner.run(first, Attempt(c, b), PLAIN)
        measuring = time.perf_counter() - start
    return {"kernel": name, "found": {
        "candidates": len(chosen), "failed": len(chosen) - len(good),
        "built": len(chosen) / building, "both": len(chosen) / (building + measuring),
    }}  # fmt: skip


def built_text(rows: Sequence[Results]) -> str:
    """The rates as markdown."""
    lines = []
    for r in rows:
        if "error" in r:
            lines.append([r["kernel"], "–", "–", r["error"], ""])
            continue
        f = r["found"]
        lines.append([r["kernel"], f["failed"], f"{f['built']:.1f}", f"{f['both']:.1f}", "50; 15"])
    heading = ["kernel", "failed", "built a second", "built and measured a second",
               "wanted, at least"]  # fmt: skip
    return table(heading, lines) + (
        f"\n\nOn {THREADS} threads, built by {WORKERS} workers, measured with the protocol of a "
        "session."
    )


# --------------------------------------------------------------------------------------- everything

PARTS: dict[str, tuple[str, Callable[[Sequence[Results]], str]]] = {
    "speed": ("Decisions scored in a second", speed_text),
    "built": ("Candidates built and measured in a second", built_text),
    "search": ("Measurements until near the best", tune_tables.search_text),
    "learned": ("Predictions for kernels never seen", tune_tables.learned_text),
    "equal": ("Kernels beside themselves", tune_equal.section),
    "models": ("Models", tune_models.section),
    "tvm": ("Beside another tuner", tune_peer.section),
    "formulas": ("Programs by themselves", tune_formulas.section),
    "killed": ("Sessions that are killed", tune_killed.section),
}


def measure(
    folder: Path | None,
    only: Collection[str] = (),
    quick: bool = False,
    threads: Sequence[int] = (1, 2),
    known: Sequence[str] = (),
    tables: Path = FOLDER,
) -> Results:
    """Some parts, by default all. folder: the zoo's, for models."""
    run: dict[str, Callable[[], list[Results]]] = {
        "speed": lambda: [speed_row(n, m(), quick) for n, m in SPEED.items()],
        "built": lambda: [built_row(n, quick) for n in KERNELS],
        "search": lambda: tune_tables.search_rows(tables, quick),
        "learned": lambda: tune_tables.learned_rows(tables, quick),
        "equal": lambda: tune_equal.measure(
            folder or models.zoo(names=tune_equal.names(quick)), threads, quick
        ),
        "models": lambda: tune_models.measure(
            folder or models.zoo(names=tune_models.names(quick)), threads, known, quick
        ),
        "tvm": lambda: tune_peer.measure(
            folder or models.zoo(names=[tune_peer.MODEL]), threads, tables, quick
        ),
        "formulas": lambda: tune_formulas.measure(threads, quick),
        "killed": lambda: tune_killed.measure(quick),
    }
    found: Results = {}
    for name in PARTS:
        if not only or name in only:
            found[name] = run[name]()
            print(name, "done", flush=True)
    return found


def section(results: Results) -> str:
    """The results as markdown."""
    parts = []
    for name, (title, text) in PARTS.items():
        if results.get(name):
            parts.append(f"### {title}\n\n{text(results[name])}")
            noisy = [r for r in results[name]
                     if r.get("found", {}).get("foreign_cores", 0.0) > NOISY]  # fmt: skip
            if noisy:
                parts.append(f"Other work disturbed {len(noisy)} of {len(results[name])} rows.")
    return "\n\n".join(parts)


FLAGS: dict[str, dict[str, Any]] = {
    "--threads": {"action": "append", "choices": LIMITS, "help": "of models and formulas: 1, 2; "
                  "may be repeated; both where it is not given"},
    "--known": {"action": "append", "default": [], "metavar": "DATABASE",
                "help": "with records of earlier sessions: the best known is that of all of them"},
    "--tables": {"type": Path, "default": FOLDER, "help": "where measured spaces are kept"},
}  # fmt: skip


if __name__ == "__main__":
    asked = arguments(__doc__, tuple(PARTS), FLAGS)
    made = measure(
        Path(asked.folder) if asked.folder else None, asked.only or (), asked.quick,
        [int(t) for t in asked.threads or LIMITS], asked.known, asked.tables,
    )  # fmt: skip
    report("tune", asked, made, section(made))
