"""One random case from a seed."""

from __future__ import annotations

import random

from . import ops_control, ops_element, ops_index, ops_more, ops_move, ops_nn, ops_quant, ops_reduce  # noqa: F401
from .case import Case, pruned
from .draw import RUNS, Draw, Skip
from .table import TABLE, WEIGHTS

__all__ = ["draw_nodes", "generate"]

OPSETS = (7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26)
NEW = (13, 17, 18, 20, 21, 22, 24, 26)


def generate(seed: int) -> Case:
    """A valid graph with numbers for its inputs; the same for the same seed."""
    chance = random.Random(seed)
    opset = chance.choice(OPSETS if chance.random() < 0.4 else NEW)
    runs = RUNS if chance.random() < 0.75 else 1
    size = chance.choices((1500, 12_000, 120_000), (60, 30, 10))[0]
    d = Draw(seed, opset, runs, size=size)
    draw_nodes(d, chance.choice((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15)))
    results = choose_results(d)
    graph = pruned(d.graph, results)
    leaves = {n: v for n, v in d.leaves.items() if n in graph.inputs}
    feeds = [
        {n: d.elements(v, run) for n, v in leaves.items()}
        for run in range(runs)
        if run not in d.refused
    ]
    options = {
        "opt_level": chance.choice((0, 1, 2, 3, 3, 3)),
        "threads": chance.choice((1, 2)),
        "check": chance.random() < 0.01,
    }
    dtypes = {n: v.dtype for n, v in d.all.items()}
    errors = {n: v.err for n, v in d.all.items()}
    return Case(opset, graph, dtypes, errors, feeds, options, f"seed {seed}")


def draw_nodes(d: Draw, wanted: int) -> None:
    """Add so many operators (with what they need); what does not fit is drawn again."""
    names, weights = list(TABLE), list(WEIGHTS.values())
    done = 0
    for _ in range(40 * wanted):
        if done == wanted:
            return
        op, mark = d.rng.choices(names, weights)[0], d.mark()
        before = mark[1]
        try:
            TABLE[op](d, op)
        except Skip:
            d.undo(mark)
        else:
            done += len(d.graph.nodes) > before


def choose_results(d: Draw) -> list[str]:
    """Every value that nothing uses, up to six; sometimes one that is used, or an input."""
    used = {n for node in d.graph.nodes for n in node.reads()}
    made = [o for node in d.graph.nodes for o in node.outputs if node.op != "Constant"]
    made = [o for o in made if o in d.all]
    results = [n for n in made if n and n not in used]
    results = d.rng.sample(results, min(len(results), 6))
    others = [n for n in made if n in used]
    if others and d.chance(0.2):
        results.append(d.rng.choice(others))
    if results and d.leaves and d.chance(0.04):
        results.append(d.rng.choice(list(d.leaves)))
    return results or made[-1:] or [d.leaf("float32").name]
