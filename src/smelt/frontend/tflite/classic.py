"""What Relay's and Relax's importers ask besides: a model that a package has read, its types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smelt.frontend.common.inputs import Shapes, refuse_other_types
from smelt.ir.errors import Unsupported
from smelt.ir.module import IRModule
from smelt.runtime.errors import kind_of

from .importer import from_tflite
from .read import load


def imported(
    model: Any, shapes: Shapes | None, dtypes: Mapping[str, str] | None, op_converter: Any
) -> IRModule:
    """A module of a path, bytes, or a tflite.Model, whose inputs have the types that are said."""
    table = getattr(model, "_tab", None)
    read = load(model if table is None else bytes(table.Bytes))
    refuse_other_types(read.graph.inputs, dtypes or {}, "from_tflite: dtype_dict")
    if op_converter is not None and not isinstance(op_converter, Mapping):
        raise Unsupported(
            f"from_tflite: op_converter is {kind_of(op_converter)}\n"
            "  supported: {'custom.Operator': function}, as operators of smelt.compile"
        )
    return from_tflite(read, shapes, operators=op_converter)
