"""Small ONNX models, and their results by onnxruntime and by the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from smelt.frontend.onnx import from_onnx
from smelt.relax.equal import structural_equal
from smelt.relax.interpret import interpret
from smelt.relax.parser import parse
from smelt.relax.printer import constant_names, script
from smelt.relax.verify import verify

Arrays = Mapping[str, np.ndarray]


def node(
    op: str, inputs: Sequence[str], outputs: Sequence[str] = ("y",), **attrs: Any
) -> onnx.NodeProto:
    return helper.make_node(
        op, list(inputs), list(outputs), name=f"{op.lower()}_{outputs[0]}", **attrs
    )


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[Sequence[Any] | None, Any]],
    outputs: Sequence[str] = ("y",),
    constants: Arrays | None = None,
    opset: int = 18,
) -> onnx.ModelProto:
    """A model; inputs are (shape, numpy type)."""
    made = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.dtype(t)), s)
        for n, (s, t) in inputs.items()
    ]
    arrays = [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()]
    results = [helper.make_empty_tensor_value_info(o) for o in outputs]
    graph = helper.make_graph(list(nodes), "test", made, results, arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def typed(m: onnx.ModelProto) -> onnx.ModelProto:
    """onnxruntime wants results with types: inference finds them."""
    full = onnx.shape_inference.infer_shapes(m)
    kinds = {o.name: o.type.tensor_type.elem_type for o in full.graph.output}
    copy = onnx.ModelProto()
    copy.CopyFrom(m)
    for o in copy.graph.output:
        o.type.tensor_type.elem_type = kinds.get(o.name) or TensorProto.FLOAT
    return copy


def reference(m: onnx.ModelProto, inputs: Arrays, optimized: bool = True) -> list[np.ndarray]:
    """onnxruntime's results; optimized: whether it may rewrite the graph."""
    options = onnxruntime.SessionOptions()
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        typed(m).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, dict(inputs)))


def check(m: onnx.ModelProto, inputs: Arrays, tolerance: float = 2e-6, **options: Any) -> None:
    """The imported model gives onnxruntime's results; it verifies, and its text reads back."""
    mod = from_onnx(m, **options)
    verify(mod)
    f = mod["main"]
    arrays = {n: c.data for n, c in constant_names(f).items()}
    assert structural_equal(parse(script(mod), arrays), mod)
    want = reference(m, inputs)
    got = interpret(f, *[inputs[p.name] for p in f.params])
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        if b.dtype.kind == "f":
            scale = max(float(np.abs(b[np.isfinite(b)]).max(initial=0)), 1e-30)
            np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * scale, equal_nan=True)
        else:
            np.testing.assert_array_equal(a, b)


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
