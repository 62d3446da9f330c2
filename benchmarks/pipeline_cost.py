"""What the way through the compiler costs: `python -m benchmarks.pipeline_cost FOLDER [OTHER_SRC]`.

For the ONNX models of a folder: milliseconds of the graph passes and the memory plan, seconds of a
cold compilation with workers that are there already, milliseconds of a call, bytes of the exported
library, each in processes of its own, in turns with another version of smelt where the `src` of one
is given.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.report import Results, table, write

PASSES = """
import sys, time
try:
    from smelt.artifact.graph import plan_graph
except ImportError:  # an older version
    from smelt.lowering.graph import plan_graph
from smelt.frontend.source import import_model
from smelt.pipeline import optimize
mod, times = import_model(sys.argv[1]), []
for _ in range(15):
    start = time.perf_counter()
    plan_graph(optimize(mod))
    times.append(time.perf_counter() - start)
print(sorted(times)[7] * 1e3)
"""
COLD = """
import sys, time, smelt
smelt.compile(sys.argv[2])
start = time.perf_counter(); smelt.compile(sys.argv[1]); print(time.perf_counter() - start)
"""
CALL = """
import sys, time, numpy as np, smelt
model, random = smelt.compile(sys.argv[1]), np.random.default_rng(0)
x = {t.name: random.random(t.shape).astype(t.dtype) for t in model.inputs}
times = []
for _ in range(30):
    start = time.perf_counter()
    model(**x)
    times.append(time.perf_counter() - start)
print(sorted(times)[15] * 1e3)
"""
SIZE = """
import os, sys, tempfile, smelt
with tempfile.TemporaryDirectory() as folder:
    smelt.compile(sys.argv[1]).export_library(os.path.join(folder, "model.so"))
    print(sum(file.stat().st_size for file in os.scandir(folder)) / 1e6)
"""
MEASURES = {
    "graph passes": (PASSES, "{:.1f} ms", 4),
    "cold compile": (COLD, "{:.2f} s", 4),
    "call": (CALL, "{:.3f} ms", 4),
    "library": (SIZE, "{:.2f} MB", 1),
}
"""A program that prints a number, how the number is written, how often it is run."""


def timed(program: str, src: str, *paths: Path) -> float:
    """What a program prints, with a version of smelt and an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "SMELT_CACHE_DIR": cache, "PYTHONPATH": src}
        command = [sys.executable, "-c", program, *map(str, paths)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def measure(folder: Path, versions: dict[str, str]) -> Results:
    """Medians of some rounds, in which the versions take turns."""
    rows = []
    for path in sorted(folder.glob("*.onnx")):
        row: Results = {"model": path.stem}
        for what, (program, _, rounds) in MEASURES.items():
            found: dict[str, list[float]] = {name: [] for name in versions}
            for _ in range(rounds):
                for name, src in versions.items():
                    found[name].append(timed(program, src, path, folder / "mlp.onnx"))
            row[what] = {name: statistics.median(times) for name, times in found.items()}
        rows.append(row)
        print(row, flush=True)
    return {"rows": rows}


def section(results: Results) -> str:
    """The results as markdown."""
    rows = results["rows"]
    lines = []
    for row in rows:
        cells = [f.format(x) for what, (_, f, _) in MEASURES.items() for x in row[what].values()]
        lines.append([row["model"], *cells])
    heading = ["model", *[f"{what}, {name}" for what in MEASURES for name in rows[0][what]]]
    return "What the way through the compiler costs, and gives.\n\n" + table(heading, lines)


if __name__ == "__main__":
    own = str(Path(__file__).resolve().parents[1] / "src")
    given = {"before": sys.argv[2], "now": own} if len(sys.argv) > 2 else {"now": own}
    write("pipeline_cost", measure(Path(sys.argv[1]), given))
