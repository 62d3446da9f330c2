"""ONNX models whose weights are inputs."""

from __future__ import annotations

import os
from typing import Any

# Operators whose small float operands are settings that the importer has to know.
_SETTINGS = ("Resize", "Upsample", "Clip", "Pad", "Dropout", "OneHot", "Range", "ConstantOfShape",
             "QuantizeLinear", "DequantizeLinear")  # fmt: skip


def unfrozen(model: Any) -> tuple[Any, set[str]]:
    """A copy of the model with its weights as inputs, and their names."""
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
    return made, names
