"""Times smelt beside onnxruntime on a folder of ONNX models: `python -m benchmarks.zoo [FOLDER]`.

Every (model, threads) has a process of its own, in which both run in turns.
"""

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

import smelt
from benchmarks import models
from benchmarks.processes import Foreign, give_back, worker
from benchmarks.report import Results, table, write
from smelt.cli.peer import Peer
from smelt.cli.results import Array, arrays, largest_error
from smelt.cli.timing import interleave, summary
from smelt.runtime import Executable

THREADS = (1, 2)
SECONDS = 6.0  # for both together
NOISY = 0.15  # cores of foreign work, from which on a row is marked


def time_model(path: Path, threads: int) -> Results:
    """Both medians, their ratio, and how far the results agree."""
    with np.load(path.with_suffix(".inputs.npz")) as content:
        feeds = dict(content)
    start = time.perf_counter()
    exe = smelt.compile(str(path), options=smelt.Options(threads=threads))
    compile_s = time.perf_counter() - start
    return {"compile_s": compile_s, **beside(exe, Peer(str(path), threads), feeds)}


def beside(
    exe: Executable, peer: Peer, feeds: Mapping[str, Array], seconds: float = SECONDS
) -> Results:
    """A compiled model and the peer's in turns for some seconds."""
    inputs = [feeds[tensor.name] for tensor in exe.inputs]
    feeds = {name: feeds[name] for name in peer.inputs}
    error = largest_error(arrays(exe(*inputs)), peer(feeds))
    foreign = Foreign()
    ours, theirs = interleave([lambda: exe(*inputs), lambda: peer(feeds)], seconds)
    a, b = summary(ours), summary(theirs)
    return {
        "error": error,
        "smelt": a,
        "onnxruntime": b,
        "ratio": a["median_ms"] / b["median_ms"],
        "foreign_cores": foreign.cores(),
        "planned_bytes": exe.memory.workspace,
        "live_bytes": exe.memory.live,
    }


def measure(folder: Path, say: Callable[[str], object] = print) -> Results:
    """All models of a folder that have inputs beside them."""
    rows = []
    for path in sorted(folder.glob("*.onnx")):
        if path.stem.endswith("_int8") or not path.with_suffix(".inputs.npz").exists():
            continue
        for threads in THREADS:
            row = worker("benchmarks.zoo", str(path), str(threads), threads=threads)
            rows.append({"model": path.stem, "threads": threads, **row})
            say(f"{path.stem} {threads}: {row.get('error') if len(row) == 1 else row['ratio']}")
    return {"rows": rows}


def section(results: Results) -> str:
    """The results as markdown."""
    lines: list[list[str]] = []
    ratios: dict[int, list[float]] = {}
    for r in results["rows"]:
        name = f"{r['model']}, {r['threads']}"
        if "ratio" not in r:
            lines.append([name, "–", "–", "–", r["error"]])
            continue
        ratios.setdefault(r["threads"], []).append(r["ratio"])
        medians = [f"{r[who]['median_ms']:.3f}" for who in ("smelt", "onnxruntime")]
        noise = " ~" if r["foreign_cores"] > NOISY else ""
        lines.append([name, *medians, f"{r['ratio']:.2f}{noise}", f"{r['error']:.1e}"])
    for threads, values in sorted(ratios.items()):
        mean = statistics.geometric_mean(values)
        name = f"geometric mean of {len(values)}, {threads}"
        lines.append([name, "", "", f"**{mean:.2f}**", ""])
    heading = ["model, threads", "smelt, ms", "onnxruntime, ms", "ratio", "error"]
    note = "Error: max abs(a - b) / max abs(b) over the outputs. ~: other work disturbed the row."
    return table(heading, lines) + "\n\n" + note


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        give_back(time_model(Path(sys.argv[2]), int(sys.argv[3])))
    else:
        found = measure(Path(sys.argv[1]) if sys.argv[1:] else models.zoo())
        write("zoo", found)
        print(section(found))
