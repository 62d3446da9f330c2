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

from . import tflite
from .onnx import Survey, from_onnx, load
from .onnx import survey as survey_onnx
from .onnx.read import ModelFile
from .tflite.hybrid import in_floats
from .torch import ExportedProgram, ONNXProgram, as_onnx

ModelSource: TypeAlias = (
    str | os.PathLike[str] | bytes | onnx.ModelProto | ExportedProgram | ONNXProgram
    | IRModule | RelaxExpr
)  # fmt: skip
"""What can be compiled: an ONNX or TFLite model as a path or bytes, an ONNX message; PyTorch's
programs; a graph."""

FILES = (".onnx", ".tflite")
"""The endings of model files."""

MODELS = (os.PathLike, bytes, onnx.ModelProto, ExportedProgram, ONNXProgram, IRModule, RelaxExpr)


def load_model(model: Any) -> Any:
    """What is read of a model that is no graph yet, for import_loaded: its name and its graph."""
    return tflite.load(model) if tflite.is_tflite(model) else load(as_onnx(model))


def import_loaded(
    loaded: Any, shapes: Mapping[str, Sequence[Extent]] | None = None,
    values: Mapping[str, Any] | None = None, operators: Mapping[str, Any] | None = None,
) -> IRModule:  # fmt: skip
    """A model that was read as a module; see from_onnx."""
    importer = from_onnx if isinstance(loaded, ModelFile) else tflite.from_tflite
    return importer(loaded, plain_shapes(shapes)[0], values=values, operators=operators)


def import_floats(model: Any, shapes: Mapping[str, Sequence[Extent]] | None = None) -> IRModule:
    """The same, with weights in floats that a TFLite model dequantizes while it runs."""
    if isinstance(model, IRModule | RelaxExpr):
        return import_model(model, shapes)
    loaded = load_model(model)
    return import_loaded(loaded if isinstance(loaded, ModelFile) else in_floats(loaded), shapes)


def survey(model: Any, shapes: Mapping[str, Sequence[Extent]] | None = None) -> Survey:
    """What of a model file would work, operator by operator."""
    plain = plain_shapes(shapes)[0]
    return tflite.survey(model, plain) if tflite.is_tflite(model) else survey_onnx(model, plain)


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
    return import_loaded(load_model(model), shapes)


def import_named(
    model: Any, shapes: Mapping[str, Sequence[Extent]] | None
) -> tuple[IRModule, Sequence[str]]:
    """The same, and the names of its results, where a file has them."""
    if isinstance(model, IRModule | RelaxExpr):
        return import_model(model, shapes), ()
    loaded = load_model(model)
    return import_loaded(loaded, shapes), loaded.graph.outputs
