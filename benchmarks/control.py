"""Times models that decide while they run beside onnxruntime: `python -m benchmarks.control`.

Both run on one thread of one process, in turns. A round is a call from Python for each of a model's
inputs, whose ways through the model differ: exe(feeds) here, session.run(None, feeds) there.
"""

import statistics
import sys
import time
from collections.abc import Callable, Collection, Sequence

import onnx
import onnxruntime

import smelt
from benchmarks.options import arguments, report
from benchmarks.peers import QUICKLY, REFERENCE, SMELT, Pace
from benchmarks.processes import Foreign, give_back, worker
from benchmarks.report import Results, table
from benchmarks.zoo import NOISY
from smelt.cli.results import arrays, largest_error
from smelt.cli.timing import Call, interleave, summary
from tests.frontend.models import typed
from tests.models.control_nets import CONTROL, tiny_if, tiny_if_inputs, tiny_loop, turns
from tests.models.net import Feeds

THREADS = 1
PACE = Pace(4.0)  # of a model
QUICK = ("loop", "tiny_loop")
SIDES = (SMELT, REFERENCE)
Run = Callable[[Feeds], object]
"""Runs a model once."""

TURNS = (1_000, 10_000)
IFS = (1, 101)


def session(proto: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """onnxruntime's, on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = THREADS
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    data = typed(proto).SerializeToString()
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def rounds(proto: onnx.ModelProto, inputs: Sequence[Feeds]) -> tuple[list[Call], float]:
    """What runs a model once with each of the inputs, in smelt and in onnxruntime.

    Also how far the results are apart.
    """
    exe, peer = smelt.compile(proto, options=smelt.Options(threads=THREADS)), session(proto)
    error = max(largest_error(arrays(exe(one)), peer.run(None, one)) for one in inputs)
    runs: list[Run] = [exe, lambda feeds: peer.run(None, feeds)]
    return [_over(run, inputs) for run in runs], error


def _over(run: Run, inputs: Sequence[Feeds]) -> Call:
    def once() -> None:
        for feeds in inputs:
            run(feeds)

    return once


def time_rounds(calls: Sequence[Call], pace: Pace) -> list[Results]:
    """The figures of each call."""
    return [summary(taken) for taken in interleave(calls, pace.seconds, pace.rounds)]


def time_model(name: str, pace: Pace) -> Results:
    """The medians of a model in both."""
    build, inputs = CONTROL[name]
    start = time.perf_counter()
    calls, error = rounds(build(), inputs())
    load_s = time.perf_counter() - start
    foreign = Foreign()
    found = dict(zip(SIDES, time_rounds(calls, pace), strict=True))
    ratio = found[REFERENCE]["median_ms"] / found[SMELT]["median_ms"]
    return {**found, "ratio": ratio, "error": error, "load_s": load_s} | {
        "inputs": len(inputs()),
        "foreign_cores": foreign.cores(),
    }


def steps(name: str) -> list[tuple[int, onnx.ModelProto, list[Feeds]]]:
    """Rounds of few steps and of many: how many, a model and its inputs. None for large models."""
    inputs = tiny_if_inputs()
    if name == "tiny_loop":
        return [(n, tiny_loop(), [turns(n)]) for n in TURNS]
    if name == "tiny_if":
        return [(n * len(inputs), tiny_if(n), inputs) for n in IFS]
    return []


def time_step(name: str, pace: Pace) -> Results:
    """Nanoseconds that a turn of tiny_loop, or an If of tiny_if, adds in both; else nothing."""
    cases = steps(name)
    if not cases:
        return {}
    (few, *_), (many, *_) = cases
    calls = [call for _, proto, inputs in cases for call in rounds(proto, inputs)[0]]
    foreign = Foreign()
    medians = [found["median_ms"] for found in time_rounds(calls, pace)]
    taken = [(b - a) / (many - few) * 1e6 for a, b in zip(medians[:2], medians[2:], strict=True)]
    return {"step_ns": dict(zip(SIDES, taken, strict=True)), "step_foreign": foreign.cores()}


def measure(
    names: Collection[str] = tuple(CONTROL),
    quick: bool = False,
    say: Callable[[str], object] = print,
) -> Results:
    """Some models, by default all."""
    rows = []
    for name in names:
        row = worker("benchmarks.control", name, *["quick"] * quick, threads=THREADS)
        rows.append({"model": name, **row})
        say(f"{name}: {row['ratio']:.2f}" if "ratio" in row else f"{name}: {row['error']}")
    return {"rows": rows}


def section(results: Results) -> str:
    """The results as markdown."""
    known = [r for r in results["rows"] if "ratio" in r]
    lines = []
    for r in known:
        ms = [f"{r[side]['median_ms']:.3f}" for side in SIDES]
        ratio = f"{r['ratio']:.2f}{_noise(r['foreign_cores'])}"
        lines.append([f"{r['model']}, {r['inputs']}", *ms, ratio, f"{r['error']:.0e}"])
    large = [r["ratio"] for r in known if "step_ns" not in r]
    if large:
        mean = f"**{statistics.geometric_mean(large):.2f}**"
        lines.append([f"geometric mean of {len(large)}, without the tiny ones", "", "", mean, ""])
    parts = [table(["model, inputs", *[f"{side}, ms" for side in SIDES], "ratio", "error"], lines)]
    steps = [[STEPS[r["model"]], *_step(r)] for r in known if "step_ns" in r]
    if steps:
        parts.append(table(["what it adds", *[f"{side}, ns" for side in SIDES], "ratio"], steps))
    note = (
        "Ratio: onnxruntime's time over smelt's, so that more than 1 is good. One thread. The time "
        "is that of a call from Python for each of the inputs, whose ways through the model "
        "differ. ~: other work disturbed the row."
    )
    errors = [f"{r['model']}: {r['error']}." for r in results["rows"] if "ratio" not in r]
    return "\n\n".join([*parts, note, *errors])


STEPS = {
    "tiny_loop": "a turn of a Loop that adds and compares",
    "tiny_if": "an If whose branches add",
}


def _step(row: Results) -> list[str]:
    ours, theirs = (row["step_ns"][side] for side in SIDES)
    return [f"{ours:.0f}", f"{theirs:.0f}", f"{theirs / ours:.2f}{_noise(row['step_foreign'])}"]


def _noise(cores: float) -> str:
    return " ~" if cores > NOISY else ""


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        pace = QUICKLY if "quick" in sys.argv[3:] else PACE
        give_back(time_model(sys.argv[2], pace) | time_step(sys.argv[2], pace))
    else:
        asked = arguments(__doc__, tuple(CONTROL))
        names = asked.only or (QUICK if asked.quick else tuple(CONTROL))
        found = measure(names, asked.quick)
        report("control", asked, found, section(found))
