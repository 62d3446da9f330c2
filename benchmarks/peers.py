"""Runtimes side by side on one model, each a process in an environment of its own.

The environments stand in build/peers/NAME and are made when they are first asked for:
`python -m benchmarks.peers` makes all of them.
"""

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.processes import ROOT, Failed, Foreign, Talk
from benchmarks.report import Results
from smelt.cli.results import Array, largest_error
from smelt.cli.timing import summary

SMELT, REFERENCE = "smelt", "onnxruntime"
PEERS = (REFERENCE, "openvino", "litert")
CONVERTER = "onnx2tf"  # from ONNX to what litert reads
PACKAGES = {
    REFERENCE: ("onnxruntime",),
    "openvino": ("openvino",),
    "litert": ("ai-edge-litert",),
    CONVERTER: (
        *("onnx2tf", "tensorflow-cpu", "tf_keras", "onnxruntime", "onnx_graphsurgeon", "sng4onnx"),
        *("psutil", "ai-edge-litert", "flatbuffers"),
    ),
}
ENVIRONMENTS = ROOT / "build" / "peers"
SAME = 1e-3  # of max |a - b| / max |b|: a runtime whose results are further off is not timed


@dataclass(frozen=True)
class Pace:
    """How long to measure: seconds of each side together, in so many rounds."""

    seconds: float
    rounds: int = 7


QUICKLY = Pace(0.2, 2)


@dataclass(frozen=True)
class Side:
    """A runtime with so many threads, on some cores; `sizes` says which extents are symbolic.

    name   what it is called in the results
    cores  0: as many as threads
    """

    name: str
    threads: int
    runtime: str = SMELT
    sizes: Mapping[str, Any] = field(default_factory=dict, hash=False)
    cores: int = 0


@cache
def python(name: str, folder: Path = ENVIRONMENTS) -> str:
    """The interpreter of an environment with a runtime. Raises Failed where pip cannot make it."""
    if name == SMELT:
        return sys.executable
    made, whole = folder / name / "bin" / "python", folder / name / "whole"
    if not whole.exists():
        shutil.rmtree(folder / name, ignore_errors=True)
        packages = ("numpy", *PACKAGES[name])
        install = [str(made), "-m", "pip", "install", "--quiet", *packages]
        for command in ([sys.executable, "-m", "venv", str(folder / name)], install):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                wrong = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
                reason = (wrong or [f"{command[2]} ended with {done.returncode}"])[-1]
                raise Failed(f"{name} cannot be installed: {reason[:200]}")
        whole.touch()
    return str(made)


def talk(name: str, threads: int, cores: int = 0) -> Talk:
    """A worker of a runtime. Raises Failed where its environment cannot be made."""
    paths = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    command = [python(name), "-W", "ignore", "-m", "benchmarks.peer_worker", name]
    return Talk(command, threads, paths, cores or threads)


def versions() -> dict[str, str]:
    """The version of every peer that is installed."""
    found = {}
    for name in PEERS:
        with contextlib.suppress(Failed):
            program = f"import importlib.metadata as m; print(m.version({PACKAGES[name][0]!r}))"
            found[name] = subprocess.check_output([python(name), "-c", program], text=True).strip()
    return found


def converted(model: Path, inputs: Path) -> Path:
    """A model as TFLite, kept beside the environments. Raises Failed where it cannot be made."""
    made = ENVIRONMENTS / "tflite" / f"{model.stem}.tflite"
    if not made.exists() or made.stat().st_mtime < model.stat().st_mtime:
        made.parent.mkdir(parents=True, exist_ok=True)
        files = {"model": str(model), "inputs": str(inputs), "result": str(made)}
        with talk(CONVERTER, 1) as converter:
            converter.ask({"convert": files})
    return made


def loaded(side: Side, worker: Talk, model: Path, inputs: Path, folder: Path) -> Results:
    """Have a worker load a model; how long it took, and the results. Raises Failed."""
    written = folder / f"{side.name}.npz"
    used = converted(model, inputs) if side.runtime == "litert" else model
    files = {"model": str(used), "inputs": str(inputs), "results": str(written)}
    told: Results = worker.ask({"load": {**files, "threads": side.threads, **side.sizes}})
    with np.load(written) as content:
        return {**told, "results": list(content.values())}


def channels_first(value: Array, shape: tuple[int, ...]) -> Array:
    """A result with channels last in ONNX's order, where it has another shape than ONNX's."""
    return value if value.shape == shape or value.ndim < 3 else np.moveaxis(value, -1, 1)


class Beside:
    """Workers that stay, so that many models meet the same processes."""

    def __init__(self, sides: Sequence[Side]) -> None:
        """Start a worker for each side; those that cannot be started say why in every row."""
        self.failed: dict[str, str] = {}
        self.workers: dict[Side, Talk] = {}
        self._stack = contextlib.ExitStack()
        for side in sides:
            try:
                worker = talk(side.runtime, side.threads, side.cores)
                self.workers[side] = self._stack.enter_context(worker)
            except Failed as error:
                self.failed[side.name] = str(error)

    def close(self) -> None:
        """End the workers."""
        self._stack.close()

    def load(self, model: Path, inputs: Path) -> dict[Side, Results]:
        """Load a model in every worker: a row of each, {"error"} where it fails or is wrong.

        The results have to be those of onnxruntime, or else of the first that has any.
        """
        rows: dict[Side, Results] = {}
        results: dict[Side, Any] = {}
        with tempfile.TemporaryDirectory(prefix="smelt-") as folder:
            for side, worker in self.workers.items():
                try:
                    row = loaded(side, worker, model, inputs, Path(folder))
                    results[side] = row.pop("results")
                except Failed as error:
                    row = {"error": str(error)}
                rows[side] = row
        known = [s for s in results if s.runtime == REFERENCE] or list(results)
        for side, arrays in results.items():
            wanted = results[known[0]]
            if side.runtime == "litert":
                arrays = [channels_first(a, b.shape) for a, b in zip(arrays, wanted, strict=True)]
            rows[side]["difference"] = off = largest_error(arrays, wanted)
            if not off <= SAME:
                rows[side]["error"] = f"its results are off by {off:.1e}"
        return rows

    def time(self, sides: Sequence[Side], pace: Pace, meant: Collection[int] = ()) -> Results:
        """What each side's calls take, in turns A B A B …

        meant  ids of processes whose work is part of the measurement
        """
        taken: dict[Side, list[float]] = {side: [] for side in sides}
        foreign = Foreign([*meant, *[worker.pid for worker in self.workers.values()]])
        for _ in range(pace.rounds):
            for side, kept in taken.items():
                kept += self.workers[side].ask({"seconds": pace.seconds / pace.rounds})
        found: Results = {side.name: summary(kept) for side, kept in taken.items()}
        return {**found, "foreign_cores": foreign.cores()}


@contextlib.contextmanager
def beside(sides: Sequence[Side]) -> Iterator[Beside]:
    """Workers for some sides, that end with the block."""
    made = Beside(sides)
    try:
        yield made
    finally:
        made.close()
