"""A failing case made small: fewer results, nodes, attributes, runs, and smaller extents."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from .case import Array, Case, Graph, Node, pruned
from .judge import Verdict
from .worker import Worker

__all__ = ["minimise"]

Step = Callable[[Case, Worker], Iterator[Case]]


def minimise(case: Case, verdict: Verdict, worker: Worker, seconds: float = 60.0) -> Case:
    """The smallest case found in the time that fails in the same way."""
    end = time.monotonic() + seconds

    def fails(candidate: Case) -> bool:
        found, _ = worker.judge("case", candidate)
        same = found.kind == verdict.kind and found.oracle == verdict.oracle
        return same and (found.kind == "wrong" or found.label == verdict.label)

    changed = True
    while changed:
        changed = False
        for step in STEPS:
            again = True
            while again:
                again = False
                for candidate in step(case, worker):
                    if time.monotonic() > end:
                        return case
                    if fails(candidate):
                        case, changed, again = candidate, True, True
                        break
    return case


def fewer_results(case: Case, worker: Worker) -> Iterator[Case]:
    """One result, of all values that there are; the first ones need the fewest nodes."""
    if len(case.graph.results) > 1:
        for r in case.graph.results:
            yield case.with_results([r])
    made = [o for n in case.graph.nodes[:-1] for o in n.outputs if o]
    for name in made:
        if name not in case.graph.results:
            yield case.with_results([name])


def fewer_runs(case: Case, worker: Worker) -> Iterator[Case]:
    """One run, static sizes, usual options."""
    if len(case.feeds) > 1:
        for feed in case.feeds:
            yield replace(case, feeds=[feed])
    shapes = {n: list(case.feeds[0][n].shape) for n in case.graph.inputs}
    static = {n: (t, shapes[n]) for n, (t, _) in case.graph.inputs.items()}
    if len(case.feeds) == 1 and static != {
        n: (t, list(s)) for n, (t, s) in case.graph.inputs.items()
    }:
        yield replace(case, graph=replace(case.graph, inputs=static))
    for change in ({"check": False}, {"threads": 1}, {"opt_level": 0}, {"opt_level": 2}):
        options = {**case.options, **change}
        if options != case.options and options["opt_level"] <= case.options["opt_level"]:
            yield replace(case, options=options)


def fewer_nodes(case: Case, worker: Worker) -> Iterator[Case]:
    """A node's results as inputs; all nodes before one of them at once, where that works."""
    nodes = [n for n in case.graph.nodes if n.op != "Constant"]
    names = [o for n in nodes for o in n.outputs if o and o not in case.graph.results]
    if len(case.feeds) > 1 or not names:
        return
    values = worker.values(case, names)
    if values is None:
        return
    for node in reversed(nodes[:-1]):
        if any(o in case.graph.results for o in node.outputs):
            continue
        yield _cut(case, node, values)


def _cut(case: Case, node: Node, values: list[dict[str, Array]]) -> Case:
    arrays = {o: [v[o] for v in values] for o in node.outputs if o}
    inputs = {o: (a[0].dtype.name, list(a[0].shape)) for o, a in arrays.items()}
    graph = Graph(
        [n for n in case.graph.nodes if n is not node],
        {**case.graph.inputs, **inputs},
        case.graph.constants,
        case.graph.results,
    )
    feeds = [{**f, **{o: a[k] for o, a in arrays.items()}} for k, f in enumerate(case.feeds)]
    errors = {**case.errors}
    made = replace(case, graph=pruned(graph, graph.results), feeds=feeds, errors=errors)
    return made.with_used_feeds()


def fewer_attributes(case: Case, worker: Worker) -> Iterator[Case]:
    """No attribute where it has a default; no last operand where it is optional."""
    for k, node in enumerate(case.graph.nodes):
        simpler = [replace(node, attrs={a: v for a, v in node.attrs.items() if a != name})
                   for name in node.attrs if not isinstance(node.attrs[name], Graph)]  # fmt: skip
        if len(node.inputs) > 1:
            simpler.append(replace(node, inputs=node.inputs[:-1]))
        for new in simpler:
            nodes = [*case.graph.nodes[:k], new, *case.graph.nodes[k + 1 :]]
            graph = pruned(replace(case.graph, nodes=nodes), case.graph.results)
            yield replace(case, graph=graph).with_used_feeds()


def smaller_extents(case: Case, worker: Worker) -> Iterator[Case]:
    """An extent made smaller wherever it is, also among the numbers of constants."""
    if len(case.feeds) > 1:
        return
    arrays = [*case.feeds[0].values(), *case.graph.constants.values()]
    for extent in sorted({e for a in arrays for e in a.shape if e > 1}, reverse=True):
        for new in sorted({1, 2, extent // 2, extent - 1} & set(range(1, extent))):
            for numbers in (True, False):
                yield _resized(case, extent, new, numbers)


def _resized(case: Case, extent: int, new: int, numbers: bool) -> Case:
    def cut(a: Array) -> Array:
        a = a[tuple([slice(0, new) if e == extent else slice(None) for e in a.shape])]
        if numbers and a.dtype == np.int64 and a.ndim == 1:
            a = np.where(a == extent, new, a)
        return a.copy()

    inputs = {
        n: (t, [new if e == extent else e for e in s]) for n, (t, s) in case.graph.inputs.items()
    }
    graph = replace(
        case.graph, inputs=inputs, constants={n: cut(a) for n, a in case.graph.constants.items()}
    )
    return replace(case, graph=graph, feeds=[{n: cut(a) for n, a in case.feeds[0].items()}])


def simpler_numbers(case: Case, worker: Worker) -> Iterator[Case]:
    """Whole numbers, or all the same, in an input or a constant of many elements."""
    for name, a in case.feeds[0].items():
        if a.dtype.kind not in "biu" and a.size and not np.array_equal(a, np.rint(a)):
            yield replace(case, feeds=[{**f, name: np.rint(f[name])} for f in case.feeds])
    for name, a in case.graph.constants.items():
        if a.dtype.kind not in "biu" and a.size and not np.array_equal(a, np.rint(a)):
            constants = {**case.graph.constants, name: np.rint(a)}
            yield replace(case, graph=replace(case.graph, constants=constants))


STEPS: tuple[Step, ...] = (
    fewer_results, fewer_runs, fewer_nodes, fewer_attributes, smaller_extents, simpler_numbers,
)  # fmt: skip
