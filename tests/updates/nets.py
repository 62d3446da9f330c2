"""Networks with a cache: each call adds a key and a value, and attends to all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.models.control_nets import FLOAT, Body, turn
from tests.models.net import Array, Net

HEADS, ROWS, DEPTH = 4, 16, 8
WAYS = ("scatter_nd", "scatter_elements", "tensor_scatter", "concat")
"""How exporters write that a cache gets another row."""


def step(way: str, rows: int = ROWS, heads: int = HEADS, depth: int = DEPTH) -> onnx.ModelProto:
    """q, k, v [1, heads, 1, depth], the position [1], two caches; gives the attention and both."""
    net = Net(5)
    q, *new = (net.input(n, [1, heads, 1, depth]) for n in "qkv")
    at = net.input("at", [1], np.int64)
    before = "past" if way == "concat" else rows
    past = [net.input(f"past_{n}", [1, heads, before, depth]) for n in "kv"]
    keys, values = (
        row_added(net, way, *pair, at, heads, depth) for pair in zip(past, new, strict=True)
    )
    turned = net.op("Transpose", keys, perm=[0, 1, 3, 2])
    scores = net.op("Softmax", net.op("MatMul", q, turned), axis=-1)
    made = net.model(net.op("MatMul", scores, values), keys, values)
    for n, name in enumerate(("y", "present_k", "present_v")):
        _rename(made, made.graph.output[n].name, name)
    made.opset_import[0].version = 24 if way == "tensor_scatter" else 18
    return made


def row_added(
    net: Net, way: str, cache: str, new: str, at: str, heads: int = HEADS, depth: int = DEPTH
) -> str:
    """A cache with another row."""
    if way == "concat":
        return net.op("Concat", cache, new, axis=2)
    if way == "tensor_scatter":
        return net.op("TensorScatter", cache, new, at, axis=2)
    if way == "scatter_elements":
        place = net.op("Unsqueeze", at, net.ints(0, 1, 3))
        places = net.op("Expand", place, net.ints(1, heads, 1, depth))
        return net.op("ScatterElements", cache, places, new, axis=2)
    rows_first = [net.op("Transpose", x, perm=[2, 0, 1, 3]) for x in (cache, new)]
    made = net.op("ScatterND", rows_first[0], net.op("Unsqueeze", at, net.ints(1)), rows_first[1])
    return net.op("Transpose", made, perm=[1, 2, 0, 3])


def _rename(model: onnx.ModelProto, old: str, new: str) -> None:
    for node in model.graph.node:
        node.input[:] = [new if i == old else i for i in node.input]
        node.output[:] = [new if o == old else o for o in node.output]
    for value in model.graph.output:
        value.name = new if value.name == old else value.name


def step_inputs(seed: int, heads: int = HEADS, depth: int = DEPTH) -> list[Array]:
    random = np.random.default_rng(seed)
    new = [random.standard_normal((1, heads, 1, depth)).astype("float32") for _ in "qkv"]
    return [*new, np.array([seed])]


def appended(rows: int, heads: int = HEADS, depth: int = DEPTH) -> onnx.ModelProto:
    """A cache that gets another row, and nothing else."""
    net = Net(5)
    new, at = net.input("k", [1, heads, 1, depth]), net.input("at", [1], np.int64)
    cache = net.input("past_k", [1, heads, rows, depth])
    made = net.model(row_added(net, "scatter_elements", cache, new, at, heads, depth))
    _rename(made, made.graph.output[0].name, "present_k")
    return made


def filled(rows: int, width: int = 8) -> onnx.ModelProto:
    """A Loop that adds one to a row of a cache after the other."""
    net = Net(6)
    most = net.input("most", [], np.int64)
    cache = net.input("cache", [rows, width])
    body, i = turn(net, "row")
    own = body.input("own", [rows, width])
    at = body.op("Unsqueeze", i, body.ints(0, 1))
    row = body.op("Add", body.op("GatherND", own, at), body.const(1.0))
    made = body.op("ScatterND", own, at, row)
    graph = body.graph(body.op("Identity", f"{body.name}_go"), made)
    return net.model(net.op("Loop", most, "", cache, body=graph))


def chosen(rows: int, width: int = 8) -> onnx.ModelProto:
    """A branch: a row of a cache becomes x, or -x; also gives the sum of x."""
    net = Net(7)
    flag = net.input("flag", [], np.bool_)
    at = net.input("at", [1, 1], np.int64)
    x = net.input("x", [1, width])
    cache = net.input("cache", [rows, width])
    yes, no = Body(net, "yes"), Body(net, "no")
    sides = yes.op("ScatterND", cache, at, x), no.op("ScatterND", cache, at, no.op("Neg", x))
    graphs: dict[str, Any] = {"then_branch": yes.graph(sides[0]), "else_branch": no.graph(sides[1])}
    made = net.model(net.op("If", flag, **graphs), net.op("ReduceSum", x))
    _rename(made, made.graph.output[0].name, "after")
    return made


def averaged(size: int = 6) -> onnx.ModelProto:
    """A state that is computed anew from itself: a running mean, elementwise and by a product."""
    graph = helper.make_graph(
        [
            helper.make_node("Mul", ["mean", "decay"], ["faded"]),
            helper.make_node("Add", ["faded", "x"], ["mean_after"]),
            helper.make_node("MatMul", ["hidden", "w"], ["turned"]),
            helper.make_node("Tanh", ["turned"], ["hidden_after"]),
            helper.make_node("Add", ["mean_after", "hidden_after"], ["y"]),
        ],
        "averaged",
        [helper.make_tensor_value_info(n, FLOAT, [size, size]) for n in ("x", "mean", "hidden")],
        [helper.make_tensor_value_info(n, FLOAT, [size, size])
         for n in ("y", "mean_after", "hidden_after")],
        [
            helper.make_tensor("decay", TensorProto.FLOAT, [], [0.5]),
            helper.make_tensor("w", FLOAT, [size, size], np.eye(size).ravel() * 0.9),
        ],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
