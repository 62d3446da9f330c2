"""Converters of operators on shapes, and of those that move elements by a rule."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from smelt.frontend.common import Build, Value, dynamic, moves
from smelt.frontend.common.values import product, simplify, static
from smelt.ir.expr import Expr, convert
from smelt.ir.limits import worth_knowing

from .ops_cast import element_type
from .registry import Array, Floats, Ints, onnx_op, same

# ------------------------------------------------------------------------------------ constants


@onnx_op("Constant")
def constant(
    g: Build, *, value: Array | None = None, value_float: float | None = None,
    value_floats: Floats | None = None, value_int: int | None = None,
    value_ints: Ints | None = None,
) -> Value:  # fmt: skip
    """An array written into the node."""
    if value is not None:
        return Value.of_array(value)
    for single, many, dtype in (
        (value_float, value_floats, np.float32),
        (value_int, value_ints, np.int64),
    ):
        if single is not None or many is not None:
            return Value.of_array(np.array(single if single is not None else many, dtype))
    return g.malformed("the node has no value")


@onnx_op("ConstantOfShape", since=9)
def constant_of_shape(g: Build, shape: Value, *, value: Array | None = None) -> Value:
    """One value everywhere; where the shape is known and not large, an array without own memory."""
    dims = tuple([simplify(d) for d in g.dims(shape, "shape")])
    fill = np.zeros((), np.float32) if value is None else value.reshape(())
    g.extents(dims, "the shape")
    if static(dims) and worth_knowing(math.prod(dims) * fill.itemsize):
        return Value.of_array(np.broadcast_to(fill, dims))
    dtype = Value.of_array(fill).dtype
    return g.call("full", shape=dims, value=fill.item(), dtype=dtype)


@onnx_op("EyeLike", since=9)
def eye_like(g: Build, x: Value, *, dtype: int | None = None, k: int = 0) -> Value:
    """Ones on a diagonal."""
    if x.rank != 2:
        g.malformed(f"an operand with {x.rank} dimensions; it has to have 2")
    kind = x.dtype if dtype is None else element_type(g, dtype, "dtype")
    rows, columns = x.shape
    return g.call("eye", rows=rows, columns=columns, k=k, dtype=kind)


@onnx_op("Shape")
def shape(g: Build, x: Value, *, start: int = 0, end: int | None = None) -> Value:
    """The extents, which are known here."""
    return Value.of_sizes(x.shape[start:end])


@onnx_op("Size")
def size(g: Build, x: Value) -> Value:
    """The number of elements."""
    return Value.of_sizes(product(x.shape))


# -------------------------------------------------------------------------------------- reshapes


@onnx_op("Reshape", since=5)
def reshape(g: Build, x: Value, shape: Value, *, allowzero: int = 0) -> Value:
    """0 keeps an extent, -1 is what remains."""
    return dynamic.reshape(g, x, shape, bool(allowzero))


@onnx_op("Flatten")
def flatten(g: Build, x: Value, *, axis: int = 1) -> Value:
    """Two dimensions: those before the axis and those from it on."""
    if not -x.rank <= axis <= x.rank:
        g.malformed(f"axis={axis} of {x.rank} dimensions")
    axis = axis + x.rank if axis < 0 else axis
    return moves.reshape(g, x, (product(x.shape[:axis]), product(x.shape[axis:])))


@onnx_op("Squeeze")
def squeeze(g: Build, x: Value, axes: Value | None = None, *, axes_: Ints | None = None) -> Value:
    """Axes as an operand, or as an attribute of the same name."""
    return moves.squeeze(g, x, axes_ if axes is None else g.ints(axes, "axes"))


@onnx_op("Unsqueeze")
def unsqueeze(g: Build, x: Value, *, axes: Ints) -> Value:
    """Axes as an attribute."""
    return moves.expand_dims(g, x, axes)


@onnx_op("Unsqueeze", since=13)
def unsqueeze_13(g: Build, x: Value, axes: Value) -> Value:
    """Axes as an operand."""
    return moves.expand_dims(g, x, g.ints(axes, "axes"))


@onnx_op("Transpose")
def transpose(g: Build, x: Value, *, perm: Ints | None = None) -> Value:
    """Dimensions in another order, reversed without one."""
    return moves.transpose(g, x, tuple(reversed(range(x.rank))) if perm is None else perm)


onnx_op("Expand", since=8)(dynamic.expand)


@onnx_op("Tile", since=6)
def tile(g: Build, x: Value, repeats: Value) -> Value:
    """Repetition as a whole."""
    return moves.tile(g, x, g.dims(repeats, "repeats"))


for _name, _target in (("DepthToSpace", "depth_to_space"), ("SpaceToDepth", "space_to_depth")):
    same(_name, "x", core=_target, renamed="blocksize=block", legal={"mode": ("DCR", "CRD")},
         required="blocksize", mode="DCR")  # fmt: skip


@onnx_op("Trilu", since=14)
def trilu(g: Build, x: Value, k: Value | None = None, *, upper: int = 1) -> Value:
    """One side of a diagonal."""
    return g.call("trilu", x, k=0 if k is None else g.scalar(k, "k"), upper=bool(upper))


# ---------------------------------------------------------------------------- joining and cutting


@onnx_op("Concat", since=4)
def concat(g: Build, first: Value, *rest: Value, axis: int) -> Value:
    """Values one behind the other."""
    return moves.concat(g, (first, *rest), axis)


def _even(g: Build, x: Value, axis: int, count: int) -> list[Any]:
    """Sizes of `count` parts, the last one smaller where they do not come out even."""
    extent = x.shape[g.axis(axis, x.rank)]
    symbolic = isinstance(extent, Expr)
    part = simplify(extent // convert(count)) if symbolic else -(-extent // count)
    return [part] * (count - 1) + [simplify(extent - part * (count - 1))]


@onnx_op("Split")
def split(
    g: Build, x: Value, split: Value | None = None, *, axis: int = 0,
    num_outputs: int | None = None, split_: Ints = (),
) -> tuple[Value, ...]:  # fmt: skip
    """Sizes as an operand, or as an attribute of the same name, or as even as may be."""
    if split is not None:
        return moves.split(g, x, g.dims(split, "split"), axis)
    count = num_outputs or len(g.step.outputs)
    return moves.split(g, x, split_ or _even(g, x, axis, count), axis)


@onnx_op("Slice")
def slice_(g: Build, x: Value, *, axes: Ints | None = None, starts: Ints, ends: Ints) -> Value:
    """Ranges as attributes."""
    return moves.slice_(
        g, x, tuple(range(len(starts))) if axes is None else axes, starts, ends, (1,) * len(starts)
    )


@onnx_op("Slice", since=10)
def slice_10(
    g: Build, x: Value, starts: Value, ends: Value, axes: Value | None = None,
    steps: Value | None = None,
) -> Value:  # fmt: skip
    """Ranges as operands."""
    which = None if axes is None else g.ints(axes, "axes")
    return dynamic.slice_(g, x, starts, ends, which, steps)


_MODES = ("constant", "reflect", "edge", "wrap")


@onnx_op("Pad", since=2)
def pad(g: Build, x: Value, *, mode: str = "constant", pads: Ints, value: float = 0.0) -> Value:
    """Widths as an attribute."""
    g.one_of("mode", mode, _MODES)
    return moves.pad(g, x, pads, mode, value)


@onnx_op("Pad", since=11)
def pad_11(
    g: Build, x: Value, pads: Value, value: Value | None = None, axes: Value | None = None, *,
    mode: str = "constant",
) -> Value:  # fmt: skip
    """Widths as an operand, of some dimensions only where axes are given."""
    g.one_of("mode", mode, _MODES)
    which = None if axes is None else g.ints(axes, "axes")
    return dynamic.pad(g, x, pads, which, mode, value)
