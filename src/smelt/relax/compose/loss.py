"""Losses."""

from __future__ import annotations

from ..nodes import RelaxExpr, call
from .common import dtype_of, extents, filled, legal, one_of, rank_of, scalar
from .operands import Indices


def per_image(data: RelaxExpr, products: RelaxExpr) -> RelaxExpr:
    """Minus the sum of all products, divided by the batch of the data, [n, classes]."""
    total = call("negative", call("sum", products, axes=None, keepdims=False))
    count = extents(data)[0]
    legal(count is not None, "the first extent of the predictions has to be known")
    return call("divide", total, scalar(count or 1, dtype_of(data)))


def _weight(
    predictions: RelaxExpr, targets: RelaxExpr, weights: RelaxExpr | None, reduction: str,
    ignore_index: int,
) -> tuple[int, RelaxExpr, RelaxExpr]:  # fmt: skip
    """The axis of the classes, targets with 0 for those that are left out, and each target's
    weight, 0 for these."""
    one_of("reduction", reduction, "mean", "sum", "none")
    kept = call("not_equal", targets, scalar(ignore_index, dtype_of(targets)))
    inside = call("where", kept, targets, scalar(0, dtype_of(targets)))
    zero, one = (scalar(n, dtype_of(predictions)) for n in (0, 1))
    each = one if weights is None else call("gather", weights, inside, axis=0, mode="clip")
    return min(1, rank_of(predictions) - 1), inside, call("where", kept, each, zero)


def nll_loss(
    predictions: RelaxExpr, targets: Indices, weights: RelaxExpr | None = None, *,
    reduction: str = "mean", ignore_index: int = -100,
) -> RelaxExpr:  # fmt: skip
    """Minus the weighted prediction of each target's class.

    Shapes     predictions [n, classes, ...] or [classes]; targets without the classes;
               weights [classes], None: all one
    reduction  "none", "sum", or "mean": divided by the sum of the targets' weights
    """
    at, inside, weight = _weight(predictions, targets, weights, reduction, ignore_index)
    picked = call("gather_elements", predictions, call("expand_dims", inside, axes=(at,)), axis=at)
    loss = call("multiply", weight, call("negative", call("squeeze", picked, axes=(at,))))
    if reduction == "none":
        return loss
    total = call("sum", loss, axes=None, keepdims=False)
    if reduction == "sum":
        return total
    return call("divide", total, call("sum", weight, axes=None, keepdims=False))


def nll_loss_grad(
    output_grad: RelaxExpr, predictions: RelaxExpr, targets: Indices,
    weights: RelaxExpr | None = None, reduction: str = "mean", ignore_index: int = -100,
) -> RelaxExpr:  # fmt: skip
    """The derivative of nll_loss by its predictions, times the loss's."""
    at, inside, weight = _weight(predictions, targets, weights, reduction, ignore_index)
    each = call("negative", call("multiply", output_grad, weight))
    if reduction == "mean":
        each = call("divide", each, call("sum", weight, axes=None, keepdims=False))
    zero = filled(predictions, 0.0)
    places = call("expand_dims", inside, axes=(at,))
    return call("scatter_elements", zero, places, call("expand_dims", each, axes=(at,)), axis=at)
