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
    "tvm": (
        "apache-tvm==0.27.*",
        "apache-tvm-ffi==0.1.14.post0",
        "onnx",
        "xgboost",
        "psutil",
        "scipy",
        "tornado",
        "cloudpickle",
    ),
}
CONVERTED = 150 << 20  # bytes of a model that is converted
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
        if model.stat().st_size > CONVERTED:
            raise Failed(f"{CONVERTER} takes more than six minutes, and 15 GB, for so many weights")
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


def difference(side: Side, ours: Sequence[Array], wanted: Sequence[Array]) -> float:
    """How far a side's results are from others: max |a - b| / max |b|.

    A converted model has its channels last, where it gives images.
    """
    if len(ours) != len(wanted):
        return float("inf")
    if side.runtime == "litert":
        pairs = zip(ours, wanted, strict=True)
        ours = [a if a.shape == b.shape or a.ndim < 3 else np.moveaxis(a, -1, 1) for a, b in pairs]
    off: float = largest_error(ours, wanted)
    return off


class Beside:
    """Workers that stay, so that many models meet the same processes.

    failed  why a side is not measured, by its name: for the model that was loaded last
    """

    def __init__(self, sides: Sequence[Side]) -> None:
        """Start a worker for each side, as far as its environment can be made."""
        self.failed: dict[str, str] = {}
        self._workers: dict[Side, Talk] = {}
        self._loaded: list[Side] = []
        self._stack = contextlib.ExitStack()
        for side in sides:
            try:
                worker = talk(side.runtime, side.threads, side.cores)
                self._workers[side] = self._stack.enter_context(worker)
            except Failed as error:
                self.failed[side.name] = str(error)
        self._absent = dict(self.failed)

    def close(self) -> None:
        """End the workers."""
        self._stack.close()

    def load(self, model: Path, inputs: Path) -> dict[str, Results]:
        """Load a model in every worker: what the sides that can be measured tell, by name.

        The results have to be those of onnxruntime, or else of the first that has any.
        """
        self.failed, self._loaded = dict(self._absent), []
        told: dict[Side, Results] = {}
        with tempfile.TemporaryDirectory(prefix="smelt-") as folder:
            for side, worker in self._workers.items():
                try:
                    told[side] = loaded(side, worker, model, inputs, Path(folder))
                except Failed as error:
                    self.failed[side.name] = str(error)
        results = {side: found.pop("results") for side, found in told.items()}
        known = [s for s in results if s.runtime == REFERENCE] or list(results)
        for side, arrays in results.items():
            off = difference(side, arrays, results[known[0]])
            told[side]["difference"] = off
            if off <= SAME:
                self._loaded.append(side)
            else:
                self.failed[side.name] = f"its results are off by {off:.1e}"
        return {side.name: told[side] for side in self._loaded}

    def time(self, pace: Pace, meant: Collection[int] = ()) -> Results:
        """What calls of each loaded side take, in turns A B A B …; those that fail are left out.

        meant  ids of processes whose work is part of the measurement
        """
        taken: dict[Side, list[float]] = {side: [] for side in self._loaded}
        foreign = Foreign([*meant, *[self._workers[side].pid for side in taken]])
        for _ in range(pace.rounds):
            for side in list(taken):
                try:
                    question = {"seconds": pace.seconds / pace.rounds}
                    taken[side] += self._workers[side].ask(question)
                except Failed as error:
                    self.failed[side.name] = str(error)
                    del taken[side]
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


if __name__ == "__main__":
    for name in PACKAGES:
        try:
            print(python(name))
        except Failed as error:
            print(error)
