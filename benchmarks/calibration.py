"""Times calibration, and how far quantized models are off: `python -m benchmarks.calibration`.

128 samples of a model of the zoo run by itself, and as calibration runs them, in turns in one
process; the samples are smooth noise. Then what each way of finding ranges does to the results.
"""

import sys
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

import smelt
from benchmarks.models import zoo
from benchmarks.options import arguments, report
from benchmarks.processes import Foreign, give_back, worker
from benchmarks.report import Results, table
from benchmarks.zoo import NOISY
from smelt.frontend.source import import_model
from smelt.ir.module import IRModule
from smelt.quantization import Samples, prepare
from smelt.quantization.observe import Watch, observe
from smelt.quantization.points import find_points
from smelt.quantization.ranges import METHODS, WITHOUT_HISTOGRAM
from smelt.quantization.run import sources
from smelt.quantization.weights import channel_of_operand
from smelt.runtime import Executable

MODELS = ("resnet18", "resnet50", "mobilenet_v2", "squeezenet1_1")
QUICK = ("squeezenet1_1",)
THREADS = (1, 2)
SAMPLES, ROUNDS = 128, 5


def pictures(shape: Sequence[int], count: int) -> np.ndarray:
    """Noise whose neighbours are related."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((count, *shape)).astype("float32")
    for axis in (-1, -2):
        for _ in range(3):
            noise = (noise + np.roll(noise, 1, axis)) / np.float32(np.sqrt(2))
    return np.asarray(noise / noise.std())


def time_model(source: Path, threads: int, rounds: int) -> Results:
    """Seconds of running all samples, and of calibrating with them, and what the latter gives."""
    compiled = partial(smelt.compile, threads=threads)
    mod = prepare(import_model(str(source)))
    floats = compiled(mod)
    (info,) = floats.inputs
    data = pictures([int(n) for n in info.shape], SAMPLES)
    samples = Samples(data, [info])
    points = find_points(mod["main"])
    channels = {v.x: channel_of_operand(v) for v in points.layers.values()}
    ready: dict[bool, Executable] = {}

    def compile_once(histogram: bool, module: IRModule) -> Executable:
        if histogram not in ready:
            ready[histogram] = compiled(module)
        return ready[histogram]

    def calibrate(histogram: bool) -> None:
        watch = Watch(sources(points), histogram, channels)
        observe(mod, watch, samples, partial(compile_once, histogram))

    def run() -> None:
        for sample in samples:
            floats(sample["x"] if "x" in sample else next(iter(sample.values())))

    sides: dict[str, Callable[[], None]] = {
        "run": run,
        "ranges": partial(calibrate, False),
        "histograms": partial(calibrate, True),
    }
    foreign = Foreign()
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds + 1):
        for name, call in sides.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    found: Results = {n: median(s[1:]) for n, s in seconds.items()}
    return found | {"foreign_cores": foreign.cores()}


def noise_of(source: Path) -> Results:
    """How far results are off, by method, in percent."""
    mod = import_model(str(source))
    (info,) = smelt.compile(mod).inputs
    data = pictures([int(n) for n in info.shape], 32)
    found: Results = {}
    for method in METHODS:
        made = smelt.quantize(mod, data, method=method).report
        found[method] = made.distance
    return found


def measure(
    folder: Path, names: Collection[str] = MODELS, quick: bool = False,
    say: Callable[[str], object] = print,
) -> Results:  # fmt: skip
    """Some models, by default all."""
    rows, noise = [], []
    for name in names:
        source = zoo(folder, [name]) / f"{name}.onnx"
        for threads in THREADS[: 1 if quick else None]:
            given = ("time", str(source), str(threads), "1" if quick else str(ROUNDS))
            row = worker("benchmarks.calibration", name, *given, threads=threads)
            rows.append({"model": name, "threads": threads, **row})
            say(f"{name} {threads}: {row}")
        row = worker("benchmarks.calibration", name, "noise", str(source), threads=2)
        noise.append({"model": name, **row})
        say(f"{name}: {row}")
    return {"rows": rows, "noise": noise}


def section(results: Results) -> str:
    """The results as markdown."""
    lines, errors = [], []
    for r in results["rows"]:
        where = f"{r['model']}, {r['threads']}"
        if "run" not in r:
            errors.append(f"{where}: {r['error']}.")
            continue
        mark = " ~" if r["foreign_cores"] > NOISY else ""
        lines.append([where + mark, f"{r['run']:.2f}", f"{r['ranges'] / r['run']:.2f}",
                      f"{r['histograms'] / r['run']:.2f}"])  # fmt: skip
    heads = [
        "model, threads",
        "128 samples, s",
        *(f"calibration: {k}" for k in ("ranges", "histograms")),
    ]
    note = (
        "Calibration as a multiple of the time of running the samples; compilation is not counted. "
        f"Ranges: {', '.join(WITHOUT_HISTOGRAM)}; histograms: the others. "
        "~: other work disturbed the row."
    )
    rows = [
        [r["model"], *(f"{r[m]:.2f} %" for m in METHODS)] for r in results["noise"] if "mse" in r
    ]
    more = (
        "The distance of the results from those in floats (norm over norm) with smooth noise as "
        "samples, by the way of finding ranges. The weights are random, which adds noise from "
        "layer to layer: trained models are nearer."
    )
    return "\n\n".join([table(heads, lines), note, table(["model", *METHODS], rows), more, *errors])


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        _, what, path, *rest = sys.argv[2:]
        give_back(time_model(Path(path), int(rest[0]), int(rest[1])) if what == "time"
                  else noise_of(Path(path)))  # fmt: skip
    else:
        asked = arguments(__doc__, MODELS)
        folder = Path(asked.folder) if asked.folder else Path("build/zoo")
        found = measure(folder, asked.only or (QUICK if asked.quick else MODELS), asked.quick)
        report("calibration", asked, found, section(found))
