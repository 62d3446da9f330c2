"""Keeps what was measured: results/NAME.json for programs, RESULTS.md for people."""

import importlib
import json
import os
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from smelt.runtime.native import cores

Results = dict[str, Any]

HERE = Path(__file__).resolve().parent
# In the order of the page; each module has `section(results)`.
SECTIONS = {
    "zoo": "Models, against other runtimes",
    "real_models": "More models, against other runtimes",
    "dynamic": "Symbolic sizes, against builds for one size",
    "symbolic": "Symbolic image sizes, against builds for one size",
    "threads": "Two threads against one, alone and beside a busy process",
    "agreement": "Agreement with onnxruntime",
    "kernels": "Kernels, as shares of the machine's limits",
    "regret": "Chosen schedules, beside others of their spaces",
    "intrinsics": "Instructions against plain code",
    "tensor_level": "Schedules by hand, and the scheduler's speed",
    "graph_level": "Relay programs: passes, patterns, levels",
    "compile_time": "Compile time, import and call",
    "pipeline_cost": "The way through the compiler, beside another version",
    "peak": "The machine's limits",
}


def table(heading: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A markdown table; every column but the first is set to the right."""
    lines = ["| " + " | ".join(heading) + " |", "|---|" + "---:|" * (len(heading) - 1)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def machine() -> dict[str, str]:
    """What the figures depend on."""
    found = {"cpu": _cpu(), "cores": str(cores()), "python": platform.python_version()}
    for package in ("smelt", "llvmlite", "onnxruntime", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def write(name: str, results: Results) -> None:
    """Keep the results of one benchmark, and write the page anew."""
    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    _replace(folder / f"{name}.json", json.dumps({"machine": machine(), **results}, indent=1))
    _replace(HERE / "RESULTS.md", page(folder))


def page(folder: Path) -> str:
    """The page of all results in a folder."""
    parts = [
        "# Results",
        "Written by `make bench`. Medians, measured in turns with what they are divided by: ratios "
        "carry over to other machines, absolute figures do not.",
    ]
    for name, title in SECTIONS.items():
        path = folder / f"{name}.json"
        if path.exists():
            results = json.loads(path.read_text(encoding="utf-8"))
            where = ", ".join(f"{key} {value}" for key, value in results["machine"].items())
            body = importlib.import_module(f"benchmarks.{name}").section(results)
            parts += [f"## {title}", body, f"Measured on: {where}."]
    return "\n\n".join(parts) + "\n"


def _replace(path: Path, text: str) -> None:
    partial = path.with_suffix(path.suffix + ".partial")
    partial.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    os.replace(partial, path)
