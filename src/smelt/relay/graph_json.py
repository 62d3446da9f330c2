"""What a compiled model does, as the classic graph executor's JSON: one node a kernel launch.

Results that share an id in "storage_id" are the same piece of memory. Different ids may still
share bytes of the workspace when they are never alive together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from smelt.artifact.graph import GraphPlan, Launch, Storage
from smelt.ir.expr import Expr, IntImm
from smelt.runtime import NDArray, array
from smelt.runtime.params import digest
from smelt.runtime.report import node_names

from .printer import size_text


def graph_json(plan: GraphPlan) -> str:
    """The launches of a plan with their inputs, shapes and storages."""
    return json.dumps(_graph(plan), indent=2)


def graph_params(plan: GraphPlan) -> dict[str, NDArray]:
    """The constants that graph_json names p0, p1, ...; as the kernels' programs see them."""
    found = _constants(plan)
    return {name: array(s.data) for s, name in found.items() if s.data is not None}


def _constants(plan: GraphPlan) -> dict[Storage, str]:
    found: dict[Storage, str] = {}
    for launch in plan.launches:
        for p in launch.inputs:
            if p.storage.kind == "constant" and p.storage not in found:
                found[p.storage] = f"p{len(found)}"
    return found


def _extents(shape: tuple[Expr, ...]) -> list[int | str]:
    return [e.value if isinstance(e, IntImm) else size_text(e) for e in shape]


def _graph(plan: GraphPlan) -> dict[str, Any]:
    """Nodes, and the entries that they produce."""
    nodes: list[dict[str, Any]] = []
    rows = [0]
    results: list[tuple[Storage, list[int | str]]] = []
    entry: dict[Storage, list[int]] = {}

    def add(node: dict[str, Any], *made: tuple[Storage, list[int | str]]) -> None:
        entry.update({s: [len(nodes), i, 0] for i, (s, _) in enumerate(made)})
        results.extend(made)
        nodes.append(node)
        rows.append(len(results))

    constants = _constants(plan)
    first = {
        p.storage: _extents(p.view.shape)
        for launch in reversed(plan.launches)
        for p in reversed(launch.inputs)
    }
    given = {**{s: s.name for s in plan.inputs}, **constants}
    for s, name in given.items():
        shape = first.get(s, []) if s.data is None else list(s.data.shape)
        add({"op": "null", "name": name, "inputs": []}, (s, shape))
    shown = node_names([launch.name for launch in plan.launches])
    for name, launch in zip(shown, plan.launches, strict=True):
        made = [(p.storage, _extents(p.view.shape)) for p in launch.outputs]
        add(_launch(name, launch, entry), *made)
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
            "constants": ["list_str", [digest(s.data) for s in constants]],
        },
        "node_row_ptr": rows,
    }


def _launch(name: str, launch: Launch, entry: Mapping[Storage, list[int]]) -> dict[str, Any]:
    """A kernel call under a name of its own."""
    attrs = {
        "func_name": launch.name,
        "num_inputs": str(len(launch.inputs)),
        "num_outputs": str(len(launch.outputs)),
        "flatten_data": "0",
    }
    inputs = [entry[p.storage] for p in launch.inputs]
    return {"op": "tvm_op", "name": name, "attrs": attrs, "inputs": inputs}
