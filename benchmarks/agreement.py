"""How far results agree with onnxruntime's: `python -m benchmarks.agreement [FOLDER ...]`.

Every model of the folders, and the networks that come with the onnx package, at one thread and
at all. Each has a process of its own. The exit code is 1 where an error is above the bound.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx

import smelt
from benchmarks import models
from benchmarks.processes import give_back, worker
from benchmarks.report import Results, table, write
from smelt.cli.peer import Peer
from smelt.cli.results import arrays, largest_error
from smelt.runtime.native import cores
from tests.models import light
from tests.models.net import Feeds

BOUND = 1e-4  # of max |a - b| / max |b|, per output


def compare(model: str, threads: int) -> Results:
    """The largest error over the outputs of a model, given as a file or as light:NAME."""
    kind, _, name = model.rpartition(":")
    if kind == "light":
        made = light.light(name)
        return {"error": _error(made, made.SerializeToString(), light.feeds_of(made, 2), threads)}
    with np.load(Path(model).with_suffix(".inputs.npz")) as content:
        return {"error": _error(model, model, dict(content), threads)}


def _error(ours: str | onnx.ModelProto, theirs: str | bytes, feeds: Feeds, threads: int) -> float:
    exe = smelt.compile(ours, options=smelt.Options(threads=threads))
    peer = Peer(theirs, threads)
    result = arrays(exe(*[feeds[tensor.name] for tensor in exe.inputs]))
    error: float = largest_error(result, peer({name: feeds[name] for name in peer.inputs}))
    return error


def listed(folders: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """What each model is called here, and how a worker finds it."""
    for folder in folders:
        for path in sorted(folder.glob("*.onnx")):
            if not path.stem.endswith("_int8") and path.with_suffix(".inputs.npz").exists():
                yield path.stem, str(path)
    for name in light.NAMES:
        yield f"light {name}", f"light:{name}"


def measure(folders: Sequence[Path], say: Callable[[str], object] = print) -> Results:
    """The errors of all models at one thread and at all."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="smelt-") as cache:
        os.environ.setdefault("SMELT_CACHE_DIR", cache)
        for name, model in listed(folders):
            for threads in sorted({1, cores()}):
                found = worker("benchmarks.agreement", model, str(threads), threads=threads)
                rows.append({"model": name, "threads": threads, **found})
                say(f"{name} {threads}: {found['error']}")
    return {"rows": rows}


def failed(results: Results) -> list[str]:
    """The rows above the bound, or without a figure."""
    return [
        f"{r['model']} {r['threads']}"
        for r in results["rows"]
        if not isinstance(r["error"], float) or not r["error"] <= BOUND
    ]


def section(results: Results) -> str:
    """The results as markdown."""
    figures = [r["error"] for r in results["rows"] if isinstance(r["error"], float)]
    rows = [
        (r["model"], r["threads"], f"{r['error']:.1e}" if r["error"] in figures else r["error"])
        for r in results["rows"]
    ]
    note = f"max abs(a - b) / max abs(b), the largest of a model's outputs; bound: {BOUND:g}."
    note += f" The largest of all: {max(figures, default=0.0):.1e}."
    return table(["model", "threads", "error"], rows) + "\n\n" + note


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        give_back(compare(sys.argv[2], int(sys.argv[3])))
    else:
        found = measure([Path(argument) for argument in sys.argv[1:]] or [models.zoo()])
        write("agreement", found)
        print(section(found))
        sys.exit(bool(failed(found)))
