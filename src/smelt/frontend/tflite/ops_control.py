"""Converters of IF and WHILE: their branches and bodies are the file's other subgraphs."""

from __future__ import annotations

from smelt.frontend.common import Graph, Operand, Value
from smelt.frontend.common.control import run_branch, run_loop

from .node import Node
from .registry import tflite_op


def _subgraph(g: Node, number: int, given: tuple[Value | None, ...]) -> Graph:
    """One of the file's subgraphs, which takes so many operands."""
    if None in given:
        g.malformed(f"operand {given.index(None)} of subgraph {number} is missing")
    if not 0 < number < len(g.graphs):
        g.malformed(f"subgraph {number}; there are {len(g.graphs)}, and the first one is the model")
    found = g.graphs[number]
    if len(found.inputs) != len(given):
        g.malformed(f"subgraph {number} takes {len(found.inputs)} operands; {len(given)} are given")
    return found


@tflite_op("IF")
def if_(
    g: Node, condition: Value, *given: Value, then_subgraph_index: int = 0,
    else_subgraph_index: int = 0,
) -> tuple[Operand, ...]:  # fmt: skip
    """One of two subgraphs."""
    yes, no = (_subgraph(g, n, given) for n in (then_subgraph_index, else_subgraph_index))
    return run_branch(g, condition, yes, no, given)


@tflite_op("WHILE")
def while_(
    g: Node, *state: Value, cond_subgraph_index: int = 0, body_subgraph_index: int = 0
) -> tuple[Operand, ...]:
    """A subgraph again and again, as long as another one says so."""
    condition = _subgraph(g, cond_subgraph_index, state)
    body = _subgraph(g, body_subgraph_index, state)

    def goes_on(values: list[Operand]) -> Value:
        (more,) = g.walk.branch(condition, values)
        if not isinstance(more, Value) or more.dtype != "bool":
            g.malformed("the condition is no bool")
        return more

    def iteration(
        number: Value, values: list[Operand]
    ) -> tuple[Value | None, list[Operand], list[Value]]:
        after = g.walk.branch(body, values)
        return goes_on(after), after, []

    start: list[Operand] = list(state)
    return tuple(run_loop(g, None, goes_on(start), start, iteration, []))
