"""dyn.*: operators whose sizes are operands.

The body wants constants there. relay.reshape(x, newshape), relay.zeros(shape), ... make these
operators where a size is an expression; where it turns out to be a constant, or follows from known
shapes, the program is compiled like any other.
"""

from __future__ import annotations

from typing import Any

from smelt.relax.compose.common import array_of, number_of, rank_of, sizes
from smelt.relax.nodes import RelaxExpr, call

from ..dialect import RELAY, relay_op


def static(name: str, *operands: RelaxExpr | None, **attrs: Any) -> RelaxExpr:
    """The call of the operator of known sizes."""
    return call(RELAY.get(name), *operands, **attrs)


@relay_op("dyn.reshape", needs=("newshape",))
def reshape(data: RelaxExpr, newshape: RelaxExpr, *, allowzero: bool = False) -> RelaxExpr:
    """Another shape, given as a vector."""
    return static("reshape", data, newshape=sizes(newshape), allowzero=allowzero)


@relay_op("dyn.broadcast_to", needs=("shape",))
def broadcast_to(data: RelaxExpr, shape: RelaxExpr) -> RelaxExpr:
    """A larger shape, given as a vector."""
    return static("broadcast_to", data, shape=sizes(shape))


@relay_op("dyn.expand_dims", needs=("axis",))
def expand_dims(data: RelaxExpr, axis: RelaxExpr, *, num_newaxis: int = 1) -> RelaxExpr:
    """New dimensions in front of an axis, given as a scalar."""
    return static("expand_dims", data, axis=sizes(axis)[0], num_newaxis=num_newaxis)


@relay_op("dyn.squeeze", needs=("axis",))
def squeeze(data: RelaxExpr, axis: RelaxExpr) -> RelaxExpr:
    """Without dimensions of extent 1, given as a vector."""
    return static("squeeze", data, axis=sizes(axis))


@relay_op("dyn.tile", needs=("reps",))
def tile(data: RelaxExpr, reps: RelaxExpr) -> RelaxExpr:
    """Repeated along each dimension, as often as a vector says."""
    return static("tile", data, reps=sizes(reps))


@relay_op("dyn.full", needs=("shape",))
def full(fill_value: RelaxExpr, shape: RelaxExpr, *, dtype: str = "") -> RelaxExpr:
    """All fill_value, in a shape given as a vector."""
    return static("full", fill_value, shape=sizes(shape), dtype=dtype)


@relay_op("dyn.zeros", needs=("shape",))
def zeros(shape: RelaxExpr, *, dtype: str = "float32") -> RelaxExpr:
    """All zero, in a shape given as a vector."""
    return static("zeros", shape=sizes(shape), dtype=dtype)


@relay_op("dyn.ones", needs=("shape",))
def ones(shape: RelaxExpr, *, dtype: str = "float32") -> RelaxExpr:
    """All one, in a shape given as a vector."""
    return static("ones", shape=sizes(shape), dtype=dtype)


@relay_op("dyn.one_hot", needs=("depth",))
def one_hot(
    indices: RelaxExpr, on_value: RelaxExpr, off_value: RelaxExpr, depth: RelaxExpr, *,
    axis: int = -1, dtype: str = "float32",
) -> RelaxExpr:  # fmt: skip
    """on_value at the index along a new axis, whose extent is a scalar."""
    return static("one_hot", indices, on_value, off_value, depth=number_of(depth), axis=axis,
                  dtype=dtype)  # fmt: skip


@relay_op(
    "dyn.topk", needs=("k",), results=lambda made: 2 if made.attrs["ret_type"] == "both" else 1
)
def topk(
    data: RelaxExpr, k: RelaxExpr, *, axis: int = -1, ret_type: str = "both",
    is_ascend: bool = False, dtype: str = "int32",
) -> RelaxExpr:  # fmt: skip
    """The k first elements along an axis; k is a scalar."""
    return static("topk", data, k=number_of(k), axis=axis, ret_type=ret_type, is_ascend=is_ascend,
                  dtype=dtype)  # fmt: skip


@relay_op("dyn.strided_slice", needs=("begin", "end", "strides"))
def strided_slice(
    data: RelaxExpr, begin: RelaxExpr, end: RelaxExpr, strides: RelaxExpr, *,
    slice_mode: str = "end",
) -> RelaxExpr:  # fmt: skip
    """Every strides-th element from begin up to end, given as vectors."""
    return static("strided_slice", data, begin=sizes(begin), end=sizes(end), strides=sizes(strides),
                  slice_mode=slice_mode)  # fmt: skip


@relay_op("dyn.sparse_to_dense", needs=("output_shape",))
def sparse_to_dense(
    sparse_indices: RelaxExpr,
    output_shape: RelaxExpr,
    sparse_values: RelaxExpr,
    default_value: RelaxExpr,
) -> RelaxExpr:
    """A tensor of default_value with some elements written, in a shape given as a vector."""
    return static("sparse_to_dense", sparse_indices, sparse_values, default_value,
                  output_shape=sizes(output_shape))  # fmt: skip


@relay_op("dyn.nn.pad", needs=("pad_width",))
def pad(
    data: RelaxExpr, pad_width: RelaxExpr, pad_value: RelaxExpr, *, pad_mode: str = "constant"
) -> RelaxExpr:
    """Elements around; pad_width is [dimensions, 2]."""
    found = array_of(pad_width)
    assert found is not None
    pairs = tuple([(int(a), int(b)) for a, b in found.reshape(rank_of(data), 2)])
    return static("nn.pad", data, pad_value, pad_width=pairs, pad_mode=pad_mode)


@relay_op("dyn.nn.upsampling", needs=("scale_h", "scale_w"))
def upsampling(
    data: RelaxExpr, scale_h: RelaxExpr, scale_w: RelaxExpr, *, layout: str = "NCHW",
    method: str = "nearest_neighbor", align_corners: bool = False,
) -> RelaxExpr:  # fmt: skip
    """An image so many times as high and wide; scales are scalars."""
    return static("nn.upsampling", data, scale_h=number_of(scale_h), scale_w=number_of(scale_w),
                  layout=layout, method=method, align_corners=align_corners)  # fmt: skip


@relay_op("dyn.nn.upsampling3d", needs=("scale_d", "scale_h", "scale_w"))
def upsampling3d(
    data: RelaxExpr, scale_d: RelaxExpr, scale_h: RelaxExpr, scale_w: RelaxExpr, *,
    layout: str = "NCDHW", method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
) -> RelaxExpr:  # fmt: skip
    """A volume so many times as deep, high and wide; scales are scalars."""
    return static(
        "nn.upsampling3d", data, scale_d=number_of(scale_d), scale_h=number_of(scale_h),
        scale_w=number_of(scale_w), layout=layout, method=method,
        coordinate_transformation_mode=coordinate_transformation_mode,
    )  # fmt: skip


@relay_op("dyn.image.resize2d", needs=("size", "roi"))
def resize2d(
    data: RelaxExpr, size: RelaxExpr, roi: RelaxExpr | None = None, *, layout: str = "NCHW",
    method: str = "linear", coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "", cubic_alpha: float = -0.5, cubic_exclude: int = 0,
    extrapolation_value: float = 0.0, out_dtype: str | None = None,
) -> RelaxExpr:  # fmt: skip
    """Images of another size, given as a vector."""
    part = array_of(roi)
    return static(
        "image.resize2d", data, size=sizes(size), layout=layout, method=method,
        roi=None if part is None else tuple(part.reshape(-1).tolist()),
        coordinate_transformation_mode=coordinate_transformation_mode,
        rounding_method=rounding_method, cubic_alpha=cubic_alpha, cubic_exclude=cubic_exclude,
        extrapolation_value=extrapolation_value, out_dtype=out_dtype,
    )  # fmt: skip
