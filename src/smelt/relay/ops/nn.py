"""Products, activations over an axis, losses."""

from __future__ import annotations

from typing import Any

from smelt.relax.compose import loss
from smelt.relax.compose.common import (
    against,
    along,
    extents,
    is_vector,
    legal,
    normal_axis,
    rank_of,
    shape_of,
    turned,
)
from smelt.relax.compose.layout import parse_layout, whole_dims
from smelt.relax.compose.norm import dropped
from smelt.relax.nodes import RelaxExpr, call

from ..dialect import alias, make, relay_function, relay_op, same, wrapped

# ------------------------------------------------------------------------------------- products


@relay_op("nn.dense")
def dense(
    data: RelaxExpr, weight: RelaxExpr, *, units: int | None = None, out_dtype: str = ""
) -> RelaxExpr:
    """data [..., k] times the weight [units, k] transposed."""
    depth = units_of(weight, units)[1]
    have = extents(data)[-1] if rank_of(data) else None
    legal(
        have == depth or None in (have, depth),
        f"axis -1 of the data has {have} elements, the weight has {depth} columns; they have to be "
        "equal",
    )
    return product(data, weight, False, True, out_dtype)


def units_of(weight: RelaxExpr, units: int | None) -> tuple[int | None, ...]:
    """The extents of a weight [units, k], so many units where they are given."""
    rule = f"the weight has {rank_of(weight)} dimensions; 2 are legal: [units, k]"
    legal(rank_of(weight) == 2, rule)
    rows, depth = extents(weight)
    legal(units is None or rows in (None, units), f"units={units}, but the weight has {rows} rows")
    return rows, depth


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
    is_vector("the bias", bias, data, axis)
    return call("add", data, against(bias, data, axis))


# ---------------------------------------------------------------------------------- activations


same("nn.softmax nn.fast_softmax", "data", core="softmax", along="axis", order="axis",
     axis=-1)  # fmt: skip
same("nn.log_softmax", "data", core="log_softmax", along="axis", order="axis",
     axis=-1)  # fmt: skip


relay_op("nn.dropout", results=2)(dropped)


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


@relay_op("nn.cross_entropy")
def cross_entropy(predictions: RelaxExpr, targets: RelaxExpr) -> RelaxExpr:
    """-sum(targets * log(predictions)) for each image of a batch, on average; [n, classes]."""
    return loss.per_image(predictions, call("multiply", targets, call("log", predictions)))


@relay_op("nn.cross_entropy_with_logits")
def cross_entropy_with_logits(predictions: RelaxExpr, targets: RelaxExpr) -> RelaxExpr:
    """cross_entropy of predictions that are logarithms already."""
    return loss.per_image(predictions, call("multiply", targets, predictions))


relay_op("nn.nll_loss")(loss.nll_loss)
