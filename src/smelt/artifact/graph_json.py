"""What a compiled model does, as the classic graph executor's JSON: one node a kernel launch.

Results that share an id in "storage_id" are the same piece of memory. Different ids may still
share bytes of the workspace when they are never alive together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from smelt.ir.expr import Expr, IntImm
from smelt.tir.names import unique_name

from .graph import GraphPlan, Place, Storage
from .variants import size_text

Extents = list[int | str]


@dataclass(frozen=True)
class Node:
    """A kernel call under a name of its own: its function, what it reads and what it writes."""

    name: str
    function: str
    inputs: Sequence[Place]
    outputs: Sequence[Place]


def constant_names(plan: GraphPlan, calls: Sequence[Node]) -> dict[Storage, str]:
    """The constants that calls read: p0, p1, ..., but for names of inputs."""
    taken = {s.name for s in plan.inputs}
    found: dict[Storage, str] = {}
    for call in calls:
        for p in call.inputs:
            if p.storage.kind == "constant" and p.storage not in found:
                found[p.storage] = unique_name(f"p{len(found)}", taken)
    return found


def graph_data(
    plan: GraphPlan, calls: Sequence[Node], size: Callable[[Expr], int | str] = size_text
) -> tuple[dict[str, Any], list[Storage]]:
    """The graph: nodes, and the entries that they produce; and the storages, by their ids.

    size  an extent that is no number, in words
    """
    nodes: list[dict[str, Any]] = []
    rows = [0]
    results: list[tuple[Storage, Extents]] = []
    entry: dict[Storage, list[int]] = {}

    def add(node: dict[str, Any], *made: tuple[Storage, Extents]) -> None:
        entry.update({s: [len(nodes), i, 0] for i, (s, _) in enumerate(made)})
        results.extend(made)
        nodes.append(node)
        rows.append(len(results))

    def extents(p: Place) -> Extents:
        return [e.value if isinstance(e, IntImm) else size(e) for e in p.view.shape]

    first = {p.storage: extents(p) for call in reversed(calls) for p in reversed(call.inputs)}
    given = {**{s: s.name for s in plan.inputs}, **constant_names(plan, calls)}
    for s, name in given.items():
        shape = first.get(s, []) if s.data is None else list(s.data.shape)
        add({"op": "null", "name": name, "inputs": []}, (s, shape))
    for call in calls:
        add(_node(call, entry), *[(p.storage, extents(p)) for p in call.outputs])
    numbers = {s: n for n, s in enumerate(dict.fromkeys([s for s, _ in results]))}
    return {
        "nodes": nodes,
        "arg_nodes": list(range(len(given))),
        "heads": [entry[s] for s in plan.outputs],
        "attrs": {
            "dltype": ["list_str", [s.dtype for s, _ in results]],
            "device_index": ["list_int", [1] * len(results)],
            "storage_id": ["list_int", [numbers[s] for s, _ in results]],
            "shape": ["list_shape", [shape for _, shape in results]],
        },
        "node_row_ptr": rows,
    }, [*numbers]


def _node(call: Node, entry: Mapping[Storage, list[int]]) -> dict[str, Any]:
    attrs = {
        "func_name": call.function,
        "num_inputs": str(len(call.inputs)),
        "num_outputs": str(len(call.outputs)),
        "flatten_data": "0",
    }
    inputs = [entry[p.storage] for p in call.inputs]
    return {"op": "tvm_op", "name": call.name, "attrs": attrs, "inputs": inputs}
