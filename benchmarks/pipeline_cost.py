"""What the way through the compiler costs: `python -m benchmarks.pipeline_cost FOLDER [OTHER_SRC]`.

For the ONNX models of a folder: milliseconds of the graph passes and the memory plan, seconds of a
cold compilation with workers that are there already, each in processes of its own, in turns with
another version of smelt where the `src` of one is given.
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
ROUNDS = 7


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
        for what, program, others in (
            ("passes_ms", PASSES, ()),
            ("cold_s", COLD, (folder / "mlp.onnx",)),
        ):
            found: dict[str, list[float]] = {name: [] for name in versions}
            for _ in range(ROUNDS):
                for name, src in versions.items():
                    found[name].append(timed(program, src, path, *others))
            row[what] = {name: statistics.median(times) for name, times in found.items()}
        rows.append(row)
        print(row, flush=True)
    return {"rows": rows}


def section(results: Results) -> str:
    """The results as markdown."""
    lines = []
    for row in results["rows"]:
        passes, cold = row["passes_ms"], row["cold_s"]
        lines.append([row["model"], *[f"{ms:.1f} ms" for ms in passes.values()],
                      *[f"{s:.2f} s" for s in cold.values()]])  # fmt: skip
    names = list(results["rows"][0]["passes_ms"])
    heading = ["model", *[f"passes, {n}" for n in names], *[f"cold compile, {n}" for n in names]]
    return "Graph passes with the memory plan, and cold compilation.\n\n" + table(heading, lines)


if __name__ == "__main__":
    own = str(Path(__file__).resolve().parents[1] / "src")
    given = {"before": sys.argv[2], "now": own} if len(sys.argv) > 2 else {"now": own}
    write("pipeline_cost", measure(Path(sys.argv[1]), given))
