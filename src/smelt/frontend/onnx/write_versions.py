"""Nodes of today's form as older operator sets have them."""

from __future__ import annotations

import numpy as np

from smelt.ir.errors import Unsupported

from .write_graph import Node, Writer

OLDEST = 11
"""The first operator set that models can be written in."""

_AXES = {"Squeeze": 13, "Unsqueeze": 13, "ReduceSum": 13} | {
    f"Reduce{name}": 18
    for name in ("Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")
}
"""From which operator set on the axes are an operand; before, an attribute of this name."""


def lowered(node: Node, w: Writer) -> list[Node]:
    """The node, or what it is in an older operator set."""
    since = _AXES.get(node.op, 13 if node.op == "Split" else 0)
    if w.opset >= since or len(node.inputs) < 2:
        return [node]
    name = "split" if node.op == "Split" else "axes"
    data = w.constants.get(node.inputs[1])
    if data is None:
        raise Unsupported(f"{node.op} with computed {name} comes with operator set {since}")
    attrs = {**node.attrs, name: [int(v) for v in np.ravel(data)]}
    return [Node(node.op, node.inputs[:1], node.outputs, attrs, node.label)]
