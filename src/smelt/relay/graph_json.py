"""What a compiled model does, as the classic graph executor's JSON: one node a kernel launch.

Results that share an id in "storage_id" are the same piece of memory. Different ids may still
share bytes of the workspace when they are never alive together.
"""

from __future__ import annotations

import json
from typing import Any

from smelt.artifact.graph import GraphPlan, Launch, Storage
from smelt.ir.expr import Expr, IntImm
from smelt.runtime import NDArray, array
from smelt.runtime.params import digest
from smelt.runtime.report import node_names

from .printer import size_text


def graph_json(plan: GraphPlan) -> str:
    """The launches of a plan with their inputs, shapes and storages."""
    return json.dumps(_Graph(plan).data(), indent=2)


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


class _Graph:
    """Nodes, and the entries that they produce."""

    def __init__(self, plan: GraphPlan) -> None:
        self.plan = plan
        self.nodes: list[dict[str, Any]] = []
        self.arguments: list[int] = []
        self.rows = [0]
        self.shapes: list[list[int | str]] = []
        self.dtypes: list[str] = []
        self.storages: list[int] = []
        self.entry: dict[Storage, list[int]] = {}
        self.numbers: dict[Storage, int] = {}

    def data(self) -> dict[str, Any]:
        """Everything."""
        constants = _constants(self.plan)
        first = {
            p.storage: _extents(p.view.shape)
            for launch in reversed(self.plan.launches)
            for p in reversed(launch.inputs)
        }
        for s in self.plan.inputs:
            self.argument(s, s.name, first.get(s, []))
        for s, name in constants.items():
            self.argument(s, name, list(s.data.shape) if s.data is not None else first[s])
        shown = node_names([launch.name for launch in self.plan.launches])
        for name, launch in zip(shown, self.plan.launches, strict=True):
            self.launch(name, launch)
        return {
            "nodes": self.nodes,
            "arg_nodes": self.arguments,
            "heads": [self.entry[s] for s in self.plan.outputs],
            "attrs": {
                "dltype": ["list_str", self.dtypes],
                "device_index": ["list_int", [1] * len(self.dtypes)],
                "storage_id": ["list_int", self.storages],
                "shape": ["list_shape", self.shapes],
                "constants": ["list_str", [digest(s.data) for s in constants]],
            },
            "node_row_ptr": self.rows,
        }

    def result(self, s: Storage, shape: list[int | str], index: int) -> None:
        """One more entry."""
        self.entry[s] = [len(self.nodes), index, 0]
        self.storages.append(self.numbers.setdefault(s, len(self.numbers)))
        self.shapes.append(shape)
        self.dtypes.append(s.dtype)

    def argument(self, s: Storage, name: str, shape: list[int | str]) -> None:
        """An input or a constant."""
        self.result(s, shape, 0)
        self.arguments.append(len(self.nodes))
        self.nodes.append({"op": "null", "name": name, "inputs": []})
        self.rows.append(len(self.shapes))

    def launch(self, name: str, launch: Launch) -> None:
        """A kernel call under a name of its own."""
        given = [self.entry[p.storage] for p in launch.inputs]
        for i, p in enumerate(launch.outputs):
            self.result(p.storage, _extents(p.view.shape), i)
        attrs = {
            "func_name": launch.name,
            "num_inputs": str(len(launch.inputs)),
            "num_outputs": str(len(launch.outputs)),
            "flatten_data": "0",
        }
        self.nodes.append({"op": "tvm_op", "name": name, "attrs": attrs, "inputs": given})
        self.rows.append(len(self.shapes))
