"""Relay programs as ONNX models, under the classic name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import onnx

from smelt import relay
from smelt.frontend.onnx import write
from smelt.ir.module import IRModule
from smelt.relay.build_module import bind_params


def to_onnx(
    relay_ir: Any, params: Mapping[str, Any] | None, name: str, opset_version: int = 21,
    path: str | os.PathLike[str] | None = None,
) -> onnx.ModelProto:  # fmt: skip
    """A module or a function of Relay as an ONNX model.

    params         the parameters of "main" that become constants, by name
    name           the graph's
    opset_version  the operator set that nodes are of
    path           write the model there, too
    """
    mod = relay_ir if isinstance(relay_ir, IRModule) else IRModule.from_expr(relay_ir)
    bound = bind_params(relay.transform.InferType()(mod), params or {})
    made = write.to_onnx(bound, opset=opset_version, name=name)
    if path is not None:
        write.put(made, path)
    return made
