"""Converters of operators that move elements."""

from __future__ import annotations

from smelt.frontend.common import Value, dynamic

from .node import Node
from .registry import Ints, tflite_op


@tflite_op("RESHAPE")
def reshape(g: Node, x: Value, shape: Value | None = None, *, new_shape: Ints = ()) -> Value:
    """The elements in another shape; an extent -1 is what remains."""
    wanted = shape if shape is not None else g.known(new_shape, "int64")
    if shape is not None and shape.rank != 1:
        wanted = g.known(new_shape, "int64")
    return dynamic.reshape(g, x, wanted, allowzero=True)
