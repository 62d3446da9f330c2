"""A model in any form that is accepted."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import onnx

from smelt.ir.errors import CompileError
from smelt.ir.module import IRModule
from smelt.ir.sizes import Extent, plain_shapes
from smelt.relax.nodes import RelaxExpr

from .onnx import from_onnx, load
from .torch import ExportedProgram, ONNXProgram, as_onnx

ModelSource: TypeAlias = (
    str | os.PathLike[str] | bytes | onnx.ModelProto | ExportedProgram | ONNXProgram
    | IRModule | RelaxExpr
)  # fmt: skip
"""What can be compiled: an ONNX model as a path, bytes or message; PyTorch's programs; a graph."""

MODELS = (os.PathLike, bytes, onnx.ModelProto, ExportedProgram, ONNXProgram, IRModule, RelaxExpr)


def load_model(model: Any) -> Any:
    """What is read of a model that is no graph yet, for from_onnx."""
    return load(as_onnx(model))


def import_model(
    model: Any, shapes: Mapping[str, Sequence[Extent]] | None = None, **others: object
) -> IRModule:
    """A model in any accepted form as a module of graph functions; others: what only files have."""
    if isinstance(model, RelaxExpr):
        model = IRModule.from_expr(model)
    if isinstance(model, IRModule):
        late = next((n for n, given in {"shapes": shapes, **others}.items() if given), "")
        if late:
            raise CompileError(f"{late} are given with the model file; this is an IRModule already")
        return model
    return from_onnx(load_model(model), plain_shapes(shapes)[0])
