"""Times models on two threads over on one: `python -m benchmarks.threads [FOLDER]`.

The models of the zoo, the networks of tests/models in full size and those that come with the onnx
package; with static and with symbolic sizes. Once alone and once beside a process that computes all
the time on the same cores, each time in turns with onnxruntime.
"""

import statistics
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from benchmarks import models, real_models
from benchmarks.options import arguments, report
from benchmarks.peers import QUICKLY, REFERENCE, SMELT, Beside, Pace, Side, beside
from benchmarks.processes import busy_core
from benchmarks.real_models import FEEDS, written
from benchmarks.report import Results, table
from benchmarks.zoo import NOISY
from tests.models import light

CORES = 2
PACE = Pace(1.0)
LONG = 1.0  # milliseconds on one thread, from which on a model counts for the mean
SIDES = [
    Side(f"{name} {threads}", threads, name, cores=CORES)
    for name in (SMELT, REFERENCE)
    for threads in (1, CORES)
]
KINDS = ("zoo", "light", "real", "symbolic")
QUICK = ("light:squeezenet", "symbolic:gru")


def listed(folder: Path | None) -> list[str]:
    """All models, as KIND:NAME; those of the zoo are the ones in its folder."""
    found = []
    for path in sorted(folder.glob("*.onnx")) if folder else ():
        if not path.stem.endswith("_int8") and path.with_suffix(".inputs.npz").exists():
            found.append(f"{'symbolic' if path.stem in models.DYNAMIC else 'zoo'}:{path.stem}")
    found += [f"light:{name}" for name in light.NAMES]
    return found + [f"{kind}:{name}" for kind in KINDS[2:] for name in FEEDS]


@contextmanager
def files(model: str, folder: Path | None) -> Iterator[tuple[Path, Path]]:
    """The files of a model, and of its inputs."""
    kind, _, name = model.partition(":")
    if kind == "light":
        proto = light.light(name)
        with written(name, proto, light.feeds_of(proto)) as found:
            yield found
    elif name in FEEDS:
        proto = real_models.model(name, "n" if kind == "symbolic" else 1)
        with written(name, proto, FEEDS[name]()) as found:
            yield found
    else:
        assert folder is not None
        yield folder / f"{name}.onnx", folder / f"{name}.inputs.npz"


def time_model(workers: Beside, model: str, folder: Path | None, pace: Pace) -> Results:
    """The medians of all sides, alone and beside a busy process."""
    with files(model, folder) as found:
        workers.load(*found)
    row: Results = {}
    for state in ("alone", "busy"):
        with busy_core(CORES) if state == "busy" else nullcontext() as process:
            meant = [] if process is None else [process]
            row[state] = workers.time(pace, meant)
    return {"errors": workers.failed, **row}


def measure(
    folder: Path | None,
    names: Collection[str] = (),
    pace: Pace = PACE,
    say: Callable[[str], object] = print,
) -> Results:
    """All models, or those that are named; each has workers of its own."""
    rows = []
    for model in names or listed(folder):
        with beside(SIDES) as workers:
            row = time_model(workers, model, folder, pace)
        rows.append({"model": model, **row})
        say(f"{model} done")
    return {"rows": rows}


def ratio(row: Results, state: str, above: str, below: str) -> float | None:
    """The medians of two sides divided, where both have one."""
    found = [row.get(state, {}).get(side) for side in (above, below)]
    if None in found:
        return None
    a, b = [side["median_ms"] for side in found]
    return float(a / b)


OURS, THEIRS = [[f"{name} {threads}" for threads in (CORES, 1)] for name in (SMELT, REFERENCE)]
RATIOS = {
    "smelt, 2 / 1": ("alone", *OURS),
    "onnxruntime, 2 / 1": ("alone", *THEIRS),
    "busy: smelt, 2 / 1": ("busy", *OURS),
    "busy: onnxruntime, 2 / 1": ("busy", *THEIRS),
    "busy: smelt / onnxruntime, 2": ("busy", OURS[0], THEIRS[0]),
}
"""The columns: what is divided by what."""


def section(results: Results) -> str:
    """The results as markdown."""
    rows, lines, errors = results["rows"], [], []
    for row in rows:
        errors += [f"{row['model']}, {side}: {why}." for side, why in row["errors"].items()]
        noisy = any(row[state]["foreign_cores"] > NOISY for state in ("alone", "busy"))
        one = row["alone"].get(OURS[1])
        cells = [f"{one['median_ms']:.3f}" if one else "–"]
        cells += [_cell(ratio(row, *what)) for what in RATIOS.values()]
        lines.append([row["model"] + " ~" * noisy, *cells])
    for kind in KINDS:
        long = [row for row in rows if row["model"].startswith(f"{kind}:") and _long(row)]
        known = [[ratio(row, *what) for row in long] for what in RATIOS.values()]
        means = [_cell(_mean([r for r in column if r is not None])) for column in known]
        if long:
            lines.append(
                [f"{kind}: geometric mean of {len(long)}", "", *map("**{}**".format, means)]
            )
    heading = ["model", "smelt, 1 thread, ms", *RATIOS]
    note = (
        f"Means are over models of {LONG:g} ms and more on one thread. busy: one process computes "
        "all the time on the same cores. ~: other work disturbed the row."
    )
    return "\n\n".join([table(heading, lines), note, *errors])


def _long(row: Results) -> bool:
    one = row.get("alone", {}).get(OURS[1])
    return one is not None and one["median_ms"] >= LONG


def _mean(values: list[float]) -> float | None:
    return statistics.geometric_mean(values) if values else None


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


if __name__ == "__main__":
    asked = arguments(__doc__)
    chosen = asked.only or (QUICK if asked.quick else ())
    zoo = Path(asked.folder) if asked.folder else None
    if zoo is None and not chosen:
        zoo = models.zoo(names=(*models.NAMES, *models.DYNAMIC))
    made = measure(zoo, chosen, QUICKLY if asked.quick else PACE)
    report("threads", asked, made, section(made))
