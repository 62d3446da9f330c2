"""Written models beside what they are of: both in onnxruntime, or in onnx's own evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

from smelt.frontend.onnx import from_onnx
from smelt.frontend.onnx.write import NEWEST, to_onnx
from smelt.ir.errors import Unsupported
from smelt.ir.module import IRModule
from smelt.relax.transform.canonicalize import simplify_graph

Array = np.ndarray[Any, Any]
Run = Callable[[Mapping[str, Array]], Sequence[Any]]


def runtime(model: onnx.ModelProto, optimised: bool = True) -> Run:
    """A model in onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda feeds: list(session.run(None, dict(feeds)))


def evaluator(model: onnx.ModelProto) -> Run:
    """A model in onnx's evaluator, which has all operators and types."""
    made = ReferenceEvaluator(model)
    return lambda feeds: list(made.run(None, dict(feeds)))


def checked(mod: IRModule, opset: int = 21) -> onnx.ModelProto:
    """A module as a model that onnx's checker has looked at."""
    made = to_onnx(mod, opset=opset)
    onnx.checker.check_model(made, full_check=True)
    return made


def newest(mod: IRModule) -> onnx.ModelProto:
    """The same, of the newest operator set where an older one has not enough."""
    try:
        return checked(mod)
    except Unsupported:
        return checked(mod, NEWEST)


def both(model: onnx.ModelProto, opset: int = 21) -> list[onnx.ModelProto]:
    """A model read and written, straight and simplified."""
    mod = from_onnx(model)
    return [checked(m, opset) for m in (mod, simplify_graph(mod))]


def operators(model: onnx.ModelProto) -> list[str]:
    """What the nodes are."""
    return [n.op_type for n in model.graph.node]


def agree(ours: Sequence[Any], theirs: Sequence[Any], limit: float = 1e-5) -> None:
    """The same shapes and types, and values near enough."""
    assert [(a.dtype, a.shape) for a in ours] == [(b.dtype, b.shape) for b in theirs]
    for a, b in zip(ours, theirs, strict=True):
        if a.size and a.dtype.kind == "f":
            assert np.abs(a - b).max() <= limit * max(np.abs(b).max(), 1e-6)
        else:
            assert np.array_equal(a, b)
