"""Normalisation over a batch, over dimensions, over channels near by."""

from __future__ import annotations

from inspect import Parameter
from typing import Any

from smelt.relax.compose.common import (
    axes_of,
    dtype_of,
    is_vector,
    legal,
    normal_axis,
    rank_of,
    scalar,
)
from smelt.relax.compose.norm import moved, norm
from smelt.relax.nodes import RelaxExpr, call
from smelt.topi.registry import attributes

from ..dialect import relay_op


def _vectors(data: RelaxExpr, axis: int, **given: RelaxExpr) -> None:
    """Vectors along an axis."""
    for name, x in given.items():
        is_vector(name, x, data, axis)


@relay_op("nn.batch_norm", kind="opaque", results=3, order="axis")
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
    _vectors(data, axis, gamma=gamma, beta=beta, moving_mean=moving_mean, moving_var=moving_var)
    rank = rank_of(data)
    at = normal_axis(axis, rank)
    legal(at != 0, f"axis={axis} is the batch; legal: 1 to {rank - 1}, or negative")
    y = norm("batch_norm", data, axis, 1, gamma, beta, moving_mean, moving_var, center=center,
             scale=scale, epsilon=epsilon)  # fmt: skip
    return [y, moving_mean, moving_var]


def _norm(name: str, first: int, to: int, doc: str, *required: str, **fixed: Any) -> None:
    """Enter nn.<name>_norm.

    first     the usual axis
    to        where the core has it
    required  attributes in front of the others, num_<what the core calls it>
    fixed     attributes of the core's operator
    """

    @attributes(**dict.fromkeys(required, Parameter.empty), axis=first, epsilon=1e-5, center=True,
                scale=True)  # fmt: skip
    def body(
        data: RelaxExpr, gamma: RelaxExpr, beta: RelaxExpr, *, axis: int, **attrs: Any
    ) -> RelaxExpr:
        _vectors(data, axis, gamma=gamma, beta=beta)
        own = {n.removeprefix("num_"): v for n, v in attrs.items()}
        return norm(f"{name}_norm", data, axis, to, gamma, beta, **own, **fixed)

    body.__doc__ = doc
    relay_op(f"nn.{name}_norm")(body)


_norm("layer", -1, -1, "Normalised over one axis.", axis=-1)
_norm("instance", 1, 1, "Each channel of each image normalised; axis is the channels'.")
_norm("group", 1, 1, "Groups of neighbouring channels of each image normalised.", "num_groups")


@relay_op("nn.lrn", order="axis")
def lrn(
    data: RelaxExpr, *, size: int = 5, axis: int = 1, bias: float = 2.0, alpha: float = 1e-5,
    beta: float = 0.75,
) -> RelaxExpr:  # fmt: skip
    """x / (bias + alpha / size * the sum of squares of `size` channels around) ** beta."""
    return moved(
        data, axis, 1, lambda x: call("lrn", x, size=size, alpha=alpha, beta=beta, bias=bias)
    )


@relay_op("nn.l2_normalize")
def l2_normalize(data: RelaxExpr, *, eps: float, axis: Any = None) -> RelaxExpr:
    """x / sqrt(max(sum(x ** 2), eps)) over axes (None: all)."""
    axes = axes_of(axis, rank_of(data))
    squares = call("sum", call("multiply", data, data), axes=axes, keepdims=True)
    return call("divide", data, call("sqrt", call("maximum", squares, scalar(eps, dtype_of(data)))))
