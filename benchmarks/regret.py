"""The chosen schedules beside others of their spaces: `python -m benchmarks.regret`.

Of every kernel the part that takes longest is built with the decision that was chosen, with the
next 25 of its sketch by cost, with 25 random ones, with the best of every other sketch that fits,
and as a whole by the operator's other algorithms; all of them are timed in turns, operands near.
The regret is the time of the chosen one over that of the fastest. Half of each class's shapes was
looked at while the cost was fitted, the other half was not.
"""

import gc
import random
import statistics
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper

from benchmarks.options import arguments, report
from benchmarks.processes import Foreign, give_back, worker
from benchmarks.report import Results, table
from benchmarks.shapes import Conv, MatMul, between, grouped_cases
from benchmarks.zoo import NOISY
from smelt.artifact.kernel import plans
from smelt.artifact.measure import timer
from smelt.choices import candidate
from smelt.codegen.llvm import resolve
from smelt.ir.options import Options
from smelt.rules.cpu import Plan, apply
from smelt.rules.sketch import Choice
from smelt.stages import kernels_of
from smelt.target import Target
from smelt.tir.nodes import PrimFunc

THREADS = (1, 2)
NEXT, RANDOM = 25, 25
ROUNDS, SECONDS = 5, 0.004
CASES = 4
"""Shapes of a class in each half."""
HALVES = {"fitted": 1, "unseen": 2}
SHORT = 5e-6
"""Seconds below which a kernel is left out: the call takes as long."""

Made = tuple[str, ModelProto]


def contraction(
    low: int, high: int, deep: tuple[int, int] = (32, 1500), constant: bool = True
) -> Callable[[random.Random], Made]:
    """Products with so many rows."""

    def make(source: random.Random) -> Made:
        case = MatMul(between(source, low, high), between(source, *deep), between(source, *deep),
                      constant)  # fmt: skip
        return case.label, case.model()

    return make


def convolution(side: int, inputs: tuple[int, int] = (8, 256)) -> Callable[[random.Random], Made]:
    """Convolutions with a filter of so many rows, of images with so many channels."""

    def make(source: random.Random) -> Made:
        case = Conv(between(source, *inputs), between(source, 8, 256), between(source, 7, 80),
                    side, source.choice((1, 1, 2)))  # fmt: skip
        return case.label, case.model()

    return make


def grouped(source: random.Random) -> Made:
    """Convolutions in groups."""
    case = source.choice(grouped_cases())
    return case.label, case.model()


def depthwise(source: random.Random) -> Made:
    """A filter for each channel."""
    channels = between(source, 16, 512)
    case = Conv(channels, channels, between(source, 7, 112), source.choice((3, 5)),
                source.choice((1, 2)), channels)  # fmt: skip
    return case.label, case.model()


def alone(op: str, rank: int, **attributes: Any) -> Callable[[random.Random], Made]:
    """An operator of one input."""

    def make(source: random.Random) -> Made:
        sides = [between(source, *((12, 100) if rank > 3 else (64, 1500))) for _ in range(rank - 2)]
        shape = [1, between(source, 8, 512), *sides]
        x = helper.make_tensor_value_info("a", TensorProto.FLOAT, shape)
        y = helper.make_tensor_value_info("c", TensorProto.FLOAT, None)
        node = helper.make_node(op, ["a"], ["c"], name="case", **attributes)
        graph = helper.make_graph([node], "case", [x], [y])
        opset = [helper.make_opsetid("", 13)]
        label = f"{op} {' x '.join(map(str, shape))}"
        return label, helper.make_model(graph, opset_imports=opset, ir_version=8)

    return make


CLASSES: dict[str, Callable[[random.Random], Made]] = {
    "product, constant B": contraction(17, 1500),
    "product, B given": contraction(17, 1000, constant=False),
    "product, few rows": contraction(1, 16, (256, 3000)),
    "convolution 1x1": convolution(1),
    "convolution 3x3": convolution(3),
    "convolution 5x5": convolution(5),
    "convolution of a picture, 7x7": convolution(7, (3, 3)),
    "convolution in groups": grouped,
    "depthwise convolution": depthwise,
    "pooling": alone("MaxPool", 4, kernel_shape=[3, 3], strides=[2, 2]),
    "mean of rows": alone("ReduceMean", 4, axes=[2, 3]),
    "maximum of columns": alone("ReduceMax", 3, axes=[1]),
    "softmax": alone("Softmax", 3),
    "transpose": alone("Transpose", 4, perm=[0, 2, 3, 1]),
    "elementwise": alone("Tanh", 3),
}
"""What a class is called, and one of its shapes at random."""


@dataclass(frozen=True)
class Timed:
    """What a candidate was predicted and found to take; `ms`: processor time to make it."""

    kind: str
    predicted: float
    ms: float
    runs: Callable[[float], float]


def candidates(
    found: Sequence[Plan], source: random.Random
) -> Iterator[tuple[str, float, PrimFunc]]:
    """Kind, predicted seconds and lowered program of every candidate for a kernel."""
    plan, *others = found
    at = max(range(len(plan.parts)), key=lambda k: plan.parts[k].seconds)
    for kind, choice in choices_of(plan, at, source):
        yield kind, choice.seconds, candidate(plan, at, choice)
    for other in others:
        seconds = other.seconds - plan.seconds + plan.parts[at].seconds
        yield "other algorithm", seconds, candidate(other, 0, other.parts[0].choices[0])


def choices_of(plan: Plan, at: int, source: random.Random) -> Iterator[tuple[str, Choice]]:
    """The chosen one, the next, random ones, and the best of other sketches."""
    part = plan.parts[at]
    first, *others = part.choices
    yield "chosen", first
    scored = next(s for sketch, s in part.scored if sketch is first.sketch)
    legal = len(scored.order)
    behind = range(1, min(NEXT + 1, legal))
    for n in behind:
        yield "next", scored.choice(first.sketch, n)
    rest = range(NEXT + 1, legal)
    for n in source.sample(rest, min(RANDOM, len(rest))):
        yield "random", scored.choice(first.sketch, n)
    for choice in others:
        yield "other sketch", choice


def kernel_row(label: str, model: ModelProto, threads: int, quick: bool) -> list[Results]:
    """Each kernel of a model that takes long enough."""
    target, source = resolve(Target("llvm -mcpu=native")), random.Random(label)
    rows = []
    options = Options(threads=threads)
    for name, spec in kernels_of(model, None, target, None, options, "regret").items():
        found = plans(spec)
        if not found or found[0].seconds < SHORT:
            continue
        made, foreign = [], Foreign()
        start = time.process_time()
        for kind, seconds, func in candidates(found, source):
            runs = timer(func, target, threads)
            ms = (time.process_time() - start) * 1e3
            made.append(Timed(kind, seconds, ms, runs))
            start = time.process_time()
        rounds = [[c.runs(SECONDS) for c in made] for _ in range(2 if quick else ROUNDS)]
        taken = [statistics.median(column) for column in zip(*rounds, strict=True)]
        rows.append({
            "kernel": f"{label}: {name}",
            "chosen": "; ".join(apply(found[0]).chosen),
            "regret": taken[0] / min(taken) - 1,
            "from": made[taken.index(min(taken))].kind,
            "spearman": spearman([c.predicted for c in made], taken),
            "ms": [c.ms for c in made],
            "predicted": made[0].predicted / taken[0],
            "foreign_cores": foreign.cores(),
        })  # fmt: skip
    return rows


def spearman(x: Sequence[float], y: Sequence[float]) -> float | None:
    """The correlation of ranks; equal values share theirs. None of fewer than five."""
    if len(x) < 5:
        return None
    a, b = (_ranks(np.asarray(v)) for v in (x, y))
    if min(np.ptp(a), np.ptp(b)) == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])


def _ranks(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    below = (values[None, :] < values[:, None]).sum(axis=1)
    alike = (values[None, :] == values[:, None]).sum(axis=1)
    return np.asarray(below + (alike - 1) / 2)


def half_rows(name: str, half: str, threads: int, quick: bool) -> list[Results]:
    """The kernels of half of a class."""
    source = random.Random(f"{name} {HALVES[half]}")
    rows = []
    for _ in range(1 if quick else CASES):
        rows += kernel_row(*CLASSES[name](source), threads, quick)
    return rows


def measure(only: Collection[str] = (), quick: bool = False) -> Results:
    """All classes, or some, on one core and on two."""
    found = []
    for name in only or CLASSES:
        for half in HALVES:
            for threads in THREADS[-1:] if quick else THREADS:
                rows = worker("benchmarks.regret", name, half, str(threads), str(int(quick)),
                              threads=threads)  # fmt: skip
                found.append({"class": name, "half": half, "threads": threads, "rows": rows})
        print(name, "done", flush=True)
    return {"groups": found}


def section(results: Results) -> str:
    """The results as markdown."""
    lines, errors = [], []
    for entry in results["groups"]:
        rows, title = entry["rows"], f"{entry['class']}, {entry['threads']} thread(s)"
        if isinstance(rows, dict):
            errors.append(f"{title}, {entry['half']}: {rows['error']}.")
            continue
        if not rows:
            continue
        noisy = any(r["foreign_cores"] > NOISY for r in rows)
        worst = max(rows, key=lambda r: r["regret"])
        ranks = [r["spearman"] for r in rows if r["spearman"] is not None]
        lines.append([
            title + " ~" * noisy, entry["half"], len(rows),
            f"{100 * statistics.median([r['regret'] for r in rows]):.0f} %",
            f"{100 * worst['regret']:.0f} %", f"{worst['kernel']}, {worst['from']}",
            f"{statistics.median(ranks):.2f}" if ranks else "–",
            f"{statistics.median([m for r in rows for m in r['ms']]):.0f}",
            f"{statistics.median([r['predicted'] for r in rows]):.2f}",
        ])  # fmt: skip
    heading = ["class", "half", "kernels", "regret, median", "worst", "of, the fastest",
               "Spearman, median", "ms a candidate", "predicted / measured"]  # fmt: skip
    note = (
        "ms: processor time to schedule, lower, write and compile one candidate, median over all. "
        "~: other work disturbed a kernel of the row."
    )
    return "\n\n".join([table(heading, lines), note, *errors])


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        gc.freeze()  # as in the processes that compile
        name, half, threads, quick = sys.argv[2:]
        give_back(half_rows(name, half, int(threads), quick=quick == "1"))
    else:
        asked = arguments(__doc__, tuple(CLASSES))
        made = measure(asked.only or (), asked.quick)
        report("regret", asked, made, section(made))
