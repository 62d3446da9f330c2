"""What Relay's and Relax's importers ask besides: weights as inputs, what the file says already."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from smelt.frontend.common.inputs import refuse_other_types
from smelt.ir.errors import ImportFailure, Unsupported

from .read import ModelFile

# Operators whose small float operands are settings that the importer has to know.
_SETTINGS = ("Resize", "Upsample", "Clip", "Pad", "Dropout", "OneHot", "Range", "ConstantOfShape",
             "QuantizeLinear", "DequantizeLinear")  # fmt: skip


def unfrozen(model: Any, read: ModelFile) -> tuple[Any, dict[str, np.ndarray]]:
    """A copy of a model that was read, with its weights as inputs, and the weights by name."""
    import onnx  # noqa: PLC0415  (heavy)

    made = onnx.ModelProto()
    if isinstance(model, bytes):
        made.ParseFromString(model)
    elif isinstance(model, onnx.ModelProto):
        made.CopyFrom(model)
    else:
        made = onnx.load(os.fspath(model))
    graph = made.graph
    fixed = {name for n in graph.node if n.op_type in _SETTINGS for name in n.input}
    floats = {onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16}
    names, kept = set(), []
    declared = {i.name for i in graph.input}
    for t in graph.initializer:
        if t.data_type not in floats or not t.dims or t.name in fixed:
            kept.append(t)
            continue
        names.add(t.name)
        if t.name not in declared:
            info = onnx.helper.make_tensor_value_info(t.name, t.data_type, list(t.dims))
            graph.input.append(info)
    remaining = [onnx.TensorProto.FromString(t.SerializeToString()) for t in kept]
    del graph.initializer[:]
    graph.initializer.extend(remaining)
    return made, {n: a for n, a in read.graph.arrays.items() if n in names}


def check_said(
    read: ModelFile, opset: int | None, dtypes: str | Mapping[str, str] | None, argument: str
) -> None:
    """Refuse a version or element types (of all float inputs, or by name) that the file has not."""
    have = read.opsets.get("")
    if opset is not None and opset != have:
        raise ImportFailure(f"from_onnx: opset={opset} given, but the model is of opset {have}; "
                            "convert it with onnx.version_converter")  # fmt: skip
    floats = [i.name for i in read.graph.inputs if i.dtype.startswith("float")]
    wanted = dict.fromkeys(floats, dtypes) if isinstance(dtypes, str) else dtypes or {}
    refuse_other_types(read.graph.inputs, wanted, f"from_onnx: {argument}")


def refuse_map(given: Mapping[Any, Any] | None, importer: str) -> None:
    """There is no map from torch's operators to be extended."""
    if given:
        raise Unsupported(
            f"{importer}: custom_convert_map has {next(iter(given))!r}, but there is no map: "
            "models come through ONNX; define an operator with smelt.op instead"
        )
