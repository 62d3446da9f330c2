"""Another importer by smelt.frontend.common alone: nodes are dicts, and most are not known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import smelt
from smelt.frontend.common import (
    Build,
    Environment,
    Graph,
    Importer,
    Input,
    ModelNode,
    Operand,
    Value,
    dynamic,
    windows,
)
from smelt.ir.errors import ImportFailure, Unsupported
from smelt.ir.module import IRModule
from smelt.relax.interpret import interpret


def dense(g: Build, x: Value, w: Value, b: Value | None = None, *, scale: float = 1.0) -> Value:
    """Scale x w + b."""
    y = g.call("multiply", g.call("matmul", x, w), scale)
    return y if b is None else g.call("add", y, b)


def relu(g: Build, x: Value) -> Value:
    return g.call("relu", x)


def reshape(g: Build, x: Value, shape: Value) -> Value:
    return dynamic.reshape(g, x, shape)


def window_pool(g: Build, x: Value, *, size: tuple[int, ...], same: bool = False) -> Value:
    """The largest of each window of an image."""
    how = "SAME_UPPER" if same else "VALID"
    image, window = windows.fitted(g, x, size, -np.inf, auto_pad=how, strides=size)
    return g.call("max_pool", image, **window.attrs())


OPERATORS: dict[str, Callable[..., Value]] = {
    "dense": dense, "relu": relu, "reshape": reshape, "window pool": window_pool,
}  # fmt: skip


class Toy(Importer):
    """A list of dicts on its way in."""

    def known(self, step: ModelNode) -> bool:
        return step.op in OPERATORS

    def convert(
        self, step: ModelNode, operands: Sequence[Operand | None], scope: Environment
    ) -> Sequence[Operand]:
        return Build(step, scope).results(OPERATORS[step.op], *operands, **step.attrs)


def from_toy(
    nodes: Sequence[Mapping[str, Any]], inputs: Mapping[str, Sequence[Any]],
    arrays: Mapping[str, Any] | None = None, shapes: Mapping[str, Any] | None = None,
) -> IRModule:  # fmt: skip
    """A module of nodes {op, from, to, and attributes}; the last one gives the result."""
    steps = []
    for node in nodes:
        attrs = dict(node)
        op, read, made = attrs.pop("op"), tuple(attrs.pop("from").split()), attrs.pop("to")
        steps.append(ModelNode("", op, read, (made,), attrs))
    given = [Input(n, "int64" if n == "shape" else "float32", tuple(s)) for n, s in inputs.items()]
    known = {n: np.asarray(a) for n, a in (arrays or {}).items()}
    graph = Graph("toy", given, known, steps, [nodes[-1]["to"]])
    return Toy("net.toy", graph, shapes or {}, {}).module("toy")


W = np.arange(12, dtype=np.float32).reshape(4, 3) - 5
B = np.array([1, -40, 3], np.float32)


def test_a_network_is_imported_and_computes() -> None:
    module = from_toy(
        [
            {"op": "window pool", "from": "x", "to": "pooled", "size": (2, 2), "same": True},
            {"op": "reshape", "from": "pooled flat", "to": "rows"},
            {"op": "dense", "from": "rows w b", "to": "sums", "scale": 0.5},
            {"op": "relu", "from": "sums", "to": "y"},
        ],
        {"x": ("batch", 1, 3, 3)},
        {"flat": np.array([-1, 4]), "w": W, "b": B},
    )
    x = np.arange(18, dtype=np.float32).reshape(2, 1, 3, 3)
    (y,) = interpret(module["main"], x)
    rows = x[:, 0][:, [1, 1, 2, 2], [1, 2, 1, 2]]
    assert np.array_equal(y, np.maximum(rows @ W / 2 + B, 0))


def test_a_size_may_be_known_only_at_run_time() -> None:
    module = from_toy(
        [
            {"op": "relu", "from": "x", "to": "t"},
            {"op": "reshape", "from": "t shape", "to": "rows"},
            {"op": "dense", "from": "rows w", "to": "y"},
        ],
        {"x": ("n",), "shape": (2,)},
        {"w": W},
    )
    assert module.attrs["typed"]
    x = np.arange(12, dtype=np.float32)
    run = smelt.compile(module)
    for shape in ((3, 4), (-1, 4)):
        assert np.array_equal(run(x, np.array(shape)).numpy(), x.reshape(3, 4) @ W)


def test_all_that_is_not_supported_is_one_error() -> None:
    nodes: list[dict[str, Any]] = [
        {"op": "fold", "from": "x", "to": "a"},
        {"op": "relu", "from": "a", "to": "b"},
        {"op": "fold", "from": "b", "to": "c"},
        {"op": "window pool", "from": "x", "to": "d", "size": ("k", 2)},
        {"op": "twist", "from": "c d", "to": "y"},
    ]
    with pytest.raises(Unsupported) as e:
        from_toy(nodes, {"x": (1, 1, 4, 4)})
    assert str(e.value) == (
        "net.toy: 3 things not supported\n"
        "  fold: 2 nodes ('a', 'c')\n"
        "  twist: 1 node ('y')\n"
        "  window pool: 1 node ('d'): a kernel of symbolic size\n"
        "    supported: constant kernels"
    )


def test_an_error_names_model_node_and_operator() -> None:
    with pytest.raises(ImportFailure, match=r"^net.toy: node 'y' \(reshape\): the shape \(3, -1\)"):
        from_toy([{"op": "reshape", "from": "x s", "to": "y"}], {"x": (4,)}, {"s": [3, -1]})
