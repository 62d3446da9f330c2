"""Operators of neural networks without a window."""

from __future__ import annotations

from typing import Any

from smelt.ir.errors import TypeMismatch
from smelt.relax.nodes import RelaxExpr, call

from ..dialect import relay_op
from .common import extents, normal_axis, rank_of, reshaped, shape_of


@relay_op("nn.dense")
def dense(
    data: RelaxExpr, weight: RelaxExpr, *, units: int | None = None, out_dtype: str = ""
) -> RelaxExpr:
    """data [..., k] times the weight [units, k] transposed."""
    have = extents(weight)[0]
    if units is not None and have not in (None, units):
        raise TypeMismatch(f"nn.dense: units={units}, but the weight has {have} rows")
    return product(data, weight, False, True, out_dtype)


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
    """Products of matrices, one for each of the first dimension's."""
    return product(tensor_a, tensor_b, transpose_a, transpose_b, out_dtype)


def product(a: RelaxExpr, b: RelaxExpr, turn_a: bool, turn_b: bool, out_dtype: str) -> RelaxExpr:
    """A product of matrices whose sums are of another type where out_dtype says so."""
    if out_dtype and out_dtype != a.type.dtype:  # type: ignore[attr-defined]
        a, b = (call("cast", x, dtype=out_dtype) for x in (a, b))
    return call("matmul", a, b, transpose_a=turn_a, transpose_b=turn_b)


@relay_op("nn.bias_add")
def bias_add(data: RelaxExpr, bias: RelaxExpr, *, axis: int = 1) -> RelaxExpr:
    """A vector added along an axis."""
    at = normal_axis(axis, rank_of(data))
    if rank_of(bias) != 1:
        raise TypeMismatch(f"nn.bias_add: the bias has {rank_of(bias)} dimensions; one is legal")
    a, b = shape_of(data)[at], shape_of(bias)[0]
    known = (extents(data)[at], extents(bias)[0])
    if a is not b and None not in known:
        raise TypeMismatch(
            f"nn.bias_add: the bias has {known[1]} elements, axis {axis} of the data has {known[0]}"
        )
    rest = rank_of(data) - at - 1
    return call("add", data, reshaped(bias, (b, *(1,) * rest)) if rest else bias)


@relay_op("nn.softmax")
def softmax(data: RelaxExpr, *, axis: int = -1) -> RelaxExpr:
    """exp(x) over its sum along an axis."""
    return call("softmax", data, axis=axis)


@relay_op("nn.log_softmax")
def log_softmax(data: RelaxExpr, *, axis: int = -1) -> RelaxExpr:
    """The logarithm of softmax."""
    return call("log_softmax", data, axis=axis)


@relay_op("nn.batch_flatten")
def batch_flatten(data: RelaxExpr) -> RelaxExpr:
    """All dimensions but the first as one."""
    shape = shape_of(data)
    rest: Any = 1
    for e in shape[1:]:
        rest = e * rest
    return reshaped(data, (shape[0], rest))


@relay_op("nn.batch_norm", kind="opaque")
def batch_norm(
    data: RelaxExpr,
    gamma: RelaxExpr,
    beta: RelaxExpr,
    moving_mean: RelaxExpr,
    moving_var: RelaxExpr,
    *,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> list[RelaxExpr]:
    """Normalised by running statistics: (result, mean, variance)."""
    rank = rank_of(data)
    at = normal_axis(axis, rank)
    order = [0, at, *[d for d in range(1, rank) if d != at]] if at else list(range(rank))
    turn = at not in (0, 1) and rank > 1
    x = call("transpose", data, axes=tuple(order)) if turn else data
    if not scale:
        gamma = call("full", shape=shape_of(gamma), value=1.0, dtype=gamma.type.dtype)  # type: ignore[attr-defined]
    if not center:
        beta = call("full", shape=shape_of(beta), value=0.0, dtype=beta.type.dtype)  # type: ignore[attr-defined]
    if at == 0:
        raise TypeMismatch("nn.batch_norm: axis=0 is the batch; legal: 1 and above, or negative")
    y: RelaxExpr = call("batch_norm", x, gamma, beta, moving_mean, moving_var, epsilon=epsilon)
    if turn:
        y = call("transpose", y, axes=tuple([order.index(d) for d in range(rank)]))
    return [y, moving_mean, moving_var]


@relay_op("nn.layer_norm")
def layer_norm(
    data: RelaxExpr,
    gamma: RelaxExpr,
    beta: RelaxExpr,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> RelaxExpr:
    """Normalised over one axis."""
    rank = rank_of(data)
    at = normal_axis(axis, rank)
    if at != rank - 1:
        order = (*[d for d in range(rank) if d != at], at)
        inner = call("transpose", data, axes=order)
        y = call("layer_norm", inner, gamma, beta, axis=-1, epsilon=epsilon)
        return call("transpose", y, axes=tuple([order.index(d) for d in range(rank)]))
    return call("layer_norm", data, gamma, beta, axis=-1, epsilon=epsilon)


@relay_op("nn.dropout")
def dropout(data: RelaxExpr, *, rate: float = 0.5) -> list[RelaxExpr]:
    """At inference: (the data, a mask of ones)."""
    t = data.type
    return [data, call("full", shape=shape_of(data), value=1.0, dtype=t.dtype)]  # type: ignore[attr-defined]
