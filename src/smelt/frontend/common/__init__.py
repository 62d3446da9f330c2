"""What every importer needs: values known while importing, calls, moves, inputs, the walk."""

from .build import Build
from .graph import Graph, Input, ModelNode
from .problems import NeedsValues
from .values import Operand, SequenceValue, Value
from .walk import Environment, Importer

__all__ = [
    "Build", "Environment", "Graph", "Importer", "Input", "ModelNode", "NeedsValues", "Operand",
    "SequenceValue", "Value",
]  # fmt: skip
