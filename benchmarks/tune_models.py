"""What tuning makes of whole models; see `benchmarks.tune`.

A model is tuned into a fresh database; its winners after the first stop are kept beside. Then the
model is compiled with the default schedules, with the winners of each stop, and with the best that
any database knows, and all of them take turns in one process on as many cores as they use.
"""

import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import smelt
from benchmarks.processes import Foreign, give_back, worker
from benchmarks.report import Results, table
from benchmarks.zoo import NOISY
from smelt.cli.results import arrays, largest_error
from smelt.cli.timing import interleave, summary
from smelt.search.database import Database, UnionDatabase
from smelt.search.stores import open_database
from smelt.search.tune import State
from smelt.tuning import tune

MODELS = ("resnet18", "mobilenet_v2", "bert_base")
QUICK = ("mlp",)
STOPS = (60.0, 300.0)
QUICK_STOPS = (1.0, 3.0)
ROUNDS, SECONDS = 11, 12.0
WANTED = ("1.00", "0.95")
"""After the first stop a model takes no longer than before; after the last it is so near the best
known."""


class _Snapshots:
    """Keeps the winners that a session has found when it passes its stops."""

    def __init__(self, database: Database, folder: Path, stops: Sequence[float]) -> None:
        self.database, self.folder, self.left = database, folder, [*stops]
        self.files: list[Path] = []
        self.told: list[Results] = []

    def __call__(self, state: State) -> None:
        """After every batch."""
        while self.left and state.elapsed >= self.left[0]:
            self.take(state)

    def take(self, state: State) -> None:
        """Keep what is known now."""
        path = self.folder / f"{self.left.pop(0):.0f}.db"
        with open_database(path) as kept:
            for w in self.database.workloads():
                kept.put(w, [r for r in self.database.records(w.key) if r.confirmed])
        self.files.append(path)
        self.told.append({
            "elapsed": state.elapsed, "trials": state.trials, "scored": state.scored,
            "winners": sum([t.winner is not None for t in state.tasks]),
            "predicted": state.after / state.before if state.before else 1.0,
            "errors": sum([t.errors for t in state.tasks]), "message": state.message,
        })  # fmt: skip


def tuned(
    model: Path, threads: int, stops: Sequence[float], folder: Path
) -> tuple[list[Path], list[Results]]:
    """Databases of what was found at each stop, and how the session stood then."""
    with open_database(folder / "whole.db") as database:
        kept = _Snapshots(database, folder, stops)
        options = smelt.Options(threads=threads)
        last = tune(str(model), database, options=options, minutes=stops[-1] / 60, progress=kept)
        while kept.left:  # it ended before: nothing more was to be gained, or the last batch is out
            kept.take(last)
    return kept.files, kept.told


def timed(
    model: str, threads: int, stops: Sequence[str], known: Sequence[str], quick: bool
) -> Results:
    """The model's times by side, in turns, and how far each one's results are off."""
    with np.load(Path(model).with_suffix(".inputs.npz")) as content:
        feeds = dict(content)
    everything = [open_database(p, make=False) for p in [*known, *stops]]
    sides: dict[str, Any] = {"default": None}
    sides |= dict(zip([f"stop {n}" for n in range(len(stops))], stops, strict=True))
    sides["known"] = UnionDatabase(*everything)
    calls, results, load = [], [], {}
    for name, database in sides.items():
        options = smelt.Options(threads=threads, database=database)
        exe = smelt.compile(model, options=options)
        given = [feeds[tensor.name] for tensor in exe.inputs]
        results.append(arrays(exe(*given)))
        calls.append(exe.bind(given))
        load[name] = float(largest_error(results[-1], results[0]))
    foreign = Foreign()
    taken = interleave(calls, 0.4 if quick else SECONDS, 2 if quick else ROUNDS)
    found: Results = {name: summary(t) for name, t in zip(sides, taken, strict=True)}
    return {"times": found, "errors": load, "foreign_cores": foreign.cores()}


def names(quick: bool) -> Sequence[str]:
    """The models of the zoo that are tuned."""
    return QUICK if quick else MODELS


def row(model: Path, threads: int, known: Sequence[str], quick: bool) -> Results:
    """One model on so many threads."""
    stops = QUICK_STOPS if quick else STOPS
    with tempfile.TemporaryDirectory(prefix="smelt-tune-") as folder:
        files, told = tuned(model, threads, stops, Path(folder))
        question = json.dumps([str(model), threads, [*map(str, files)],
                               [str(Path(k).resolve()) for k in known], quick])  # fmt: skip
        found = worker("benchmarks.tune_models", question, threads=threads)
    if "error" in found:
        return {"model": model.stem, "threads": threads, "error": found["error"]}
    return {"model": model.stem, "threads": threads,
            "found": {"stops": [*stops], "sessions": told, **found}}  # fmt: skip


def measure(
    folder: Path, threads: Sequence[int], known: Sequence[str] = (), quick: bool = False
) -> list[Results]:
    """The models of the zoo; quickly a small one."""
    rows = []
    for name in names(quick):
        for count in threads[-1:] if quick else threads:
            rows.append(row((folder / f"{name}.onnx").resolve(), count, known, quick))
            print(name, count, "done", flush=True)
    return rows


def section(rows: Sequence[Results]) -> str:
    """The results as markdown."""
    lines, ratios, errors = [], [], []
    for r in rows:
        title = f"{r['model']}, {r['threads']}"
        if "error" in r:
            errors.append(f"{title}: {r['error']}.")
            continue
        f = r["found"]
        ms = {k: v["median_ms"] for k, v in f["times"].items()}
        after = [ms[f"stop {n}"] / ms["default"] for n in range(len(f["stops"]))]
        ratios.append(after)
        noise = " ~" if f["foreign_cores"] > NOISY else ""
        last = f["sessions"][-1]
        lines.append([
            title + noise, f"{ms['default']:.3f}", *[f"{a:.3f}" for a in after],
            f"{last['predicted']:.3f}", f"{last['trials']}, {last['elapsed']:.0f} s",
            f"{ms['known'] / ms[f'stop {len(after) - 1}']:.3f}",
            f"{max(f['errors'].values()):.1e}", "; ".join(WANTED),
        ])  # fmt: skip
    if ratios:
        means = [f"**{statistics.geometric_mean(c):.3f}**" for c in zip(*ratios, strict=True)]
        lines.append([f"geometric mean of {len(ratios)}", "", *means, "", "", "", "", ""])
    known = next((r["found"]["stops"] for r in rows if "found" in r), STOPS)
    heading = ["model, threads", "default, ms", *[f"after {s:.0f} s, ratio" for s in known],
               "by the session", "trials", "best known / last", "error",
               "wanted, ratio; share of the best"]  # fmt: skip
    note = (
        "Ratio: the whole model's time with tuned schedules over that with default ones, in turns. "
        "By the session: the ratio that the kernels' own times make. Best known / last: the time "
        "with the best records of all databases over that after the last stop. Error: of results, "
        "against those of the default. ~: other work disturbed the row."
    )
    return "\n\n".join([table(heading, lines), note, *errors])


if __name__ == "__main__":
    give_back(timed(*json.loads(sys.argv[2])))
