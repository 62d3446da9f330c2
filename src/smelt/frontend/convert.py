"""A model in any form that is accepted, written as a standard one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import onnx

from smelt.ir.sizes import Extent

from .onnx import write
from .source import import_model


def to_onnx(
    model: Any, path: str | os.PathLike[str] | None = None, *,
    shapes: Mapping[str, Sequence[Extent]] | None = None, opset: int = 21, name: str | None = None,
) -> onnx.ModelProto:  # fmt: skip
    """A model as a standard ONNX model, which onnxruntime opens.

    model   what smelt.compile takes
    path    write it there, too; constants beyond 2 GB lie beside it
    shapes  of inputs, as smelt.compile takes them
    opset   the operator set that nodes are of
    name    the graph's; None: the model's own

    Raises Unsupported, which lists every operator that has no form in ONNX.
    """
    made = write.to_onnx(import_model(model, shapes), opset=opset, name=name)
    if path is not None:
        write.put(made, path)
    return made
