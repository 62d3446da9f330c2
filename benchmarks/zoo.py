"""Times smelt beside other runtimes on the zoo's ONNX models: `python -m benchmarks.zoo [FOLDER]`.

onnxruntime, OpenVINO and LiteRT, each in an environment and a process of its own; all take turns.
LiteRT reads what onnx2tf makes of the models.
"""

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import models
from benchmarks.options import arguments, report
from benchmarks.peers import PEERS, QUICKLY, REFERENCE, SMELT, Pace, Side, beside, versions
from benchmarks.report import Results, table

THREADS = (1, 2)
PACE = Pace(3.0)
NOISY = 0.15  # cores of foreign work, from which on a row is marked
QUICK = ("mlp", "dscnn_kws")
RATIOS = ("ratio", "best_ratio")
TITLES = {"onnxruntime": "onnxruntime", "openvino": "OpenVINO", "litert": "LiteRT"}


def compare(
    model: Path, inputs: Path, threads: int, pace: Pace = PACE, peers: Sequence[str] = PEERS
) -> Results:
    """Every runtime's median, and the ratios of smelt's to those of the others.

    A peer that fails has a row {"error": why}; where smelt fails, that is the whole result.
    """
    sides = [Side(SMELT, threads), *[Side(name, threads, name) for name in peers]]
    with beside(sides) as workers:
        told = workers.load(model, inputs)
        times = workers.time(pace)
        failed = workers.failed
    if SMELT in failed:
        return {"error": failed[SMELT]}
    found: Results = {"compile_s": told[SMELT]["load_s"], "error": told[SMELT]["difference"]}
    found |= times | {name: {"error": why} for name, why in failed.items()}
    return found | ratios(found, peers)


def ratios(row: Results, peers: Sequence[str] = PEERS) -> Results:
    """smelt's median over onnxruntime's, and over the best peer's, as far as they have one."""
    medians = {name: row[name]["median_ms"] for name in peers if "median_ms" in row.get(name, ())}
    ours, found = row[SMELT]["median_ms"], Results()
    if medians:
        best = min(medians, key=lambda name: medians[name])
        found = {"best": best, "best_ratio": ours / medians[best]}
    return found | ({"ratio": ours / medians[REFERENCE]} if REFERENCE in medians else {})


def said(row: Results) -> str:
    """A row in one line, while the others are measured."""
    if SMELT not in row:
        return str(row["error"])
    return f"{row['best_ratio']:.2f} of {row['best']}" if "best" in row else "no peer"


def measure(
    folder: Path, pace: Pace = PACE, names: Sequence[str] = (), say: Callable[[str], object] = print
) -> Results:
    """All models of a folder that have inputs beside them, or those that are named."""
    rows = []
    for path in sorted(folder.glob("*.onnx")):
        inputs = path.with_suffix(".inputs.npz")
        other = path.stem.endswith("_int8") or path.stem in models.DYNAMIC
        skipped = path.stem not in names if names else other
        if skipped or not inputs.exists():
            continue
        for threads in THREADS:
            row = compare(path, inputs, threads, pace)
            rows.append({"model": path.stem, "threads": threads, **row})
            say(f"{path.stem} {threads}: {said(row)}")
    return {"peers": versions(), "rows": rows}


def section(results: Results) -> str:
    """The results as markdown."""
    lines: list[list[str]] = []
    rows = results["rows"]
    for r in rows:
        name = f"{r['model']}, {r['threads']}"
        if SMELT not in r:
            lines.append([name, "–", "–", "–", r["error"], "–", "–", "–"])
            continue
        noise = " ~" if r["foreign_cores"] > NOISY else ""
        first, *others = [median(r, name) for name in (SMELT, *PEERS)]
        against, best = [f"{r[k]:.2f}{noise}" if k in r else "–" for k in RATIOS]
        lines.append([name, first, others[0], against, f"{r['error']:.1e}", *others[1:], best])
    for threads in sorted({r["threads"] for r in rows}):
        known = [[r[k] for r in rows if r["threads"] == threads and k in r] for k in RATIOS]
        means = [f"**{statistics.geometric_mean(k):.2f}**" if k else "" for k in known]
        name = f"geometric mean of {len(known[0])}, {threads}"
        lines.append([name, "", "", means[0], "", "", "", means[1]])
    names = [f"{TITLES[name]}, ms" for name in PEERS]
    heading = ["model, threads", "smelt, ms", names[0], "ratio", "error", *names[1:], "to the best"]
    note = (
        "Ratio: smelt's time over onnxruntime's; to the best: over the fastest other runtime's. "
        "Error: max abs(a - b) / max abs(b) over the outputs. ~: other work disturbed the row."
    )
    peers = [f"{TITLES[name]} {version}" for name, version in results.get("peers", {}).items()]
    known_peers = [f"Other runtimes: {', '.join(peers)}."] if peers else []
    return "\n\n".join([table(heading, lines), note, *known_peers, *missing(results)])


def median(row: Results, name: str) -> str:
    """What a runtime took, for the table."""
    cell = row.get(name, {})
    return f"{cell['median_ms']:.3f}" if "median_ms" in cell else "–"


def missing(results: Results) -> list[str]:
    """What peers lack, by name: once for each reason."""
    where: dict[tuple[str, str], list[str]] = {}
    for row in results["rows"]:
        for name in PEERS:
            why = row.get(name, {}).get("error") if SMELT in row else None
            if why:
                where.setdefault((name, why), []).append(row["model"])
    return [
        f"{TITLES[name]} ({', '.join(dict.fromkeys(found))}): {why}."
        for (name, why), found in where.items()
    ]


if __name__ == "__main__":
    asked = arguments(__doc__)
    names = asked.only or (QUICK if asked.quick else ())
    folder = Path(asked.folder) if asked.folder else models.zoo(names=names or models.NAMES)
    found = measure(folder, QUICKLY if asked.quick else PACE, names)
    report("zoo", asked, found, section(found))
