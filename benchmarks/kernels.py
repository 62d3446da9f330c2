"""Single operators as shares of the multiply-add limit: `python -m benchmarks.kernels`.

Each case is an ONNX model of one node. In every round the limit of as many cores is measured
first, then the model; the share is the median over the rounds of the two divided. The share of
`kernel` counts the kernels that multiply, as `profile` times them; that of `model` the whole call,
with the changes of layout that a network of many layers would not have between them.
"""

import json
import math
import random
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

import smelt
from benchmarks.peak import probe
from benchmarks.processes import give_back, worker
from benchmarks.report import Results, table, write
from smelt.codegen.peak import Peak
from smelt.runtime import Executable
from smelt.runtime.errors import SmeltError

ROUNDS = 7
BATCH_SECONDS = 0.03
THREADS = (1, 2)
RANDOM_SHAPES = 200
GROUPS = {
    "matmul": "MatMul, constant B",
    "matmul2": "MatMul, both operands given at run time",
    "conv": "Convolutions of ResNet",
    "random": f"{RANDOM_SHAPES} random shapes",
}


@dataclass(frozen=True)
class MatMul:
    """[m, k] times [k, n]; B is a weight or a second input."""

    m: int
    n: int
    k: int
    constant: bool = True

    @property
    def flops(self) -> int:
        """Float operations; a multiply-add counts two."""
        return 2 * self.m * self.n * self.k

    @property
    def label(self) -> str:
        """For the table."""
        return f"{self.m} x {self.n} x {self.k}"

    def model(self) -> ModelProto:
        """One node."""
        weights = {"b": normal(self.k, self.n)} if self.constant else {}
        inputs: dict[str, tuple[int, ...]] = {"a": (self.m, self.k)}
        if not self.constant:
            inputs["b"] = (self.k, self.n)
        return one_node("MatMul", inputs, weights, (self.m, self.n))


@dataclass(frozen=True)
class Conv:
    """A square image of one batch, a square filter, padded by half of it."""

    i: int
    o: int
    size: int
    side: int
    stride: int = 1

    @property
    def out(self) -> int:
        """The side of the result."""
        return (self.size + 2 * (self.side // 2) - self.side) // self.stride + 1

    @property
    def flops(self) -> int:
        """Float operations of the taps inside the image."""
        pad = self.side // 2
        taps = sum(
            0 <= y * self.stride - pad + t < self.size
            for y in range(self.out)
            for t in range(self.side)
        )
        return 2 * taps * taps * self.i * self.o

    @property
    def label(self) -> str:
        """For the table."""
        stride = f" / {self.stride}" if self.stride > 1 else ""
        return f"{self.side}x{self.side}{stride}, {self.size}², {self.i} → {self.o}"

    def model(self) -> ModelProto:
        """One node."""
        filters = normal(self.o, self.i, self.side, self.side)
        return one_node(
            "Conv",
            {"a": (1, self.i, self.size, self.size)},
            {"b": filters},
            (1, self.o, self.out, self.out),
            strides=[self.stride] * 2,
            pads=[self.side // 2] * 4,
        )


Case = MatMul | Conv


def normal(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Values of a fixed seed, scaled by the second dimension."""
    values = np.random.default_rng(0).standard_normal(shape, np.float32)
    return values / np.float32(math.sqrt(shape[1]))


def one_node(
    op: str,
    inputs: dict[str, tuple[int, ...]],
    weights: dict[str, np.ndarray[Any, np.dtype[np.float32]]],
    result: tuple[int, ...],
    **attributes: Any,
) -> ModelProto:
    """A model of one operator on `a` and `b`."""
    graph = helper.make_graph(
        [helper.make_node(op, ["a", "b"], ["c"], name="case", **attributes)],
        "case",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info("c", TensorProto.FLOAT, result)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def cases(group: str) -> list[Case]:
    """The shapes of one part of the table."""
    squares = [(n, n, n) for n in (256, 512, 1024, 2048)]
    shapes = [*squares, (128, 3072, 768), (128, 768, 3072), (128, 768, 768), (16, 3072, 768)]
    match group:
        case "matmul":
            return [MatMul(*shape) for shape in shapes]
        case "matmul2":
            return [MatMul(*shape, constant=False) for shape in shapes]
        case "conv":
            stages = [(64, 56), (128, 28), (256, 14), (512, 7)]
            found = [Conv(c, c, size, 3) for c, size in stages]
            found += [Conv(c, 2 * c, size, 3, 2) for c, size in stages[:-1]]
            found += [Conv(64, 256, 56, 1), Conv(512, 128, 28, 1), Conv(1024, 256, 14, 1)]
            return [*found, Conv(512, 2048, 7, 1), Conv(64, 128, 56, 1, 2), Conv(3, 64, 224, 7, 2)]
    return random_cases()


def random_cases(seed: int = 1) -> list[Case]:
    """Shapes between 4 and 1000 million operations, odd ones too: half MatMul, half Conv."""
    source = random.Random(seed)

    def size(low: int, high: int) -> int:
        return round(math.exp(source.uniform(math.log(low), math.log(high))))

    found: list[Case] = []
    while len(found) < RANDOM_SHAPES:
        case: Case
        if len(found) % 2:
            side, stride = source.choice((1, 3, 3, 5, 7)), source.choice((1, 1, 2))
            case = Conv(size(3, 512), size(8, 512), size(7, 112), side, stride)
        else:
            case = MatMul(size(1, 1500), size(8, 3000), size(8, 3000), source.random() < 0.5)
        if 4e6 <= case.flops <= 1e9:
            found.append(case)
    return found


def share(case: Case, threads: int, peak: Peak) -> Results:
    """How near one case comes to the limit."""
    exe = smelt.compile(case.model(), options=smelt.Options(threads=threads))
    shapes = [[int(str(n)) for n in tensor.shape] for tensor in exe.inputs]
    inputs = [normal(*shape) for shape in shapes]
    exe(*inputs)
    model, kernel = [], []
    for _ in range(ROUNDS):
        time.sleep(0.01)  # spinning threads of the model have gone to sleep
        limit = peak.gflops()
        model.append(case.flops / _seconds(exe, inputs) / 1e9 / limit)
        kernels = json.loads(exe.profile(*inputs).json())["kernels"]
        spent = sum(row["milliseconds"] for row in kernels if row["flops"] > 0.01 * case.flops)
        kernel.append(case.flops / spent / 1e6 / limit)
    return {"model": statistics.median(model), "kernel": statistics.median(kernel)}


def _seconds(exe: Executable, inputs: list[Any]) -> float:
    """The median time of a call."""
    taken: list[float] = []
    begin = time.perf_counter()
    exe(*inputs)
    while time.perf_counter() - begin < BATCH_SECONDS or len(taken) < 3:
        start = time.perf_counter()
        exe(*inputs)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def group_rows(group: str, threads: int) -> list[Results]:
    """All cases of a group; a case that fails says why."""
    peak, rows = probe(threads), []
    for case in cases(group):
        row: Results = {"case": case.label, "kind": type(case).__name__, **asdict(case)}
        try:
            row |= share(case, threads, peak)
        except SmeltError as error:
            row["error"] = str(error)
        rows.append(row)
    return rows


def measure() -> Results:
    """Every group on one core and on two."""
    found: Results = {"groups": []}
    for group in GROUPS:
        for threads in THREADS:
            rows = worker("benchmarks.kernels", group, str(threads), threads=threads)
            found["groups"].append({"group": group, "threads": threads, "rows": rows})
            print(group, threads, "done", flush=True)
    return found


def percent(value: float) -> str:
    """A share for people."""
    return f"{100 * value:.0f} %"


def section(results: Results) -> str:
    """The results as markdown."""
    parts = []
    heading = ["case", "kernel", "whole call"]
    for entry in results["groups"]:
        title = f"**{GROUPS[entry['group']]}, {entry['threads']} thread(s)**"
        rows = entry["rows"]
        if isinstance(rows, dict):
            parts.append(f"{title}: {rows['error']}")
            continue
        good = [row for row in rows if "error" not in row]
        lines = [[r["case"], percent(r["kernel"]), percent(r["model"])] for r in good]
        if entry["group"] == "random" and len(good) > 9:
            lines = []
            for name, place in (("tenth percentile", 0), ("median", 4), ("ninetieth", 8)):
                tenths = [
                    statistics.quantiles([r[key] for r in good], n=10)[place]
                    for key in ("kernel", "model")
                ]
                lines.append([name, *map(percent, tenths)])
        lines += [[row["case"], row["error"], ""] for row in rows if "error" in row]
        parts += [title, table(heading, lines)]
    return "\n\n".join(parts)


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        give_back(group_rows(sys.argv[2], int(sys.argv[3])))
    else:
        results = measure()
        write("kernels", results)
        print(section(results))
