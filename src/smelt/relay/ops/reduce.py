"""Reductions and running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smelt.relax.compose import index
from smelt.relax.compose.common import axes_of, dtype_of, extents, legal, rank_of, scalar
from smelt.relax.nodes import RelaxExpr, call
from smelt.topi import get_op

from ..dialect import RELAY, make, relay_function, relay_op, same

NAMES = ("sum", "prod", "min", "max", "mean", "all", "any")


for _name in NAMES:
    same(_name, "data", renamed="axis=axes", along="axis", order="reduced", axis=None,
         keepdims=False, exclude=False,
         doc=f"{get_op(_name).__doc__} exclude: over all axes but those given.")  # fmt: skip


def _enter_index(name: str) -> None:
    def body(
        data: RelaxExpr,
        *,
        axis: Any = None,
        keepdims: bool = False,
        exclude: bool = False,
        select_last_index: bool = False,
    ) -> RelaxExpr:
        rank = rank_of(data)
        axes = axes_of(axis, rank, exclude)
        legal(
            len(axes) in (1, rank) and rank > 0,
            f"axis={axis}, exclude={exclude} of a tensor of {rank} dimensions; one axis, or all "
            "of them, are legal",
        )
        one = axes[0] if len(axes) == 1 else None
        found = index.position(name, data, one, keepdims, select_last_index=select_last_index)
        return call("cast", found, dtype="int32")

    body.__doc__ = f"{get_op(name).__doc__} The indices are int32; no axis: in the order of memory."
    RELAY.op(name)(body)


_enter_index("argmax")
_enter_index("argmin")


def _no_none(attrs: dict[str, Any]) -> dict[str, Any]:
    """dtype=None and exclusive=None mean what they mean when left out."""
    return {**attrs, "dtype": attrs["dtype"] or "", "exclusive": bool(attrs["exclusive"])}


for _name in ("cumsum", "cumprod"):
    RELAY.op(_name, prepare=_no_none)(index.scan(_name))


# ---------------------------------------------------------------------------------- statistics


@relay_op("variance")
def variance(
    data: RelaxExpr,
    mean: RelaxExpr,
    *,
    axis: Any = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
) -> RelaxExpr:
    """The mean of squared distances from a mean, which has kept its dimensions.

    unbiased  divided by one less than the number of elements
    """
    axes = axes_of(axis, rank_of(data), exclude)
    far = call("subtract", data, mean)
    squares = call("multiply", far, far)
    if not unbiased:
        return call("mean", squares, axes=axes, keepdims=keepdims)
    count = 1
    for a in axes:
        extent = extents(data)[a]
        legal(extent is not None, f"unbiased=True needs a known extent; axis {a} is symbolic")
        count *= extent or 1
    total = call("sum", squares, axes=axes, keepdims=keepdims)
    return call("divide", total, scalar(count - 1, dtype_of(data)))


@relay_function("variance")
def build_variance(
    data: Any,
    axis: Any = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
    with_mean: Any = None,
) -> RelaxExpr:
    """The variance over axes; with_mean: the mean where it is known, with its dimensions kept."""
    if with_mean is None:
        with_mean = make("mean", data, axis=axis, keepdims=True, exclude=exclude)
    return make("variance", data, with_mean, axis=axis, keepdims=keepdims, exclude=exclude,
                unbiased=unbiased)  # fmt: skip


def _statistic(name: str, doc: str, of: Callable[[RelaxExpr, RelaxExpr], Any]) -> None:
    """Enter a builder of what is made of a mean and a variance."""

    def build(
        data: Any, axis: Any = None, keepdims: bool = False, exclude: bool = False,
        unbiased: bool = False,
    ) -> Any:  # fmt: skip
        kept = make("mean", data, axis=axis, keepdims=True, exclude=exclude)
        variance = build_variance(data, axis, keepdims, exclude, unbiased, kept)
        mean = kept if keepdims else make("mean", data, axis=axis, keepdims=False, exclude=exclude)
        return of(mean, variance)

    build.__doc__ = doc
    relay_function(name)(build)


_statistic("std", "The root of the variance.", lambda _, variance: make("sqrt", variance))
_statistic("mean_variance", "Mean and variance.", lambda mean, variance: (mean, variance))
_statistic("mean_std", "Mean and root of the variance.",
           lambda mean, variance: (mean, make("sqrt", variance)))  # fmt: skip


@relay_function("logsumexp")
def logsumexp(data: Any, axis: Any = None, keepdims: bool = False) -> RelaxExpr:
    """log(sum(exp(data))), shifted by the largest element so that nothing overflows."""
    largest = make("max", data, axis=axis, keepdims=True)
    total = make("sum", make("exp", make("subtract", data, largest)), axis=axis, keepdims=keepdims)
    if not keepdims:
        largest = make("max", data, axis=axis, keepdims=False)
    return make("add", make("log", total), largest)
