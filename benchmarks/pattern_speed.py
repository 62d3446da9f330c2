"""How long patterns take: a hundred of them on a large graph, and each pass of a partition.

Run as `python benchmarks/pattern_speed.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax.dpl import DFPattern, is_constant, is_op, wildcard
from smelt.relax.dpl.partition import Partitioner
from smelt.relax.dpl.tables import PatternEntry
from smelt.relax.nodes import Function, RelaxExpr, Var, call, constant, values
from smelt.relax.transform import (
    annotate_target,
    merge_compiler_regions,
    merge_composite,
    partition_graph,
    register_op_predicate,
)

BLOCKS = 140
ACTIVATIONS = ("relu", "tanh", "sigmoid", "silu", "gelu", "elu", "mish", "softplus", "abs", "exp")

Result = TypeVar("Result")


def network(blocks: int) -> IRModule:
    """Residual blocks with two convolutions each, about eleven values a block."""
    x = Var("x", tensor_type((1, 8, 8, 8)))
    y: RelaxExpr = x
    rng = np.random.default_rng(0)

    def conv(x: RelaxExpr) -> RelaxExpr:
        w = constant(rng.standard_normal((8, 8, 3, 3)).astype(np.float32))
        b = constant(rng.standard_normal((8, 1, 1)).astype(np.float32))
        return call("add", call("conv2d", x, w, pads=(1, 1, 1, 1)), b)

    for n in range(blocks):
        inner = conv(call(ACTIVATIONS[n % 8], conv(y)))
        y = call("relu", call("add", inner, y))
    return IRModule({"main": Function((x,), y)})


def table() -> list[PatternEntry]:
    """A hundred patterns: convolutions and products, with and without bias, and activations."""
    found: list[PatternEntry] = []
    for anchor in ("conv2d", "conv1d", "conv3d", "matmul", "conv_transpose"):
        for activation in (*ACTIVATIONS, ""):
            for bias in (True, False):
                p: DFPattern = is_op(anchor)(wildcard(), is_constant())
                p = is_op("add")(p, is_constant()) if bias else p
                p = is_op(activation)(p) if activation else p
                found.append((f"bench.{anchor}{'_bias' * bias}_{activation}", p))
    return found[:100]


def timed(name: str, run: Callable[[], Result]) -> Result:
    """Run once and print the milliseconds of processor time."""
    start = time.process_time()
    found = run()
    print(f"{name:32s} {(time.process_time() - start) * 1e3:8.0f} ms")
    return found


def main() -> None:
    """Print one line a step."""
    mod = network(BLOCKS)
    patterns = table()
    size = len(list(values(mod["main"].body)))
    print(f"{size} values, {len(patterns)} patterns")
    register_op_predicate("bench", "add", lambda n: True)
    graph = timed("index the graph", lambda: Partitioner(mod["main"]))
    found = timed(
        "match all patterns", lambda: sum([len(list(graph.matches(e[1]))) for e in patterns])
    )
    print(f"{'':32s} {found:8d} matches")
    merged = timed("merge_composite", lambda: merge_composite(mod, patterns))
    marked = timed("annotate_target", lambda: annotate_target(merged, "bench"))
    whole = timed("merge_compiler_regions", lambda: merge_compiler_regions(marked))
    after = timed("partition_graph", lambda: partition_graph(whole))
    print(f"{'':32s} {len(after.functions) - 1:8d} functions for the other compiler")


if __name__ == "__main__":
    main()
