"""What metadata say of kernels: names of nodes, arithmetic and bytes, against our own arithmetic."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import smelt
from smelt import relay

Shapes = dict[str, tuple[Any, ...]]


def network(nodes: list[Any], inputs: Shapes, weights: Shapes, indices: Shapes) -> ModelProto:
    """A model of some nodes, whose result is `y`; indices: inputs of integers."""
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
    given += [helper.make_tensor_value_info(n, TensorProto.INT64, s) for n, s in indices.items()]
    arrays = [numpy_helper.from_array(np.full(s, 0.5, np.float32), n) for n, s in weights.items()]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "net", given, [result], arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def kernels(op: str, inputs: Shapes, weights: Shapes, **attributes: Any) -> list[dict[str, Any]]:
    """The kernels of one node."""
    indices = {n: s for n, s in inputs.items() if n == "i"}
    floats = {n: s for n, s in inputs.items() if n != "i"}
    names = [*weights, *inputs] if indices else [*inputs, *weights]
    node = helper.make_node(op, names, ["y"], name="case", **attributes)
    exe = smelt.compile(network([node], floats, weights, indices))
    return list(map(dict, exe.metadata["kernels"]))


def two_layers() -> ModelProto:
    """Two products of the same form, one after the other; the last node has no name."""
    make = helper.make_node
    nodes = [
        make("MatMul", ["x", "w"], ["a"], name="first/product"),
        make("Relu", ["a"], ["b"], name="first/relu"),
        make("MatMul", ["b", "w"], ["c"], name="second/product"),
        make("Relu", ["c"], ["y"]),
    ]
    return network(nodes, {"x": (4, 8)}, {"w": (8, 8)}, {})


def test_kernels_of_one_function_name_their_own_nodes() -> None:
    exe = smelt.compile(two_layers())
    first, second = exe.metadata["kernels"]
    assert first["symbol"] == second["symbol"]
    assert first["nodes"] == ["first/product", "first/relu"]
    assert second["nodes"][0] == "second/product"
    assert "" not in second["nodes"]
    report = exe.profile(np.ones((4, 8), np.float32), repeat=2)
    assert [list(k.nodes) for k in report.kernels] == [first["nodes"], second["nodes"]]
    assert "first/product, first/relu" in report.table()
    assert [len(r.starts) for r in report.runs] == [2, 2]
    assert all(r.starts[0] < r.starts[1] for r in report.runs)
    assert json.loads(report.json())["kernels"][1]["nodes"] == second["nodes"]


def test_the_classic_path_keeps_the_names() -> None:
    mod, params = relay.frontend.from_onnx(two_layers())
    lib = relay.build(mod, params=params)
    assert lib.lib.metadata["kernels"][0]["nodes"] == ["first/product", "first/relu"]
    a = relay.var("a", shape=(3,))
    plain = relay.build(relay.IRModule.from_expr(relay.Function([a], relay.nn.relu(a))))
    assert plain.lib.metadata["kernels"][0]["nodes"] == []


CONVOLUTIONS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 8, 14, 14, 16, 3), {}),
    ((2, 8, 14, 14, 16, 3), {"pads": [1] * 4}),
    ((1, 3, 15, 13, 5, 5), {"pads": [2] * 4, "strides": [2, 2]}),
    ((1, 8, 14, 14, 8, 3), {"pads": [2] * 4, "dilations": [2, 2]}),
    ((1, 8, 9, 9, 12, 3), {"pads": [1] * 4, "group": 4}),
    ((1, 16, 9, 9, 16, 3), {"pads": [1] * 4, "group": 16, "strides": [2, 2]}),
    ((1, 8, 7, 7, 24, 1), {}),
]


@pytest.mark.parametrize(("sizes", "attributes"), CONVOLUTIONS)
def test_arithmetic_of_convolutions(sizes: tuple[int, ...], attributes: dict[str, Any]) -> None:
    n, c, h, w, o, k = sizes
    groups = attributes.get("group", 1)
    found = kernels("Conv", {"x": (n, c, h, w)}, {"f": (o, c // groups, k, k)}, **attributes)
    pad, stride, step = (attributes.get(a, [d])[0] for a, d in
                         (("pads", 0), ("strides", 1), ("dilations", 1)))  # fmt: skip

    def taps(size: int) -> int:
        """Taps inside the image, of all results of a column."""
        firsts = range(-pad, size + pad - step * (k - 1), stride)
        return sum(0 <= first + step * tap < size for first in firsts for tap in range(k))

    assert sum(x["flops"] for x in found) == 2 * n * o * (c // groups) * taps(h) * taps(w)
    assert [x["nodes"] for x in found if x["flops"]] == [["case"]]


@pytest.mark.parametrize(
    ("op", "inputs", "weights", "attributes", "expected"),
    [
        ("MatMul", {"a": (5, 7)}, {"b": (7, 9)}, {}, 2 * 5 * 7 * 9),
        ("MatMul", {"a": (2, 5, 7), "b": (2, 7, 3)}, {}, {}, 2 * 2 * 5 * 7 * 3),
        ("Gemm", {"a": (5, 7)}, {"b": (9, 7), "c": (9,)}, {"transB": 1}, 2 * 5 * 7 * 9 + 5 * 9),
        ("MaxPool", {"x": (1, 4, 8, 8)}, {}, {"kernel_shape": [3, 3]}, 4 * 6 * 6 * 9),
        ("MaxPool", {"x": (1, 4, 8, 8)}, {}, {"kernel_shape": [3, 3], "pads": [1] * 4}, 4 * 22 * 22),
        ("AveragePool", {"x": (1, 4, 8, 8)}, {}, {"kernel_shape": [2, 2]}, 4 * 7 * 7 * (4 + 1)),
        ("GlobalAveragePool", {"x": (1, 4, 8, 8)}, {}, {}, 4 * 8 * 8 + 4),
        ("Relu", {"x": (3, 5)}, {}, {}, 15),
        ("Transpose", {"x": (3, 5)}, {}, {}, 0),
    ],
)
def test_arithmetic(
    op: str, inputs: Shapes, weights: Shapes, attributes: dict[str, Any], expected: int
) -> None:
    assert sum(k["flops"] for k in kernels(op, inputs, weights, **attributes)) == expected


def test_costs_of_symbolic_sizes() -> None:
    (found,) = kernels("MatMul", {"a": ("n", 7)}, {"b": (7, 9)})
    values = [eval(str(found[what]), {"n": 11}) for what in ("flops", "bytes")]
    assert values == [2 * 11 * 7 * 9, 4 * (11 * 7 + 7 * 9 + 11 * 9)]
    pool = kernels("MaxPool", {"x": ("n", 4, 8, 8)}, {}, kernel_shape=[3, 3], pads=[1] * 4)
    assert sum(eval(str(k["flops"]), {"n": 3}) for k in pool) == 3 * 4 * 22 * 22


def test_of_a_table_only_the_rows_that_are_picked_are_moved() -> None:
    (found,) = kernels("Gather", {"i": (3,)}, {"table": (1000, 16)})
    assert found["bytes"] == 3 * 8 + 2 * (3 * 16 * 4)
