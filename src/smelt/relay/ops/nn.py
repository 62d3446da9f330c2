"""Products, activations over an axis, losses."""

from __future__ import annotations

from typing import Any

from smelt.ir.build import value_of
from smelt.relax.compose import loss
from smelt.relax.compose.common import (
    along,
    dtype_of,
    extents,
    filled,
    legal,
    normal_axis,
    rank_of,
    reshaped,
    scalar,
    shape_of,
    turned,
)
from smelt.relax.compose.layout import parse_layout, whole_dims
from smelt.relax.nodes import RelaxExpr, call

from ..dialect import alias, make, relay_function, relay_op, same, wrapped

# ------------------------------------------------------------------------------------- products


@relay_op("nn.dense")
def dense(
    data: RelaxExpr, weight: RelaxExpr, *, units: int | None = None, out_dtype: str = ""
) -> RelaxExpr:
    """data [..., k] times the weight [units, k] transposed."""
    _two_dimensions(weight)
    rows, depth = extents(weight)
    legal(units is None or rows in (None, units), f"units={units}, but the weight has {rows} rows")
    _meet(data, -1, depth, "the weight has {} columns")
    return product(data, weight, False, True, out_dtype)


def _two_dimensions(weight: RelaxExpr) -> None:
    legal(
        rank_of(weight) == 2,
        f"the weight has {rank_of(weight)} dimensions; 2 are legal: [units, k]",
    )


def _meet(data: RelaxExpr, axis: int, want: int | None, other: str) -> None:
    """The extent that the data and the other factor share."""
    legal(rank_of(data) > 0, "the data is a scalar; it needs at least one dimension")
    have = extents(data)[axis]
    legal(
        have == want or None in (have, want),
        f"axis {axis} of the data has {have} elements, {other.format(want)}; they have to be equal",
    )


@relay_op("nn.matmul")
def matmul(
    tensor_a: RelaxExpr,
    tensor_b: RelaxExpr,
    *,
    units: int | None = None,
    out_dtype: str = "",
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> RelaxExpr:
    """A product of matrices."""
    have = extents(tensor_b)[-2 if transpose_b else -1]
    legal(units is None or have in (None, units), f"units={units}, but tensor_b has {have} columns")
    return product(tensor_a, tensor_b, transpose_a, transpose_b, out_dtype)


@relay_op("nn.batch_matmul")
def batch_matmul(
    tensor_a: RelaxExpr,
    tensor_b: RelaxExpr,
    *,
    out_dtype: str = "",
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> RelaxExpr:
    """Products of matrices, one for each of the first dimension's; a batch of 1 is repeated."""
    for name, x in (("tensor_a", tensor_a), ("tensor_b", tensor_b)):
        legal(rank_of(x) >= 3, f"{name} has {rank_of(x)} dimensions; at least 3 are needed")
    return product(tensor_a, tensor_b, transpose_a, transpose_b, out_dtype)


def product(a: RelaxExpr, b: RelaxExpr, turn_a: bool, turn_b: bool, out_dtype: str) -> RelaxExpr:
    """A product of matrices whose sums are of another type where out_dtype says so."""
    return call("matmul", a, b, transpose_a=turn_a, transpose_b=turn_b, out_dtype=out_dtype)


@relay_op("nn.contrib_dense_pack")
def contrib_dense_pack(
    data: RelaxExpr, weight: RelaxExpr, *, units: int | None = None, out_dtype: str = "",
    weight_layout: str = "NC8n",
) -> RelaxExpr:  # fmt: skip
    """A dense product whose weight has another layout."""
    plain, letters = whole_dims(weight, parse_layout(weight_layout, "weight_layout"))
    return product(data, turned(plain, letters, "NC"), False, True, out_dtype)


alias("nn.contrib_dense_pack", "data weight weight_layout units out_dtype", weight_layout="NC")


@relay_op("nn.bias_add", order="axis")
def bias_add(data: RelaxExpr, bias: RelaxExpr, *, axis: int = 1) -> RelaxExpr:
    """A vector added along an axis."""
    at = normal_axis(axis, rank_of(data))
    legal(rank_of(bias) == 1, f"the bias has {rank_of(bias)} dimensions; one is legal")
    count, have = extents(bias)[0], extents(data)[at]
    legal(
        count == have or None in (count, have),
        f"the bias has {count} elements, axis={axis} of the data has {have}; they have to be equal",
    )
    rest = rank_of(data) - at - 1
    wide = reshaped(bias, (shape_of(bias)[0], *(1,) * rest)) if rest else bias
    return call("add", data, wide)


# ---------------------------------------------------------------------------------- activations


same("nn.softmax nn.fast_softmax", "data", core="softmax", along="axis", order="axis",
     axis=-1)  # fmt: skip
same("nn.log_softmax", "data", core="log_softmax", along="axis", order="axis",
     axis=-1)  # fmt: skip


@relay_op("nn.dropout", results=2)
def dropout(data: RelaxExpr, *, rate: float = 0.5) -> list[RelaxExpr]:
    """At inference: (the data, a mask of ones)."""
    legal(0 <= rate < 1, f"rate={rate}; legal: from 0 to below 1")
    return [data, filled(data, 1.0)]


@relay_function("nn.dropout")
def build_dropout(data: Any, rate: float = 0.5) -> RelaxExpr:
    """The data: nothing is dropped at inference."""
    return wrapped(make("nn.dropout", data, rate=rate))[0]  # type: ignore[no-any-return]


alias("nn.dropout_raw", "data rate", of="nn.dropout")


@relay_op("nn.fifo_buffer")
def fifo_buffer(data: RelaxExpr, buffer: RelaxExpr, *, axis: int) -> RelaxExpr:
    """The buffer with the data behind it, without as many elements in front."""
    at = normal_axis(axis, rank_of(data))
    both = call("concat", buffer, data, axis=at)
    return along(both, at, shape_of(data)[at], shape_of(both)[at])


# --------------------------------------------------------------------------------------- losses


def _per_image(data: RelaxExpr, products: RelaxExpr) -> RelaxExpr:
    """Minus the sum of all products, divided by the batch."""
    total = call("negative", call("sum", products, axes=None, keepdims=False))
    count = value_of(shape_of(data)[0])
    legal(count is not None, "the first extent of the predictions has to be known")
    return call("divide", total, scalar(count or 1, dtype_of(data)))


@relay_op("nn.cross_entropy")
def cross_entropy(predictions: RelaxExpr, targets: RelaxExpr) -> RelaxExpr:
    """-sum(targets * log(predictions)) for each image of a batch, on average; [n, classes]."""
    return _per_image(predictions, call("multiply", targets, call("log", predictions)))


@relay_op("nn.cross_entropy_with_logits")
def cross_entropy_with_logits(predictions: RelaxExpr, targets: RelaxExpr) -> RelaxExpr:
    """cross_entropy of predictions that are logarithms already."""
    return _per_image(predictions, call("multiply", targets, predictions))


@relay_op("nn.nll_loss")
def nll_loss(
    predictions: RelaxExpr,
    targets: RelaxExpr,
    weights: RelaxExpr,
    *,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> RelaxExpr:
    """Minus the weighted prediction of each target's class.

    Shapes     predictions [n, classes, ...] or [classes]; targets without the classes;
               weights [classes]
    reduction  "none", "sum", or "mean": divided by the sum of the targets' weights
    """
    return loss.nll_loss(predictions, targets, weights, reduction, ignore_index)
