"""Products and convolutions of integers that stand for their distance from a zero point.

A product of differences is four sums,

    sum (a - za) (w - zw)  =  sum a w  -  zw sum a  -  za sum w  +  n za zw,

of which those with a zero point that is 0 vanish; the third is a constant where the weight is.
All are formed in int32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.relax.folding import folded
from smelt.relax.nodes import RelaxExpr, call, constant

from .common import (
    against,
    array_of,
    cast_to,
    dtype_of,
    extents,
    normal_axis,
    rank_of,
    reshaped,
    scalar,
    shape_of,
)


def known(x: RelaxExpr) -> np.ndarray[Any, Any] | None:
    """The array of an operand that follows from constants alone."""
    return array_of(folded(x))


def is_zero(zero_point: RelaxExpr) -> bool:
    """Whether a zero point is known to be 0."""
    data = known(zero_point)
    return data is not None and not np.any(data)


def centred(x: RelaxExpr, zero_point: RelaxExpr, dtype: str = "int32") -> RelaxExpr:
    """x without its zero point, which broadcasts against it."""
    wide = cast_to(x, dtype)
    return wide if is_zero(zero_point) else call("subtract", wide, cast_to(zero_point, dtype))


# --------------------------------------------------------------------------------- convolution


def _convolution(x: RelaxExpr, w: RelaxExpr, groups: int, a: dict[str, Any]) -> RelaxExpr:
    return call(f"conv{rank_of(x) - 2}d", x, w, groups=groups, out_dtype="int32", **a)


def window_sums(
    x: RelaxExpr, kernel: tuple[int, ...], groups: int, a: dict[str, Any], border: int = 0
) -> RelaxExpr:
    """The sum of all elements that each window of each group of channels covers, in int32.

    a       strides, pads and dilations of the window
    border  the sum of the channels of a group, of each pixel around the image
    Shapes  x [n, c, ...]; result [n, groups, ...]
    """
    wide = cast_to(x, "int32")
    n, c, *image = shape_of(x)
    if extents(x)[1] != groups:
        wide = call("sum", reshaped(wide, (n, groups, c // groups, *image)), axes=(2,),
                    keepdims=False)  # fmt: skip
    if extents(x)[2:] == kernel and not any(a["pads"]):  # one window, which is the image
        return call("sum", wide, axes=tuple(range(2, 2 + len(kernel))), keepdims=True)
    ones = constant(np.ones((groups, 1, *kernel), "int32"))
    return _convolution(wide, ones, groups, {**a, "border": border})


def _to_channels(sums: RelaxExpr, groups: int, channels: int) -> RelaxExpr:
    """Sums of the groups, repeated for each output channel of a group."""
    if groups in (1, channels):
        return sums
    n, g, *image = shape_of(sums)
    each = channels // groups
    wide = call("broadcast_to", reshaped(sums, (n, g, 1, *image)), shape=(n, g, each, *image))
    return reshaped(wide, (n, channels, *image))


def _by_channel(zero_point: RelaxExpr, x: RelaxExpr) -> RelaxExpr:
    """A zero point of output channels in a shape that broadcasts against the result."""
    return against(zero_point, x, 1) if rank_of(zero_point) else zero_point


def conv_sums(
    x: RelaxExpr, w: RelaxExpr, za: RelaxExpr, zw: RelaxExpr, groups: int, a: dict[str, Any]
) -> RelaxExpr:
    """A convolution of differences; the border stands for 0.

    a       strides, pads and dilations of the window
    Shapes  x [n, c, ...]; w [o, c / groups, ...]; za a scalar; zw a scalar or [o]
    """
    zw = _by_channel(zw, x)
    offset, size = known(za), extents(w)
    if offset is None or known(zw) is None or None in size:
        own = reshaped(zw, (shape_of(zw)[0], *(1,) * (rank_of(w) - 1))) if rank_of(zw) else zw
        return _convolution(centred(x, za), centred(w, own), groups, a)
    number, spatial = int(offset.reshape(-1)[0]), rank_of(x) - 2
    border = number if any(a["pads"]) else 0
    y = _convolution(x, w, groups, {**a, "border": border})
    outputs, depth, *kernel = (e or 0 for e in size)
    if not is_zero(zw):
        sums = window_sums(x, tuple(kernel), groups, a, border * depth)
        sums = _to_channels(sums, groups, outputs)
        y = call("subtract", y, call("multiply", sums, cast_to(zw, "int32")))
    if number:
        axes = tuple(range(1, rank_of(w)))
        sums = call("sum", cast_to(w, "int32"), axes=axes, keepdims=False)
        fixed: RelaxExpr = reshaped(sums, (outputs, *(1,) * spatial))
        if not is_zero(zw):
            count = scalar(depth * int(np.prod(kernel)), "int32")
            fixed = call("subtract", fixed, call("multiply", cast_to(zw, "int32"), count))
        y = call("subtract", y, folded(call("multiply", fixed, scalar(number, "int32"))))
    return y


def _narrow(x: RelaxExpr, zero_point: RelaxExpr) -> RelaxExpr:
    """x without its zero point, in the narrowest type that holds all such differences."""
    data = known(zero_point)
    small = data is not None and np.all(np.abs(data.astype(np.int64)) < 1 << 14)
    wide = "int16" if small and dt.bits(dtype_of(x)) == 8 else "int32"
    return x if is_zero(zero_point) else centred(x, zero_point, wide)


def conv_transpose_sums(
    x: RelaxExpr, w: RelaxExpr, za: RelaxExpr, zw: RelaxExpr, **attrs: Any
) -> RelaxExpr:
    """A transposed convolution of differences; zw is a scalar, or [o] where groups are 1."""
    a, b = _narrow(x, za), _narrow(w, _by_channel(zw, x))
    return call("conv_transpose", a, b, out_dtype="int32", **attrs)


# ------------------------------------------------------------------------------------ matrices


def product_sums(
    a: RelaxExpr,
    b: RelaxExpr,
    za: RelaxExpr,
    zb: RelaxExpr,
    turn_a: bool = False,
    turn_b: bool = False,
) -> RelaxExpr:
    """A product of matrices of differences.

    turn_a, turn_b  whether an operand is transposed first
    Shapes          za a scalar; zb a scalar, or a vector of the result's columns

    The number of terms need not be known:

        sum (a - za) (b - zb)  =  sum a b  -  zb sum a  -  za sum (b - zb)
    """

    def times(x: RelaxExpr, y: RelaxExpr) -> RelaxExpr:
        return call("matmul", x, y, transpose_a=turn_a, transpose_b=turn_b, out_dtype="int32")

    y = times(a, b)
    if not is_zero(zb):
        column = call("expand_dims", _sums(cast_to(a, "int32"), -2 if turn_a else -1), axes=(-1,))
        y = call("subtract", y, call("multiply", column, cast_to(zb, "int32")))
    if not is_zero(za):
        of_columns = reshaped(zb, (shape_of(zb)[0], 1)) if rank_of(zb) and turn_b else zb
        row = _sums(centred(b, of_columns), -1 if turn_b else -2)
        row = call("expand_dims", row, axes=(-2,)) if rank_of(b) > 2 else row
        y = call("subtract", y, folded(call("multiply", row, cast_to(za, "int32"))))
    return y


def _sums(x: RelaxExpr, axis: int) -> RelaxExpr:
    return call("sum", x, axes=(normal_axis(axis, rank_of(x)),), keepdims=False)
