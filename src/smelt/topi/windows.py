"""Elements moved apart, windows over a tensor, parts of it replaced."""

from __future__ import annotations

from smelt.ir.build import all_of, equal, if_then_else, value_of
from smelt.ir.expr import Expr
from smelt.te.tensor import Tensor

from .common import agree, axis_of, describe, require, same_dtype, tensor
from .registry import op
from .transform import Extents, slice_of

__all__ = ["sliding_window", "strided_set"]


@op
def sliding_window(
    x: Tensor, *, axis: int, window_shape: tuple[int, ...], strides: tuple[int, ...]
) -> Tensor:
    """The windows over the dimensions from `axis` on.

    Shapes  x [a..., n...]; result [a..., (n - window) // stride + 1 ..., window...]
    """
    axis = axis_of(axis, len(x.shape))
    count = len(x.shape) - axis
    for name, values in (("window_shape", window_shape), ("strides", strides)):
        require(
            len(values) == count and min(values) >= 1,
            f"{name}={values}; the {count} dimensions of x {describe(x.shape)} from axis {axis} on "
            "need as many numbers of at least 1",
        )
    places = []
    for d, (w, s) in enumerate(zip(window_shape, strides, strict=True), axis):
        known = value_of(x.shape[d])
        require(
            known is None or w <= known,
            f"window_shape={window_shape}: dimension {d} of x {describe(x.shape)} has {known} "
            "elements",
        )
        places.append((x.shape[d] - w) // s + 1)

    def body(*i: Expr) -> Expr:
        start, inside = i[axis : axis + count], i[axis + count :]
        at = [p * s + o for p, s, o in zip(start, strides, inside, strict=True)]
        return x[(*i[:axis], *at)]

    return tensor((*x.shape[:axis], *places, *window_shape), body, "sliding_window")


@op
def strided_set(
    x: Tensor, v: Tensor, *, axes: tuple[int, ...], begin: Extents, end: Extents,
    strides: tuple[int, ...] | None = None,
) -> Tensor:  # fmt: skip
    """x with the elements that strided_slice takes with these attributes replaced by those of v.

    Shapes  v as the slice
    """
    same_dtype(x=x, v=v)
    shape, start, step = slice_of(x, axes, begin, end, strides)
    rule = f"v {describe(v.shape)} has to be of the shape of the slice, {describe(shape)}"
    require(len(v.shape) == len(shape), rule)
    for d, (a, b) in enumerate(zip(v.shape, shape, strict=True)):
        agree(a, b, f"{rule}: dimension {d}")

    def body(*i: Expr) -> Expr:
        conditions: list[Expr] = []
        at = []
        for p, b, s, n, whole in zip(i, start, step, shape, x.shape, strict=True):
            way = p - b if s > 0 else b - p
            at.append(way // abs(s))
            if n is whole:
                continue
            conditions += [way >= 0, way // abs(s) < n]
            conditions += [equal(way % abs(s), 0)] if abs(s) > 1 else []
        return if_then_else(all_of(conditions), v[tuple(at)], x[i])

    return tensor(x.shape, body, "strided_set")
