"""Relay programs: types, passes, patterns, levels: `python -m benchmarks.graph_level`.

Times of the compiler are medians of several runs in one process; models of the zoo.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import smelt
from benchmarks import models
from benchmarks.report import Results, table, write
from smelt import relay
from smelt.frontend.onnx import from_onnx
from smelt.relax.transform.infer_module import infer_types
from smelt.relax.verify import verify
from smelt.relay import dataflow_pattern as dfp
from smelt.relay import testing, transform
from smelt.transform import PassContext, Sequential

RUNS = 5
LEVELS = (0, 1, 2, 3)
TURNS = 15


def seconds(run: Callable[[], object], runs: int = RUNS) -> float:
    """The median time of a call."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def imported(folder: Path, name: str) -> Any:
    """A model of the zoo as a Relay module."""
    return relay.frontend.from_onnx(onnx.load(folder / f"{name}.onnx"))[0]


def build_prefix() -> Sequential:
    """The passes that the classic stack ran before lowering, in its order."""
    t = transform
    return Sequential(
        [
            t.RemoveUnusedFunctions(),
            t.ToBasicBlockNormalForm(),
            t.Legalize(),
            t.SimplifyInference(),
            t.EliminateCommonSubexpr(),
            t.CombineParallelConv2D(3),
            t.CombineParallelDense(3),
            t.CombineParallelBatchMatmul(3),
            t.FoldConstant(),
            t.FoldScaleAxis(),
            t.SimplifyExpr(),
            t.CanonicalizeCast(),
            t.CanonicalizeOps(),
            t.FlattenAtrousConv(),
            t.InferType(),
            t.AlterOpLayout(),
            t.FastMath(),
            t.FoldConstant(),
            t.FuseOps(),
            t.InferType(),
        ]
    )


OPERANDS = {
    "nn.matmul": 2, "nn.bias_add": 2, "reshape": 1, "transpose": 1, "add": 2, "multiply": 2,
    "nn.layer_norm": 3, "nn.softmax": 1, "divide": 2, "erf": 1,
}  # fmt: skip
"""The most frequent operators of BERT, and how many operands each has."""


def patterns() -> list[Any]:
    """Every one of them on every one of them."""

    def of(name: str, first: Any) -> Any:
        rest = [dfp.wildcard() for _ in range(OPERANDS[name] - 1)]
        return dfp.is_op(name)(first, *rest)

    return [of(a, of(b, dfp.wildcard())) for a in OPERANDS for b in OPERANDS]


def conv_bn_relu() -> Any:
    """The pattern of the classic tutorial."""
    w = dfp.wildcard
    norm = dfp.is_op("nn.batch_norm")(dfp.is_op("nn.conv2d")(w(), w()), w(), w(), w(), w())
    return dfp.is_op("nn.relu")(dfp.is_tuple_get_item(norm, 0))


def matches(body: Any, pattern: Any) -> int:
    """How many functions partitioning makes."""
    made = pattern.partition(body)
    found = set()
    relay.analysis.post_order_visit(
        made,
        lambda n: (
            found.add(n)
            if isinstance(n, relay.Function) and "PartitionedFromPattern" in n.attrs
            else None
        ),
    )
    return len(found)


def launches(level: int) -> int:
    """Kernels of conv + batch_norm + relu."""
    x = relay.var("x", shape=(1, 16, 28, 28))
    rng = np.random.default_rng(0)
    w = relay.const(rng.standard_normal((32, 16, 3, 3)).astype("float32"))
    norm = [relay.const(rng.uniform(0.5, 1, 32).astype("float32")) for _ in range(4)]
    y = relay.nn.batch_norm(relay.nn.conv2d(x, w, padding=1), *norm)[0]
    mod = smelt.IRModule.from_expr(relay.Function([x], relay.nn.relu(y)))
    with PassContext(opt_level=level):
        return len(relay.build(mod, "llvm -mcpu=native").function_metadata)


def levels(folder: Path) -> dict[str, float]:
    """Milliseconds of a run of ResNet-18 at each opt_level, in turns."""
    mod = imported(folder, "resnet18")
    x = np.random.default_rng(1).standard_normal((1, 3, 224, 224)).astype("float32")
    calls = {}
    for level in LEVELS:
        with PassContext(opt_level=level):
            calls[level] = relay.build(mod, "llvm -mcpu=native").lib.bind(x)
    times: dict[int, list[float]] = {level: [] for level in LEVELS}
    for _ in range(TURNS):
        for level, call in calls.items():
            start = time.perf_counter()
            call()
            times[level].append(time.perf_counter() - start)
    return {str(level): statistics.median(t) * 1e3 for level, t in times.items()}


def measure(folder: Path) -> Results:
    """Everything."""
    bert, resnet50 = imported(folder, "bert_base"), imported(folder, "resnet50")
    infer, prefix = transform.InferType(), build_prefix()
    hundred = patterns()
    resnet18, _ = testing.resnet.get_workload(num_layers=18)

    def pipeline() -> object:
        with PassContext(opt_level=3):
            return prefix(resnet50)

    return {
        "seconds": {
            "import, types and verification of BERT-base's file": seconds(
                lambda: verify(infer_types(from_onnx(folder / "bert_base.onnx")))
            ),
            "InferType, BERT-base": seconds(lambda: infer(bert)),
            "the classic build passes at opt_level 3, ResNet-50": seconds(pipeline),
            "the compiler's own graph passes at opt_level 3, ResNet-50": seconds(
                lambda: smelt.optimize(resnet50)
            ),
            "100 patterns, BERT-base": seconds(
                lambda: [p.partition(bert["main"]) for p in hundred]
            ),
        },
        "calls in BERT-base": sum(relay.analysis.count_ops(bert["main"]).values()),
        "patterns that fit": sum(matches(bert["main"], p) > 0 for p in hundred),
        "conv-bn-relu in ResNet-18": matches(resnet18["main"], conv_bn_relu()),
        "launches": {str(level): launches(level) for level in (0, 3)},
        "levels": levels(folder),
    }


def section(results: Results) -> str:
    """For RESULTS.md."""
    ms = results["levels"]
    return "\n\n".join(
        [
            table(
                ("compiler", "seconds"),
                [(name, f"{s:.3f}") for name, s in results["seconds"].items()],
            ),
            f"BERT-base has {results['calls in BERT-base']} calls; "
            f"{results['patterns that fit']} of the 100 patterns fit somewhere. "
            f"conv + batch_norm + relu matches {results['conv-bn-relu in ResNet-18']} times in a "
            "ResNet-18 that keeps its BatchNorms. "
            f"conv + batch_norm + relu alone is {results['launches']['0']} kernels at opt_level 0, "
            f"{results['launches']['3']} at 3.",
            table(
                ("ResNet-18, opt_level", "ms", "times level 3"),
                [(level, f"{t:.2f}", f"{t / ms['3']:.2f}") for level, t in ms.items()],
            ),
        ]
    )


if __name__ == "__main__":
    write("graph_level", measure(models.zoo()))
