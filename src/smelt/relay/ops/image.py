"""Images brought to another size, sampled, dilated."""

from __future__ import annotations

from typing import Any

from smelt.relax.compose.common import (
    cast_to,
    dtype_of,
    extents,
    legal,
    numbers,
    one_of,
    pad_numbers,
    rank_of,
)
from smelt.relax.compose.image import resized
from smelt.relax.compose.layout import gathered, spread
from smelt.relax.compose.window import SPATIAL
from smelt.relax.nodes import RelaxExpr, call

from ..dialect import RELAY, relay_op
from .layout import on_images


def _resize(rank: int) -> None:
    layout_ = "NC" + SPATIAL[rank]

    def prepare(attrs: dict[str, Any]) -> dict[str, Any]:
        size = attrs["size"]
        attrs["size"] = tuple(size) if isinstance(size, tuple | list) else (size,) * rank
        legal(len(attrs["size"]) == rank, f"size={size}; {rank} numbers are legal")
        roi = tuple(attrs["roi"] or ())
        legal(len(roi) in (0, 2 * rank), f"roi={roi}; {2 * rank} numbers are legal, or none")
        attrs["roi"] = tuple([float(r) for r in roi])
        return attrs

    def body(
        data: RelaxExpr,
        *,
        size: Any,
        roi: Any = None,
        layout: str = layout_,
        method: str = "linear",
        coordinate_transformation_mode: str = "half_pixel",
        rounding_method: str = "",
        cubic_alpha: float = -0.5,
        cubic_exclude: int = 0,
        extrapolation_value: float = 0.0,
        out_dtype: str | None = None,
    ) -> RelaxExpr:
        y = resized(
            data, size, layout, method, coordinate_transformation_mode, rounding_method,
            cubic_alpha, bool(cubic_exclude), roi, extrapolation_value,
        )  # fmt: skip
        return cast_to(y, out_dtype)

    body.__doc__ = f"Images with {rank} spatial dimension{'s' * (rank > 1)} of another size."
    RELAY.op(f"image.resize{rank}d", prepare=prepare, order="layout")(body)


for _rank in SPATIAL:
    _resize(_rank)


METHODS = {"bilinear": "linear", "nearest_neighbor": "nearest"}
"""How pixels are read between others: Relay's names, and the core's."""


@relay_op("image.crop_and_resize")
def crop_and_resize(
    data: RelaxExpr,
    boxes: RelaxExpr,
    box_indices: RelaxExpr,
    *,
    crop_size: Any,
    layout: str = "NCHW",
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
    out_dtype: str = "",
) -> RelaxExpr:
    """Parts of images, each brought to one size."""
    one_of("method", method, *METHODS)
    y = on_images(
        "crop_and_resize", data, layout, boxes, box_indices,
        size=numbers("crop_size", 2)(crop_size),
        mode=METHODS[method],
        extrapolation_value=float(extrapolation_value),
    )  # fmt: skip
    return cast_to(y, out_dtype)


@relay_op("image.affine_grid")
def affine_grid(data: RelaxExpr, *, target_shape: Any) -> RelaxExpr:
    """The grid [n, 2, h, w] (x, y) that makes grid_sample move an image by matrices [n, 2, 3]."""
    size = numbers("target_shape", 2)(target_shape)
    found = call("affine_grid", data, size=size, align_corners=True)
    return call("transpose", found, axes=(0, 3, 1, 2))


@relay_op("image.grid_sample")
def grid_sample(
    data: RelaxExpr,
    grid: RelaxExpr,
    *,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> RelaxExpr:
    """Images read at the points of a grid [n, 2 or 3, size...], x first."""
    one_of("method", method, "bilinear", "nearest", "bicubic")
    rank = rank_of(data) - 2
    legal(rank in (2, 3), f"the data has {rank_of(data)} dimensions; 4 or 5 are legal")
    want = "NC" + SPATIAL[rank]
    x = spread(data, layout, "layout", want)
    points = call("transpose", grid, axes=(0, *range(2, rank + 2), 1))
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(method, method)
    y = call("grid_sample", x, points, mode=mode, padding_mode=padding_mode,
             align_corners=align_corners)  # fmt: skip
    return gathered(y, want, layout, "layout")


def _dilation(attrs: dict[str, Any]) -> dict[str, Any]:
    for name in ("strides", "dilations"):
        attrs[name] = numbers(name, 2)(attrs[name])
    attrs["padding"] = pad_numbers(attrs["padding"], 2)
    return attrs


@relay_op("image.dilation2d", prepare=_dilation)
def dilation2d(
    data: RelaxExpr,
    weight: RelaxExpr,
    *,
    strides: Any = (1, 1),
    padding: Any = (0, 0),
    dilations: Any = (1, 1),
    data_layout: str = "NCHW",
    kernel_layout: str = "IHW",
    out_dtype: str = "",
) -> RelaxExpr:
    """The largest sum of a window's pixels and the weight's, for each channel."""
    x = spread(data, data_layout, "data_layout", "NCHW")
    w = spread(weight, kernel_layout, "kernel_layout", "IHW")
    have, want = extents(w)[0], extents(x)[1]
    legal(
        have == want or None in (have, want),
        f"the weight has {have} channels, the data {want}; they have to be equal",
    )
    y = call("dilation2d", x, w, strides=strides, pads=padding, dilations=dilations)
    return cast_to(gathered(y, "NCHW", data_layout, "data_layout"), out_dtype or dtype_of(data))
