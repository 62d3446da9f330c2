"""Which values flow into one place only, and what lies between."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from smelt.ir.node import reachable
from smelt.relax.nodes import Function, RelaxExpr

from .graph import DataflowGraph, operands


def dominated(graph: DataflowGraph, end: RelaxExpr) -> list[RelaxExpr]:
    """The values all of whose uses, followed down, end in one value; the nearest first."""
    left: dict[RelaxExpr, int] = {}
    found: list[RelaxExpr] = []
    todo = deque([end])
    while todo:
        node = todo.popleft()
        for o in operands(node):
            left[o] = left.get(o, len(graph.users_of(o))) - 1
            if left[o] == 0:
                found.append(o)
                todo.append(o)
    return found


def way(
    graph: DataflowGraph, end: RelaxExpr, start: RelaxExpr, fits: Callable[[RelaxExpr], bool]
) -> list[RelaxExpr] | None:
    """The values on the ways from `start` down to `end`, or None where something does not fit.

    fits  asked of every value above `end`, until `start` or until nothing is above
    """
    seen: set[RelaxExpr] = {end}
    stack = [end]
    reached = False
    while stack:
        for o in operands(stack.pop()):
            if o is start:
                reached = True
            elif o not in seen and not isinstance(o, Function):
                if not fits(o):
                    return None
                seen.add(o)
                stack.append(o)
    if not reached:
        return None
    inside = seen - {end}
    return list(reachable([start], lambda n: [u for u in graph.users_of(n) if u in inside]))
