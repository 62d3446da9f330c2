"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smelt.ir.expr import Expr, cast
from smelt.te.tensor import Tensor, reduce_axis

from . import common
from .reference import Array, stored_type, summed
from .registry import op


def product(
    a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool, name: str = "matmul",
    operands: tuple[str, str] = ("a", "b"), to: str = "",
) -> Tensor:  # fmt: skip
    """The matrix product, summed in the type `to` (the wide one unless given): one reduction;
    transposition is in the indices only."""
    to = to or common.wide(a.dtype)
    rank_a, rank_b = len(a.shape), len(b.shape)
    common.require(
        rank_a > 0 and rank_b > 0,
        f"{operands[0]} and {operands[1]} need at least one dimension each",
    )
    row, inner_a = (-1, -2) if transpose_a and rank_a > 1 else (-2, -1)
    inner_b, column = (-1, -2) if transpose_b and rank_b > 1 else (-2, -1)
    if rank_b == 1:
        inner_b = -1
    depth = common.agree(
        a.shape[inner_a], b.shape[inner_b],
        f"{operands[0]} {common.describe(a.shape)} times {operands[1]} {common.describe(b.shape)}: "
        f"dimension {inner_a} of {operands[0]} has to equal dimension {inner_b} of {operands[1]}",
    )  # fmt: skip
    batch = common.broadcast_shapes(a=a.shape[:-2], b=b.shape[:-2])
    shape = (
        *batch,
        *([a.shape[row]] if rank_a > 1 else []),
        *([b.shape[column]] if rank_b > 1 else []),
    )
    k = reduce_axis((0, depth), "k")

    def operand(x: Tensor, outer: Sequence[Expr], free: Expr | None, swapped: bool) -> Expr:
        if free is None:
            return x[k.var]
        skip = len(batch) - (len(x.shape) - 2)
        each = zip(x.shape[:-2], batch[skip:], outer[skip:], strict=True)
        lead = [common.place(e, out, i) for e, out, i in each]
        return x[(*lead, *((k.var, free) if swapped else (free, k.var)))]

    def body(*i: Expr) -> Expr:
        outer, free = i[: len(batch)], list(i[len(batch) :])
        m = free.pop(0) if rank_a > 1 else None
        n = free.pop(0) if rank_b > 1 else None
        left = operand(a, outer, m, transpose_a)
        right = operand(b, outer, n, not transpose_b)
        return cast(to, left) * cast(to, right)

    return common.sum_over(shape, body, [k], name)


@op
def matmul(
    a: Tensor, b: Tensor, *, transpose_a: bool = False, transpose_b: bool = False,
    out_dtype: str = "",
) -> Tensor:  # fmt: skip
    """The matrix product, by numpy's rules for vectors and batches.

    Shapes   a [..., m, k], or [..., k, m] if transpose_a; b [..., k, n], or [..., n, k] if
             transpose_b; result [..., m, n]. Leading dimensions broadcast. A vector a is one row,
             a vector b one column, and that dimension is missing in the result.
    Types    out_dtype "": a, b and the result have one type, narrow floats are summed in float32;
             otherwise the result's type, in which integers are summed: a and b may then be of
             different integer types (uint8 and int8), both narrower than out_dtype
    Source   ONNX MatMul-13, numpy.matmul
    """
    to, dtype = common.product_types(a, b, "a b", out_dtype)
    common.require(dtype != "bool", "a and b are bool; the operator is defined for numbers")
    return common.stored(product(a, b, transpose_a, transpose_b, to=to), dtype)


@matmul.numpy
def _(a: Array, b: Array, *, transpose_a: bool, transpose_b: bool, out_dtype: str) -> Array:
    """numpy's product; vectors are not transposed."""
    left, right = summed(a, out_dtype), summed(b, out_dtype)
    left = np.swapaxes(left, -1, -2) if transpose_a and a.ndim > 1 else left
    right = np.swapaxes(right, -1, -2) if transpose_b and b.ndim > 1 else right
    return np.asarray(np.matmul(left, right)).astype(stored_type(a, out_dtype))
