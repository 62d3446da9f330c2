"""Many nodes in one model: compiled and by the interpreter, against onnxruntime or ONNX itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

import smelt
from smelt.frontend.onnx import from_onnx
from smelt.relax.interpret import interpret
from smelt.relax.verify import verify

from .models import model, node, reference


class Node(NamedTuple):
    """One node: operands that are inputs, operands that are constants, attributes."""

    op: str
    inputs: tuple[Any, ...]
    known: tuple[Any, ...]
    outputs: int
    attrs: dict[str, Any]


def one(op: str, *inputs: Any, known: Sequence[Any] = (), outputs: int = 1, **attrs: Any) -> Node:
    return Node(op, inputs, tuple(known), outputs, attrs)


def joined(nodes: Sequence[Node], opset: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """One model of all nodes, and its inputs; the same array is the same input."""
    made, inputs, constants, results = [], {}, {}, []
    names: dict[int, str] = {}
    for k, n in enumerate(nodes):
        own = []
        for i, x in enumerate((*n.inputs, *n.known)):
            if x is None:
                own.append("")
                continue
            array = np.asarray(x)
            if i < len(n.inputs):
                name = names.setdefault(id(x), f"x{len(names)}")
                inputs[name] = array
            else:
                name = f"c{k}_{i}"
                constants[name] = array
            own.append(name)
        outputs = [f"y{k}_{i}" for i in range(n.outputs)]
        made.append(node(n.op, own, outputs, **n.attrs))
        results += outputs
    kinds = {n: (a.shape, a.dtype) for n, a in inputs.items()}
    return model(made, kinds, results, constants, opset), inputs


def check_all(
    nodes: Sequence[Node],
    opset: int,
    tolerance: float = 2e-6,
    oracle: str = "onnxruntime",
    compiled: bool = True,
) -> None:
    """The results of all nodes; tolerance is relative to the largest number of a result.

    compiled  or by the interpreter only
    """
    m, inputs = joined(nodes, opset)
    if oracle == "onnxruntime":
        want = reference(m, inputs)
    else:
        found = ReferenceEvaluator(m).run(None, inputs)
        want = [np.asarray(v) for v in found]
    mod = from_onnx(m)
    verify(mod)
    f = mod["main"]
    given = [inputs[p.name] for p in f.params]
    several = [interpret(f, *given)]
    if compiled:
        made = smelt.compile(mod, options=smelt.Options(threads=1, workers=0))(*given)
        listed = made if isinstance(made, tuple) else (made,)
        several.append([np.asarray(x.numpy()) for x in listed])
    for results in several:
        assert len(results) == len(want)
        rest = iter(zip(results, want, strict=True))
        for n in nodes:
            for _ in range(n.outputs):
                close(*next(rest), tolerance, f"{n.op}{n.known}{n.attrs}")


def close(a: np.ndarray, b: np.ndarray, tolerance: float, what: str) -> None:
    assert a.shape == b.shape, what
    assert a.dtype == b.dtype, what
    if b.dtype.kind == "f":
        scale = max(float(np.abs(b[np.isfinite(b)]).max(initial=0)), 1e-30)
        np.testing.assert_allclose(
            a.astype(np.float64), b, rtol=0, atol=tolerance * scale, equal_nan=True, err_msg=what
        )
    else:
        np.testing.assert_array_equal(a, b, err_msg=what)
