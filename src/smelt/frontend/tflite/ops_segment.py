"""Converters of operators that gather elements into segments, and of those that are rarely met."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from smelt.frontend.common import Value
from smelt.frontend.common.moves import as_type
from smelt.frontend.common.values import simplify
from smelt.ir import dtype as dt

from .node import Node
from .registry import Floats, tflite_op


def _ends(dtype: str) -> tuple[float, float]:
    """The lowest and the highest finite number of a type."""
    if not dt.is_float(dtype):
        return dt.limits(dtype)
    most = float(ml_dtypes.finfo(dt.to_numpy(dtype)).max)
    return -most, most


def _segments(name: str, reduction: str) -> None:
    @tflite_op(f"UNSORTED_SEGMENT_{name}")
    def converter(g: Node, x: Value, ids: Value, count: Value) -> Value:
        """What stands in each segment, joined; ids say to which one an element belongs."""
        low, high = _ends(x.dtype)
        start = {"add": 0.0, "mul": 1.0, "max": low, "min": high}
        shape = (g.number(count, "num_segments"), *x.shape[ids.rank :])
        blank = g.call("full", shape=shape, value=start[reduction], dtype=x.dtype)
        rows = g.call("expand_dims", ids, axes=(ids.rank,))
        return g.call("scatter_nd", blank, rows, x, reduction=reduction)


for _name, _reduction in (("SUM", "add"), ("PROD", "mul"), ("MAX", "max"), ("MIN", "min")):
    _segments(_name, _reduction)


@tflite_op("SPARSE_TO_DENSE", 3)
def sparse_to_dense(
    g: Node, indices: Value, shape: Value, values: Value, default: Value, *,
    validate_indices: bool = False,
) -> Value:  # fmt: skip
    """One value everywhere, and others at places of their own."""
    dims = tuple([simplify(d) for d in g.dims(shape, "output_shape")])
    blank = g.call("broadcast_to", default, shape=dims)
    rows = indices
    if indices.rank < 2:
        rows = g.call("reshape", indices, shape=(-1 if indices.rank else 1, 1))
    count = rows.shape[0]
    return g.call("scatter_nd", blank, rows, g.call("broadcast_to", values, shape=(count,)))


@tflite_op("BUCKETIZE")
def bucketize(g: Node, x: Value, *, boundaries: Floats = ()) -> Value:
    """How many boundaries are not above an element."""
    edges = g.known(np.array(boundaries, np.float32))
    return as_type(g, g.call("searchsorted", edges, as_type(g, x, "float32"), right=True), "int32")


@tflite_op("BITCAST")
def bitcast(g: Node, x: Value) -> Value:
    """The bits as another type of the same width."""
    if dt.bits(x.dtype) != dt.bits(g.out.dtype):
        g.unsupported(f"{x.dtype} as {g.out.dtype}", "types of one width")
    return g.call("reinterpret", x, dtype=g.out.dtype)
