"""Operators that choose or write elements by tensors of indices."""

from __future__ import annotations

from typing import Any

from smelt.ir.build import value_of

from ..compose import create
from ..compose.common import (
    cast_to,
    dtype_of,
    extents,
    flat,
    legal,
    normal_axis,
    one_of,
    rank_of,
    reshaped,
    scalar,
    shape_of,
)
from ..compose.index import rows_of
from ..nodes import RelaxExpr, call
from .entry import Indices, Operands, entry, number_given, same, size_given

MODES = {"fast": "clip", "clip": "clip", "wrap": "wrap"}


@entry("take", core="gather")
def take(x: RelaxExpr, indices: Indices, axis: int | None = None, mode: str = "fast") -> RelaxExpr:
    """Slices of an axis by index; axis None is legal where x is a vector.

    mode  indices outside: "clip" to the ends, "wrap" round; "fast": there is none
    """
    one_of("mode", mode, *MODES)
    legal(
        axis is not None or rank_of(x) == 1, f"axis has to be given; x has {rank_of(x)} dimensions"
    )
    at = normal_axis(axis or 0, rank_of(x))
    return call("gather", x, indices, axis=at, mode=MODES[mode])


same("gather_elements", "data indices:Indices", axis=0)
same("gather_nd", "data indices:Indices", batch_dims=0)


def _reduction(value: str) -> str:
    one_of("reduction", value, "update", "add", "mul", "min", "max", "mean")
    legal(value != "mean", "reduction='mean' is not supported; legal: update, add, mul, min, max")
    return "none" if value == "update" else value


same("scatter_elements", "data indices:Indices updates", forms={"reduction": _reduction}, axis=0,
     reduction="update")  # fmt: skip
same("scatter_nd", "data indices:Indices updates", forms={"reduction": _reduction},
     reduction="update")  # fmt: skip


@entry("index_tensor")
def index_tensor(data: RelaxExpr, indices: Operands) -> RelaxExpr:
    """data[indices[0], indices[1], ...]; tensors of indices broadcast against each other."""
    return call("gather_nd", data, rows_of(data, indices))


@entry("index_put")
def index_put(
    data: RelaxExpr, indices: Operands, values: RelaxExpr, accumulate: bool = False
) -> RelaxExpr:
    """The data with data[indices[0], ...] = values, or += where accumulate is set."""
    rows = rows_of(data, indices)
    shape = (*shape_of(rows)[:-1], *shape_of(data)[len(indices) :])
    updates = call("broadcast_to", values, shape=shape)
    return call("scatter_nd", data, rows, updates, reduction="add" if accumulate else "none")


@entry("slice_scatter", core="strided_set")
def slice_scatter(
    input_tensor: RelaxExpr, src: RelaxExpr, start: Any, end: Any, step: Any, axis: int = 0
) -> RelaxExpr:
    """The tensor with src in place of the slice start : end : step of an axis."""
    at = normal_axis(axis, rank_of(input_tensor))
    extent = extents(input_tensor)[at]
    legal(extent is not None, f"axis={axis}: the extent has to be known")
    first, last, by = (number_given(v) for v in (start, end, step))
    legal(isinstance(by, int) and by >= 1, f"step={step}; a number of at least 1 is legal")
    low, high, _ = slice(first, last, by).indices(extent or 0)
    return call("strided_set", input_tensor, src, axes=(at,), begin=(low,),
                end=(max(low, high),), strides=(by,))  # fmt: skip


@entry("one_hot")
def one_hot(
    indices: Indices, on_value: Any, off_value: Any, depth: Any, axis: int = -1
) -> RelaxExpr:
    """on_value where the place along a new axis is the index, off_value elsewhere.

    The values are numbers: two integers make int64, else float32. An index outside hits nothing.
    """
    on, off, count = number_given(on_value), number_given(off_value), size_given(depth)
    dtype = "int64" if isinstance(on, int) and isinstance(off, int) else "float32"
    dtype = getattr(on_value, "dtype", None) or dtype
    places = call("arange", start=0, step=1, count=count, dtype=dtype_of(indices))
    hit = create.hot(indices, places, normal_axis(axis, rank_of(indices) + 1))
    return call("where", hit, scalar(on, str(dtype)), scalar(off, str(dtype)))


@entry("bucketize")
def bucketize(
    input_tensor: RelaxExpr, boundaries: RelaxExpr, out_int32: bool = False, right: bool = False
) -> RelaxExpr:
    """Which interval between sorted boundaries each element lies in."""
    return call("searchsorted", boundaries, input_tensor, right=right,
                dtype="int32" if out_int32 else "int64")  # fmt: skip


@entry("multinomial_from_uniform")
def multinomial_from_uniform(
    prob: RelaxExpr, uniform_sample: RelaxExpr, sample_indices: Indices | None = None,
    dtype: str = "int64",
) -> RelaxExpr:  # fmt: skip
    """Indices drawn with given weights by random numbers from 0 to 1.

    Shapes  prob [batch, n]; uniform_sample and sample_indices [k, 1]; result [k, 1]
    sample_indices  the row of prob for each number; None: the row of the same place
    """
    for name, x in (("prob", prob), ("uniform_sample", uniform_sample)):
        legal(rank_of(x) == 2, f"{name} has {rank_of(x)} dimensions; 2 are legal")
    sums = call("cumsum", prob, axis=1)
    if sample_indices is not None:
        rows = reshaped(sample_indices, (shape_of(sample_indices)[0],))
        sums = call("gather", sums, rows, axis=0, mode="clip")
    else:
        a, b = value_of(shape_of(prob)[0]), value_of(shape_of(uniform_sample)[0])
        legal(
            a == b or None in (a, b),
            f"prob has {a} rows, uniform_sample {b}; without sample_indices they have to be equal",
        )
    last = shape_of(prob)[1]
    below = cast_to(call("less_equal", sums, cast_to(uniform_sample, dtype_of(prob))), "int64")
    found = call("sum", below, axes=(1,), keepdims=True)
    end = reshaped(call("arange", start=last - 1, count=1, dtype="int64"), ())
    return cast_to(call("minimum", found, end), dtype)


@entry("grad.take_backward")
def take_backward(
    output_grad: RelaxExpr, x: RelaxExpr, indices: Indices, axis: int | None = None
) -> RelaxExpr:
    """The derivative of take: output_grad added up where the indices took it from."""
    shape = shape_of(x)
    if axis is None:
        x, axis = flat(x), 0
    at, rank = normal_axis(axis, rank_of(x)), rank_of(x)
    own = rank_of(indices)
    # the dimensions of the indices first, the axis of the data in front
    front = (*range(at, at + own), *range(at), *range(at + own, rank - 1 + own))
    updates = call("transpose", output_grad, axes=front)
    order = (at, *range(at), *range(at + 1, rank))
    turned = call("transpose", x, axes=order)
    zero = call("full", shape=shape_of(turned), value=0.0, dtype=dtype_of(x))
    rows = call("expand_dims", cast_to(indices, "int64"), axes=(own,))
    made = call("scatter_nd", zero, rows, updates, reduction="add")
    back = tuple([order.index(d) for d in range(rank)])
    return reshaped(call("transpose", made, axes=back), shape)
