"""Nodes of today's form as older operator sets have them."""

from __future__ import annotations

import numpy as np

from .write_graph import Node, Writer

OLDEST = 11
"""The first operator set that models can be written in."""

_AXES = {"Squeeze": 13, "Unsqueeze": 13, "ReduceSum": 13} | {
    f"Reduce{name}": 18
    for name in ("Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")
}
"""From which operator set on the axes are an operand; before, an attribute of this name."""


def lowered(node: Node, w: Writer) -> Node:
    """The node as the operator set of the model has it."""
    since = _AXES.get(node.op, 0)
    if w.opset >= since or len(node.inputs) < 2:
        return node
    data = w.constants[node.inputs[1]]  # writers compute no axes
    attrs = {**node.attrs, "axes": [int(v) for v in np.ravel(data)]}
    return Node(node.op, node.inputs[:1], node.outputs, attrs, node.label)
