"""A compiled model beside onnxruntime: what a test of a whole network needs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import numpy_helper

import smelt
from smelt.cli.results import arrays, largest_error
from smelt.runtime import Executable
from tests.frontend.models import reference
from tests.models.net import Array, Feeds

TOLERANCE = 1e-4  # of max |a - b| / max |b|, per output


def compiled(
    model: onnx.ModelProto, cache: str, threads: int | None = None, target: str | None = None
) -> Executable:
    options = smelt.Options(threads=threads, cache_dir=cache)
    made: Executable = smelt.compile(model, target, options=options)
    return made


def run(exe: Executable, feeds: Feeds) -> list[Array]:
    return list(arrays(exe(**feeds)))


def agree(ours: Sequence[Array], theirs: Sequence[Array]) -> None:
    """The same types and shapes, and values within the tolerance."""
    assert [(a.dtype, a.shape) for a in ours] == [(b.dtype, b.shape) for b in theirs]
    for b in theirs:
        assert np.isfinite(b).all()
    error = largest_error(ours, theirs)
    assert error <= TOLERANCE, f"max |a - b| / max |b| is {error:.3e}"


def check(exe: Executable, model: onnx.ModelProto, feeds: Feeds) -> None:
    agree(run(exe, feeds), reference(model, feeds))


def permuted(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the output channels of a layer from its middle turned round by one."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    weights = {t.name: t for t in copy.graph.initializer}
    layers = [
        (n.op_type, n.input[1])
        for n in copy.graph.node
        if n.op_type in ("Conv", "Gemm", "MatMul") and n.input[1] in weights
    ]
    kind, name = layers[len(layers) // 2]
    value = numpy_helper.to_array(weights[name])
    turned = np.roll(value, 1, axis=1 if kind == "MatMul" else 0)
    weights[name].CopyFrom(numpy_helper.from_array(turned, name))
    return copy
