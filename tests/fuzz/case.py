"""A graph with its inputs as plain data: what is generated, minimised, saved and run.

`Case.model()` writes it as ONNX; `Case.text()` and `Case.read` are its JSON form, which is what
`regressions/` holds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

__all__ = ["Array", "Case", "Graph", "Node", "all_nodes", "numpy_type"]

Array = np.ndarray[Any, Any]


def numpy_type(dtype: str) -> np.dtype[Any]:
    """The numpy type of a name, those of ml_dtypes too."""
    return np.dtype(getattr(ml_dtypes, dtype)) if hasattr(ml_dtypes, dtype) else np.dtype(dtype)


@dataclass
class Node:
    """One node. An attribute may be an array or a graph."""

    op: str
    inputs: list[str]
    outputs: list[str]
    attrs: dict[str, Any] = field(default_factory=dict)

    def reads(self) -> set[str]:
        """The names that the node needs, those of its graphs too."""
        found = {n for n in self.inputs if n}
        for value in self.attrs.values():
            if isinstance(value, Graph):
                found |= value.free()
        return found


@dataclass
class Graph:
    """Nodes in order. `inputs`: name -> (type, extents: numbers or names of symbolic sizes)."""

    nodes: list[Node]
    inputs: dict[str, tuple[str, list[int | str]]]
    constants: dict[str, Array]
    results: list[str]

    def free(self) -> set[str]:
        """The names that come from around the graph."""
        made = {*self.inputs, *self.constants, *[o for n in self.nodes for o in n.outputs]}
        return set(self.results).union(*[n.reads() for n in self.nodes]) - made


@dataclass
class Case:
    """A graph to run.

    dtypes   name of a value -> its element type
    errors   name of a value -> how far rounding may carry a result from the exact one
    feeds    inputs of each run; the sizes of the runs differ where some are symbolic
    options  opt_level and threads of smelt.compile, check for SMELT_CHECK
    """

    opset: int
    graph: Graph
    dtypes: dict[str, str]
    errors: dict[str, float]
    feeds: list[dict[str, Array]]
    options: dict[str, Any]
    note: str = ""

    def model(self) -> onnx.ModelProto:
        """The case as ONNX."""
        graph = _graph_proto(self.graph, self.dtypes, "fuzz")
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10
        )

    def with_results(self, results: list[str]) -> Case:
        """Another selection of results, nodes that none needs left out."""
        return replace(self, graph=pruned(self.graph, results)).with_used_feeds()

    def at_least(self, least: int) -> Case:
        """Without the runs in which a symbolic size is smaller, or any size is 0."""
        shapes = self.graph.inputs
        feeds = [
            f
            for f in self.feeds
            if all(
                e >= (least if isinstance(s, str) else 1)
                for n, (_, shape) in shapes.items()
                for s, e in zip(shape, f[n].shape, strict=True)
            )
        ]
        if any(0 in a.shape for a in self.graph.constants.values()):
            feeds = []
        return replace(self, feeds=feeds)

    def with_used_feeds(self) -> Case:
        """No numbers for inputs that are gone."""
        names = self.graph.inputs
        return replace(self, feeds=[{n: a for n, a in f.items() if n in names} for f in self.feeds])

    def text(self) -> str:
        """JSON, a node or an array a line."""
        known = {
            *self.graph.inputs,
            *self.graph.constants,
            *[o for n in all_nodes(self.graph) for o in n.outputs],
            *[i for g in _subgraphs(self.graph) for i in (*g.inputs, *g.constants)],
        }
        data = {
            "note": self.note,
            "opset": self.opset,
            "options": self.options,
            **_graph_data(self.graph),
            "feeds": [{n: _array_data(a) for n, a in f.items()} for f in self.feeds],
            "dtypes": {n: t for n, t in self.dtypes.items() if n in known},
            "errors": {n: e for n, e in self.errors.items() if n in known},
        }
        return _lines(data) + "\n"

    @staticmethod
    def read(source: Path | str) -> Case:
        """A saved case."""
        d = json.loads(source.read_text() if isinstance(source, Path) else source)
        feeds = [{n: _array_read(a) for n, a in f.items()} for f in d["feeds"]]
        graph = _graph_read(d)
        return Case(
            d["opset"], graph, d["dtypes"], d["errors"], feeds, d["options"], d.get("note", "")
        )


def pruned(graph: Graph, results: list[str]) -> Graph:
    """A graph without what its results do not need."""
    wanted, nodes = set(results), []
    for node in reversed(graph.nodes):
        if wanted & set(node.outputs):
            nodes.append(node)
            wanted |= node.reads()
    return Graph(
        nodes[::-1],
        {n: t for n, t in graph.inputs.items() if n in wanted},
        {n: a for n, a in graph.constants.items() if n in wanted},
        results,
    )


def _subgraphs(graph: Graph) -> list[Graph]:
    own = [v for n in graph.nodes for v in n.attrs.values() if isinstance(v, Graph)]
    return [*own, *[g for inner in own for g in _subgraphs(inner)]]


def all_nodes(graph: Graph) -> list[Node]:
    """Those of branches too."""
    return [*graph.nodes, *[n for g in _subgraphs(graph) for n in g.nodes]]


# ------------------------------------------------------------------------------------------- ONNX


def _type_of(dtype: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(numpy_type(dtype)))


def _graph_proto(graph: Graph, dtypes: dict[str, str], name: str) -> onnx.GraphProto:
    return helper.make_graph(
        [_node_proto(n, k, dtypes) for k, n in enumerate(graph.nodes)],
        name,
        [
            helper.make_tensor_value_info(n, _type_of(t), shape)
            for n, (t, shape) in graph.inputs.items()
        ],
        [helper.make_tensor_value_info(n, _type_of(dtypes[n]), None) for n in graph.results],
        [numpy_helper.from_array(a, n) for n, a in graph.constants.items()],
    )


def _node_proto(node: Node, number: int, dtypes: dict[str, str]) -> onnx.NodeProto:
    attrs = {}
    for name, value in node.attrs.items():
        if isinstance(value, Graph):
            value = _graph_proto(value, dtypes, f"{name}_{node.outputs[0]}")
        elif isinstance(value, np.ndarray):
            value = numpy_helper.from_array(value)
        attrs[name] = value
    made = helper.make_node(node.op, node.inputs, node.outputs, name=f"{node.op}_{number}")
    for name, value in attrs.items():
        kind = onnx.AttributeProto.INTS if isinstance(value, list) and not value else None
        made.attribute.append(helper.make_attribute(name, value, attr_type=kind))
    return made


# ------------------------------------------------------------------------------------------- JSON


def _lines(data: Any, depth: int = 0) -> str:
    """JSON with a line for each entry of the outer two levels."""
    inner = "  " * (depth + 1)
    if depth < 2 and isinstance(data, dict) and data:
        entries = [f"{inner}{json.dumps(k)}: {_lines(v, depth + 1)}" for k, v in data.items()]
        return "{\n" + ",\n".join(entries) + "\n" + "  " * depth + "}"
    if depth < 2 and isinstance(data, list) and data and isinstance(data[0], list | dict):
        entries = [f"{inner}{json.dumps(v)}" for v in data]
        return "[\n" + ",\n".join(entries) + "\n" + "  " * depth + "]"
    return json.dumps(data)


def _graph_data(graph: Graph) -> dict[str, Any]:
    return {
        "inputs": {n: [t, list(s)] for n, (t, s) in graph.inputs.items()},
        "constants": {n: _array_data(a) for n, a in graph.constants.items()},
        "nodes": [_node_data(n) for n in graph.nodes],
        "results": graph.results,
    }


def _node_data(node: Node) -> list[Any]:
    attrs: dict[str, Any] = {}
    for name, value in node.attrs.items():
        if isinstance(value, Graph):
            attrs[name] = {"graph": _graph_data(value)}
        elif isinstance(value, np.ndarray):
            attrs[name] = {"array": _array_data(value)}
        else:
            attrs[name] = value
    return [node.op, node.inputs, node.outputs, attrs]


def _array_data(a: Array) -> dict[str, Any]:
    wide = a.astype(np.float64) if a.dtype.kind not in "biu" else a
    return {"dtype": a.dtype.name, "shape": list(a.shape), "data": wide.ravel().tolist()}


def _array_read(data: dict[str, Any]) -> Array:
    return np.array(data["data"], numpy_type(data["dtype"])).reshape(data["shape"])


def _graph_read(data: dict[str, Any]) -> Graph:
    nodes = []
    for op, inputs, outputs, attrs in data["nodes"]:
        for name, value in attrs.items():
            if isinstance(value, dict):
                attrs[name] = (
                    _graph_read(value["graph"]) if "graph" in value else _array_read(value["array"])
                )
        nodes.append(Node(op, inputs, outputs, attrs))
    return Graph(
        nodes,
        {n: (t, s) for n, (t, s) in data["inputs"].items()},
        {n: _array_read(a) for n, a in data["constants"].items()},
        data["results"],
    )
