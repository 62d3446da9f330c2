"""Reductions, running sums, sorting."""

from __future__ import annotations

from typing import Any

from smelt.ir import dtype as dt
from smelt.ir.errors import Unsupported
from smelt.topi import get_op

from ..compose import index
from ..compose.common import (
    along,
    axes_of,
    cast_to,
    count_of,
    dtype_of,
    extents,
    legal,
    normal_axis,
    rank_of,
    reshaped,
)
from ..nodes import RelaxExpr, call
from .entry import Indices, entry, same, size_given

for _name in ("sum", "prod", "min", "max", "mean", "all", "any"):
    same(_name, "x", renamed="axis=axes", axis=None, keepdims=False)


def _index(name: str) -> None:
    def build(x: RelaxExpr, axis: int | None = None, keepdims: bool = False) -> RelaxExpr:
        at = None if axis is None else normal_axis(axis, rank_of(x))
        return index.position(name, x, at, keepdims)

    build.__doc__ = f"{get_op(name).__doc__} int64; axis None: in the order of memory."
    entry(name)(build)


_index("argmax")
_index("argmin")


def _variance(x: RelaxExpr, axis: Any, keepdims: bool) -> RelaxExpr:
    axes = axes_of(axis, rank_of(x))
    far = call("subtract", x, call("mean", x, axes=axes, keepdims=True))
    return call("mean", call("multiply", far, far), axes=axes, keepdims=keepdims)


@entry("variance")
def variance(x: RelaxExpr, axis: Any = None, keepdims: bool = False) -> RelaxExpr:
    """The mean of squared distances from the mean."""
    return _variance(x, axis, keepdims)


@entry("std")
def std(x: RelaxExpr, axis: Any = None, keepdims: bool = False) -> RelaxExpr:
    """The root of the variance."""
    return call("sqrt", _variance(x, axis, keepdims))


@entry("median")
def median(x: RelaxExpr, axis: Any = None, keepdims: bool = False) -> Any:
    """The middle element in order; of an even number the lower one of two.

    One axis  (values, int64 indices); none: the value alone
    """
    rank = rank_of(x)
    axes = axes_of(axis, rank)
    legal(axis is None or len(axes) == 1, f"axis={axis}; one axis, or None for all, are legal")
    flat = reshaped(x, (count_of(x),)) if axis is None else x
    at = 0 if axis is None else axes[0]
    extent = extents(flat)[at]
    legal(extent is not None and extent > 0, f"axis={axis}: the extent has to be known, not 0")
    middle = ((extent or 1) - 1) // 2
    order = along(call("argsort", flat, axis=at), at, middle, middle + 1)
    value = call("gather_elements", flat, order, axis=at)
    if axis is None:
        return reshaped(value, (1,) * rank if keepdims else ())
    if keepdims:
        return [value, order]
    return [call("squeeze", v, axes=(at,)) for v in (value, order)]


for _name in ("cumsum", "cumprod"):
    entry(_name)(index.scan(_name))


# ------------------------------------------------------------------------------------- sorting


same("sort", "x", axis=-1, descending=False)
same("argsort", "data", axis=-1, descending=False, dtype="int32")


@entry("topk")
def topk(
    data: RelaxExpr, k: Any = 1, axis: int = -1, ret_type: str = "both", largest: bool = True,
    dtype: str = "int32",
) -> Any:  # fmt: skip
    """The k first elements along an axis, the largest first (or the smallest); k below 1: all.

    ret_type  "both", "values" or "indices"
    """
    return index.largest(data, size_given(k), axis, ret_type, largest, dtype)


# ---------------------------------------------------------------------------- sets of elements


@entry("unique")
def unique(
    x: RelaxExpr, sorted: Any = True, return_index: Any = False, return_inverse: Any = False,
    return_counts: Any = False, axis: int | None = None,
) -> Any:  # fmt: skip
    """Refused: the size of the result depends on data."""
    raise Unsupported(
        "the size of the result depends on the data. The core's operator of a fixed capacity is "
        'smelt.relax.nodes.call("unique", x): (values, first indices, inverse, counts, how many), '
        "all as long as x"
    )


@entry("nonzero")
def nonzero(x: RelaxExpr) -> RelaxExpr:
    """Refused: the size of the result depends on data."""
    raise Unsupported(
        "the size of the result depends on the data. The core's operator of a fixed capacity is "
        'smelt.relax.nodes.call("argwhere", x): (indices [elements, rank], how many)'
    )


# --------------------------------------------------------------------------- few bits


def _whole(zero_point: RelaxExpr) -> RelaxExpr:
    """A zero point as an integer."""
    return zero_point if dt.is_int(dtype_of(zero_point)) else cast_to(zero_point, "int32")


@entry("quantize", core="quantize")
def quantize(
    data: RelaxExpr, scale: RelaxExpr, zero_point: Indices, axis: int = -1,
    out_dtype: str = "int8",
) -> RelaxExpr:  # fmt: skip
    """round(data / scale) + zero_point, brought into the range of an integer type."""
    return call("quantize", data, scale, _whole(zero_point), axis=axis, out_dtype=out_dtype)


@entry("dequantize", core="dequantize")
def dequantize(
    data: RelaxExpr, scale: RelaxExpr, zero_point: Indices, axis: int = -1,
    out_dtype: str = "float32",
) -> RelaxExpr:  # fmt: skip
    """(data - zero_point) * scale."""
    return call("dequantize", data, scale, _whole(zero_point), axis=axis, out_dtype=out_dtype)
