"""A model as plain data: nodes that read and make values by name, and an order of them.

What a reader of files gives, and all that the walk over a model asks for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smelt.ir.errors import ImportFailure
from smelt.ir.node import reachable


@dataclass(frozen=True)
class Input:
    """An input of a graph: extents are numbers, names, or None where the file is silent.

    kind   "tensor", "sequence", "optional", "optional sequence"; "" where the file gives no type
    dtype  the element type, of items too; "" where the file gives none
    """

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None
    kind: str = "tensor"


@dataclass(frozen=True)
class ModelNode:
    """A node of the graph: an operator, the values that it reads and makes, its attributes.

    inputs  names of operands, "" for one that is left out; outputs likewise
    attrs   numbers, texts, tuples of them, arrays, Graphs (branches and bodies of loops)
    domain  the set of operators that `op` belongs to, where a format has several
    named   values that attributes name: the node reads them besides its operands
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    domain: str = ""
    named: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The node's name, or what names it best."""
        return self.name or next((o for o in self.outputs if o), "") or self.op


@dataclass
class Graph:
    """A graph or a branch: inputs, arrays known by name, nodes, names of the results."""

    name: str
    inputs: list[Input]
    arrays: dict[str, np.ndarray]
    steps: list[ModelNode]
    outputs: list[str]


def subgraphs(step: ModelNode) -> Iterator[Graph]:
    """The branches and loop bodies of a node."""
    for value in step.attrs.values():
        if isinstance(value, Graph):
            yield value


def in_order(model: str, graph: Graph, outer: Iterable[str]) -> list[ModelNode]:
    """The nodes that the results need, operands first; wrong graphs end here."""
    maker = _makers(model, graph)
    given = {*graph.arrays, *[i.name for i in graph.inputs], *outer}
    for step in graph.steps:
        for n in uses(step):
            if n and n not in given and n not in maker:
                raise ImportFailure(
                    f"{model}: the node {step.label!r} ({step.op}) reads {n!r}, "
                    "which nothing defines"
                )
    for o in graph.outputs:
        if o not in given and o not in maker:
            raise ImportFailure(f"{model}: the result {o!r} is defined by nothing")

    def sources(k: int) -> list[int]:
        return [maker[n] for n in uses(graph.steps[k]) if n in maker]

    last = [maker[o] for o in graph.outputs if o in maker]
    return _sorted(model, graph.steps, sorted({*last, *reachable(last, sources)}), maker)


def _sorted(
    model: str, steps: Sequence[ModelNode], live: Sequence[int], maker: Mapping[str, int]
) -> list[ModelNode]:
    """Depth first in the file's order; a node met below itself lies on a cycle."""

    done: dict[int, None] = {}
    begun: set[int] = set()
    for root in live:
        stack = [root]
        while stack:
            k = stack[-1]
            below = [maker[n] for n in uses(steps[k]) if n in maker] if k not in done else []
            waiting = [b for b in below if b not in done]
            if waiting:
                begun.add(k)
                for b in waiting:
                    if b in begun:
                        through = f"the node {steps[b].label!r} ({steps[b].op})"
                        raise ImportFailure(f"{model}: the graph has a cycle through {through}")
                stack += reversed(waiting)
            else:
                done[stack.pop()] = None
    return [steps[k] for k in done]


def _makers(model: str, graph: Graph) -> dict[str, int]:
    """Value name -> number of the node that makes it."""
    names = Counter([i.name for i in graph.inputs])
    for what, count in (("input", names), ("result", Counter(graph.outputs))):
        twice = [n for n, c in count.items() if c > 1]
        if twice:
            raise ImportFailure(f"{model}: the {what} {twice[0]!r} is defined twice")
    maker: dict[str, int] = {}
    for k, step in enumerate(graph.steps):
        for o in step.outputs:
            if o and (o in maker or o in names or o in graph.arrays):
                other = "an input" if o in names else "an initializer"
                if o in maker:
                    other = f"the node {graph.steps[maker[o]].label!r}"
                raise ImportFailure(
                    f"{model}: the value {o!r} is defined twice: by the node {step.label!r} "
                    f"({step.op}) and by {other}"
                )
            if o:
                maker[o] = k
    return maker


def uses(step: ModelNode) -> list[str]:
    """The values a node reads, those that its branches take from around included."""
    used = [n for n in (*step.inputs, *step.named) if n]
    for g in subgraphs(step):
        own = {*g.arrays, *[i.name for i in g.inputs], *[o for s in g.steps for o in s.outputs]}
        used += [n for s in g.steps for n in uses(s) if n not in own]
        used += [o for o in g.outputs if o not in own]
    return used


def with_branches(steps: Iterable[ModelNode]) -> Iterable[ModelNode]:
    """The nodes and those of their subgraphs."""
    for step in steps:
        yield step
        for g in subgraphs(step):
            yield from with_branches(g.steps)
