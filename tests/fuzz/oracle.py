"""What a case's results ought to be: by onnxruntime, or else by the onnx package's evaluator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

from .case import Array, Case, all_nodes, numpy_type

__all__ = ["NoOracle", "expected"]


Runs = list[list[Array] | None]


class NoOracle(Exception):
    """Neither can run the graph."""


def expected(case: Case) -> tuple[str, Runs]:
    """Who says so, and the results of each run; None for a run that is refused."""
    model = case.model()
    try:
        return "onnxruntime", by_onnxruntime(model, case)
    except Exception as e:
        first = e
    doubtful = {n.op for n in all_nodes(case.graph)} & DOUBTED
    if doubtful:
        raise NoOracle(f"onnxruntime: {str(first)[:300]}; the reference errs in {doubtful}")
    try:
        return "onnx.reference", by_reference(model, case)
    except Exception as e:
        raise NoOracle(f"onnxruntime: {str(first)[:300]}; reference: {str(e)[:300]}") from e


def by_onnxruntime(model: onnx.ModelProto, case: Case) -> Runs:
    """All optimisations off, one thread."""
    if any(a.dtype.name not in _NATIVE for f in case.feeds for a in f.values()):
        raise NoOracle("a type that onnxruntime's Python interface lacks")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return _each(lambda feed: list(session.run(None, feed)), case)


def _each(run: Callable[[dict[str, Array]], list[Array]], case: Case) -> Runs:
    """The runs that are not refused; where all are, what the last one says is raised."""
    found, refusal = Runs(), Exception("no runs")
    for feed in case.feeds:
        try:
            found.append(run(feed))
        except Exception as e:
            found.append(None)
            refusal = e
    if not any(results is not None for results in found):
        raise refusal
    return found


def by_reference(model: onnx.ModelProto, case: Case) -> Runs:
    """The evaluator of the onnx package, its results in the types that they are declared with.

    A run in which something is empty is not judged where an operator differs from onnxruntime's
    then.
    """
    evaluator = ReferenceEvaluator(model)
    careless = {n.op for n in all_nodes(case.graph)} & DOUBTED_OF_NOTHING

    def run(feed: dict[str, Array]) -> list[Array]:
        values: Any = evaluator.run(None, feed, intermediate=True)
        if careless and any(a.size == 0 for a in values.values() if isinstance(a, np.ndarray)):
            raise NoOracle(f"the reference errs in {careless} of nothing")
        results = [values[name] for name in case.graph.results]
        for name, a in zip(case.graph.results, results, strict=True):
            if a.dtype != numpy_type(case.dtypes[name]):
                raise NoOracle(f"{name} is {a.dtype}, not {case.dtypes[name]}")
        return results

    return _each(run, case)


_NATIVE = {
    "float16", "float32", "float64", "bool", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64",
}  # fmt: skip

DOUBTED = {
    "AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "Erf", "GlobalAveragePool",
    "GlobalMaxPool", "GridSample", "LRN", "LogSoftmax", "Loop", "MaxPool", "QLinearConv",
    "QLinearMatMul", "Resize", "Slice", "Softmax", "Upsample",
}  # fmt: skip
"""Operators in which the onnx package's evaluator was found to be wrong, or inexact."""

DOUBTED_OF_NOTHING = {"Gather", "LayerNormalization", "ReduceMean", "TopK"}
"""Operators that onnxruntime refuses there, or says to be 0."""
