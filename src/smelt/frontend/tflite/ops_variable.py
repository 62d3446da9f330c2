"""Converters of operators of variables, whose operands and results are values by now."""

from __future__ import annotations

from smelt.frontend.common import Value

from .node import Node
from .registry import tflite_op


@tflite_op("READ_VARIABLE")
def read_variable(g: Node, variable: Value) -> Value:
    """What a variable is where the node stands."""
    return variable


@tflite_op("ASSIGN_VARIABLE")
def assign_variable(g: Node, value: Value) -> Value:
    """What a variable is from now on."""
    return value
