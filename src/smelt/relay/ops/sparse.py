"""Sparse matrices as (data, indices, indptr) of compressed rows, and lists of coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.relax.compose.common import (
    array_of,
    cast_to,
    count_of,
    dtype_of,
    forbidden,
    legal,
    numbers,
    rank_of,
    reshaped,
    scalar,
    shape_of,
)
from smelt.relax.compose.layout import gathered, spread
from smelt.relax.nodes import RelaxExpr, call, constant
from smelt.topi import get_op

from ..dialect import const, make, relay_function, relay_op, same, sized, wrapped


@relay_op("nn.sparse_dense")
def sparse_dense(
    dense_data: RelaxExpr,
    sparse_data: RelaxExpr,
    sparse_indices: RelaxExpr,
    sparse_indptr: RelaxExpr,
    *,
    sparse_lhs: bool = False,
) -> RelaxExpr:
    """dense times sparse transposed, or (sparse_lhs) sparse times dense transposed."""
    legal(rank_of(dense_data) == 2, f"the dense matrix has {rank_of(dense_data)} dimensions, not 2")
    found = call("sparse_dense", dense_data, sparse_data, sparse_indices, sparse_indptr)
    return call("transpose", found, axes=(1, 0)) if sparse_lhs else found


@relay_function("nn.sparse_dense")
def build_sparse_dense(dense_mat: Any, sparse_mat: Any, sparse_lhs: bool = False) -> RelaxExpr:
    """A product with a sparse matrix, given as (data, indices, indptr) or as a scipy matrix."""
    return make("nn.sparse_dense", dense_mat, *_parts(sparse_mat), sparse_lhs=sparse_lhs)


def _parts(sparse_mat: Any) -> tuple[Any, ...]:
    """(data, indices, indptr) of a sparse matrix."""
    if hasattr(sparse_mat, "indptr"):
        return (sparse_mat.data, sparse_mat.indices, sparse_mat.indptr)
    legal(len(sparse_mat) == 3, "a sparse matrix is (data, indices, indptr)")
    return tuple(sparse_mat)


same("nn.sparse_add", "dense_data sparse_data sparse_indices sparse_indptr", core="sparse_add")


@relay_function("nn.sparse_add")
def build_sparse_add(dense_mat: Any, sparse_mat: Any) -> RelaxExpr:
    """The sum of a dense and a sparse matrix, given as (data, indices, indptr)."""
    return make("nn.sparse_add", dense_mat, *_parts(sparse_mat))


same("nn.sparse_transpose", "sparse_data sparse_indices sparse_indptr", core="sparse_transpose",
     results=3)  # fmt: skip


@relay_function("nn.sparse_transpose")
def build_sparse_transpose(x: Any) -> Any:
    """A square sparse matrix (data, indices, indptr) transposed."""
    return wrapped(make("nn.sparse_transpose", *_parts(x)))


@relay_op("nn.sparse_conv2d")
def sparse_conv2d(
    dense_data: RelaxExpr,
    sparse_data: RelaxExpr,
    sparse_indices: RelaxExpr,
    sparse_indptr: RelaxExpr,
    *,
    layout: str = "NHWC",
    kernel_size: Any = (1, 1),
) -> RelaxExpr:
    """A convolution with a kernel of one pixel, whose weight [o, c] is a sparse matrix."""
    forbidden(kernel_size=(numbers("kernel_size", 2)(kernel_size), (1, 1)))
    x = spread(dense_data, layout, "layout", "NHWC")
    *image, channels = shape_of(x)
    flat = reshaped(x, (count_of(x) // channels, channels))
    y = call("sparse_dense", flat, sparse_data, sparse_indices, sparse_indptr)
    return gathered(reshaped(y, (*image, shape_of(y)[1])), "NHWC", layout, "layout")


@relay_function("nn.sparse_conv2d")
def build_sparse_conv2d(
    dense_mat: Any, sparse_mat: Any, layout: str = "NHWC", kernel_size: Any = (1, 1)
) -> RelaxExpr:
    """A convolution whose weight is a sparse matrix (data, indices, indptr)."""
    return make("nn.sparse_conv2d", dense_mat, *_parts(sparse_mat), layout=layout,
                kernel_size=kernel_size)  # fmt: skip


# --------------------------------------------------------------------------------- coordinates


@relay_op("sparse_to_dense")
def sparse_to_dense(
    sparse_indices: RelaxExpr,
    sparse_values: RelaxExpr,
    default_value: RelaxExpr | None = None,
    *,
    output_shape: Any,
) -> RelaxExpr:
    """A tensor of default_value with the values written where rows of indices say.

    Shapes  indices [], [n] or [n, dimensions]; values [] or [n]
    """
    rank = len(output_shape)
    at = sparse_indices
    if rank_of(at) < 2:
        legal(rank == 1, f"indices of {rank_of(at)} dimensions go with an output_shape of one")
        at = reshaped(at, (at.type.elements(), 1))  # type: ignore[attr-defined]
    values = call("broadcast_to", sparse_values, shape=(shape_of(at)[0],))
    zero = scalar(0, dtype_of(values)) if default_value is None else default_value
    base = call("broadcast_to", cast_to(zero, dtype_of(values)), shape=tuple(output_shape))
    return call("scatter_nd", base, at, values)


@relay_function("sparse_to_dense")
def build_sparse_to_dense(
    sparse_indices: Any, output_shape: Any, sparse_values: Any, default_value: Any = 0
) -> RelaxExpr:
    """A tensor with some elements written; the shape is numbers or an expression."""
    default = default_value
    if not isinstance(default, RelaxExpr):
        t = getattr(sparse_values, "type", None)
        default = const(default, getattr(t, "dtype", None))
    return sized("sparse_to_dense", sparse_indices, sparse_values, default,
                 output_shape=output_shape)  # fmt: skip


@relay_op("sparse_reshape", results=2)
def sparse_reshape(
    sparse_indices: RelaxExpr, prev_shape: RelaxExpr, new_shape: RelaxExpr
) -> list[RelaxExpr]:
    """Coordinates [n, dimensions] in another shape, and that shape with what -1 stands for."""
    kind = dtype_of(sparse_indices)
    old, new = (cast_to(x, kind) for x in (prev_shape, new_shape))
    one, total = scalar(1, kind), call("prod", old, axes=(0,))
    open_ = call("equal", new, scalar(-1, kind))
    rest = call("prod", call("where", open_, one, new), axes=(0,))
    new = call("where", open_, call("floor_divide", total, rest), new)

    def steps(shape: RelaxExpr) -> RelaxExpr:
        return call("cumprod", shape, axis=0, exclusive=True, reverse=True)

    flat = call("sum", call("multiply", sparse_indices, steps(old)), axes=(1,), keepdims=True)
    made = call("mod", call("floor_divide", flat, steps(new)), new)
    return [made, cast_to(new, dtype_of(new_shape))]


@relay_op(
    "sparse_fill_empty_rows",
    needs=("sparse_indices", "sparse_values", "dense_shape", "default_value"),
    results=3,
)
def sparse_fill_empty_rows(
    sparse_indices: RelaxExpr,
    sparse_values: RelaxExpr,
    dense_shape: RelaxExpr,
    default_value: RelaxExpr,
) -> list[RelaxExpr]:
    """Coordinates and values with default_value at the start of each row that has none, and
    which rows those are."""
    found = [array_of(x) for x in (sparse_indices, sparse_values, dense_shape, default_value)]
    indices, values, shape, default = (np.asarray(a) for a in found)
    operands = (indices.reshape(len(values), -1), values, default.reshape(()))
    fill = get_op("sparse_fill_empty_rows").meaning
    assert fill is not None
    places, filled, empty, count = fill(*operands, shape=shape.reshape(-1).tolist())
    return [constant(x) for x in (places[:count], filled[:count], empty)]
