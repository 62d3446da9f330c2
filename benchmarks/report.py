"""Keeps what was measured: results/NAME.json for programs, RESULTS.md for people."""

import importlib
import json
import os
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from smelt.codegen.llvm import resolve
from smelt.runtime.native import cores
from smelt.target import Target

Results = dict[str, Any]

HERE = Path(__file__).resolve().parent
# In the order of the page; each module has `section(results)`.
SECTIONS = {
    "zoo": "Models, against other runtimes",
    "real_models": "More models, against other runtimes",
    "operators": "Single operators, against onnxruntime",
    "dynamic": "Symbolic sizes, against builds for one size",
    "symbolic": "Symbolic image sizes, against builds for one size",
    "quantized": "Quantized models, against float32 and onnxruntime",
    "calibration": "Quantizing models: time, and noise",
    "weight_only": "Weights of few bits, against float32 and onnxruntime",
    "control": "Models that decide while they run, against onnxruntime",
    "state": "Caches, against onnxruntime",
    "threads": "Two threads against one, alone and beside a busy process",
    "agreement": "Agreement with onnxruntime",
    "choices": "Schedules that are chosen for the zoo",
    "kernels": "Kernels, as shares of the machine's limits",
    "regret": "Chosen schedules, beside others of their spaces",
    "tune": "Tuned schedules, and how they are found",
    "devices": "Other machines",
    "micro": "Microcontrollers",
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
    """What the processor calls itself, and LLVM's name of its generation."""
    info, name = Path("/proc/cpuinfo"), platform.processor() or platform.machine()
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
    return f"{name} ({resolve(Target('llvm -mcpu=native')).attrs['mcpu']})"


def write(name: str, results: Results, whole: bool = True) -> None:
    """Keep the results of one benchmark, and write the page anew.

    whole  whether they replace all earlier ones; else only those of the same cases, where the
           machine is the same
    """
    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    path, made = folder / f"{name}.json", {"machine": machine(), **results}
    if not whole and path.exists():
        earlier = json.loads(path.read_text(encoding="utf-8"))
        if earlier["machine"] == made["machine"]:
            made = merged(earlier, made)
    _replace(path, json.dumps(made, indent=1))
    _replace(HERE / "RESULTS.md", page(folder))


def merged(earlier: Results, new: Results) -> Results:
    """Earlier results, in whose lists entries of the same names and numbers are replaced."""
    found = {**earlier, **new}
    for key, entries in new.items():
        before = earlier.get(key)
        if isinstance(entries, list) and isinstance(before, list):
            known = [_identity(e) for e in entries]
            found[key] = [e for e in before if _identity(e) not in known] + entries
    return found


def _identity(entry: Results) -> Results:
    return {k: v for k, v in entry.items() if isinstance(v, str | int) and k not in _FOUND}


_FOUND = ("best", "error")
"""Texts that say what came of a case, not which it is."""


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
