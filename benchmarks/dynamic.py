"""Times one build for every size beside builds for one size each: `python -m benchmarks.dynamic`.

Both run in turns on the same inputs. The build with symbolic sizes has variants for sizes that are
given as likely; for the others it has the general code.
"""

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import smelt
from benchmarks import models
from benchmarks.processes import Foreign, give_back, worker
from benchmarks.report import Results, table, write
from benchmarks.zoo import NOISY
from smelt.cli.results import Array, arrays, largest_error
from smelt.cli.timing import interleave, summary

THREADS = 2
SECONDS = 6.0  # for both together, at each size
SIZES = {
    # model: which extent of every input is the size, its likely values, the others
    "resnet18_dynamic": (0, (1, 8), (2, 3, 5, 16)),
    "bert_base_dynamic": (1, (16, 128), (17, 48, 100, 256)),
}
LIMITS = {True: 1.05, False: 1.25}
"""What the time at likely sizes, and at others, may be of the static build's."""


def resized(value: Array, axis: int, size: int) -> Array:
    """An input with another extent, its values repeated."""
    made: Array = np.take(value, np.arange(size) % value.shape[axis], axis)
    return made


def time_model(path: Path, axis: int, likely: Sequence[int], others: Sequence[int]) -> Results:
    """The medians at every size."""
    options = smelt.Options(threads=THREADS)
    with np.load(path.with_suffix(".inputs.npz")) as content:
        feeds = {k: np.take(v, [0], 1 - axis) if axis else v for k, v in content.items()}

    def shapes(size: int | smelt.Size) -> dict[str, tuple[int | smelt.Size, ...]]:
        return {
            k: tuple([size if d == axis else extent for d, extent in enumerate(v.shape)])
            for k, v in feeds.items()
        }

    start = time.perf_counter()
    size = smelt.Size("size", max=max(*likely, *others), likely=tuple(likely))
    exe = smelt.compile(str(path), shapes=shapes(size), options=options)
    compile_s = time.perf_counter() - start
    rows = []
    for n in sorted({*likely, *others}):
        static = smelt.compile(str(path), shapes=shapes(n), options=options)
        inputs = [resized(feeds[t.name], axis, n) for t in exe.inputs]
        error = largest_error(arrays(exe(*inputs)), arrays(static(*inputs)))
        both = exe.bind(inputs), static.bind(inputs)
        foreign = Foreign()
        ours, theirs = (summary(taken) for taken in interleave(both, SECONDS))
        rows.append(
            {
                "size": n,
                "likely": n in likely,
                "dynamic": ours,
                "static": theirs,
                "ratio": ours["median_ms"] / theirs["median_ms"],
                "error": error,
                "foreign_cores": foreign.cores(),
            }
        )
    weights = exe.memory.weights, static.memory.weights
    return {"compile_s": compile_s, "rows": rows, "weights_bytes": weights}


def measure(folder: Path, say: Callable[[str], object] = print) -> Results:
    """All models."""
    found = {}
    for name in SIZES:
        found[name] = worker("benchmarks.dynamic", str(folder / f"{name}.onnx"), threads=THREADS)
        for r in found[name].get("rows", ()):
            say(f"{name} {r['size']}{' likely' * r['likely']}: {r['ratio']:.3f}")
    return {"models": found}


def section(results: Results) -> str:
    """The results as markdown."""
    lines = []
    for name, found in results["models"].items():
        model = name.removesuffix("_dynamic")
        if "rows" not in found:
            lines.append([model, "–", "–", "–", found["error"]])
            continue
        for r in found["rows"]:
            noise = " ~" if r["foreign_cores"] > NOISY else ""
            medians = [f"{r[which]['median_ms']:.2f}" for which in ("dynamic", "static")]
            kind = "likely" if r["likely"] else ""
            ratio = f"{r['ratio']:.2f}{noise}"
            lines.append([f"{model}, {r['size']}", kind, *medians, ratio, f"{r['error']:.0e}"])
        for likely, limit in LIMITS.items():
            ratios = [r["ratio"] for r in found["rows"] if r["likely"] == likely]
            label = f"{model}, geometric mean, {'likely' if likely else 'others'}"
            mean = statistics.geometric_mean(ratios)
            lines.append([label, "", "", "", f"**{mean:.2f}** (at most {limit})", ""])
        ours, static = found["weights_bytes"]
        label = f"{model}, constants of the dynamic build against those of a static one"
        lines.append([label, "", "", "", f"{ours / static:.2f}", ""])
    heading = ["model, size", "", "dynamic, ms", "static, ms", "ratio", "error"]
    note = (
        "Size: images of a batch, or tokens. A static build is compiled for the size alone. "
        "~: other work disturbed the row."
    )
    return table(heading, lines) + "\n\n" + note


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        give_back(time_model(Path(sys.argv[2]), *SIZES[Path(sys.argv[2]).stem]))
    else:
        made = measure(Path(sys.argv[1]) if sys.argv[1:] else models.zoo(names=models.DYNAMIC))
        write("dynamic", made)
        print(section(made))
