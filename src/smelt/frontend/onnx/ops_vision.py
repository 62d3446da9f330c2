"""Converters of operators on images: sampling, regions, boxes, patches."""

from __future__ import annotations

import math
from typing import Any, Unpack

from smelt.frontend.common import Build, Value, moves
from smelt.frontend.common.values import at_least, simplify
from smelt.frontend.common.windows import Spaced, window
from smelt.ir.build import maximum, minimum
from smelt.ir.expr import convert

from .ops_nn import per_channel
from .registry import Ints, onnx_op, same


def _image(g: Build, x: Value, rank: int = 4) -> None:
    if x.rank != rank:
        g.malformed(f"the image has {x.rank} dimensions; {rank} needed")


# -------------------------------------------------------------------------------------- sampling


for _since, _modes in (
    (16, {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}),
    (20, {mode: mode for mode in ("linear", "nearest", "cubic")}),
):
    same("GridSample", "x grid", core="grid_sample", since=_since, align_corners=0,
         legal={"mode": _modes, "padding_mode": ("zeros", "border", "reflection")},
         mode=next(iter(_modes)), padding_mode="zeros")  # fmt: skip


@onnx_op("CenterCropPad", since=18)
def center_crop_pad(g: Build, x: Value, shape: Value, *, axes: Ints = ()) -> Value:
    """The middle of a value, or the value in the middle of zeros."""
    where = g.axes(axes, x.rank) if axes else tuple(range(x.rank))
    wanted = g.dims(shape, "shape")
    if len(wanted) != len(where):
        g.malformed(f"{len(wanted)} extents for {len(where)} dimensions")
    pads: list[Any] = [0] * (2 * x.rank)
    for a, want in zip(where, wanted, strict=True):
        extent = x.shape[a]
        if not at_least(want, extent):
            kept = simplify(minimum(convert(extent), want))
            begin = simplify((convert(extent) - kept) // 2)
            x = moves.along(g, x, a, begin, simplify(convert(begin) + kept))
        if not at_least(extent, want):
            extra = simplify(maximum(convert(want) - extent, 0))
            pads[a] = simplify(convert(extra) // 2)
            pads[x.rank + a] = simplify(convert(extra) - pads[a])
    if all(isinstance(p, int) and p == 0 for p in pads):
        return x
    return g.call("pad", x, pads=tuple(pads))


# --------------------------------------------------------------------------------------- regions


@onnx_op("RoiAlign", since=10)
def roi_align(
    g: Build, x: Value, rois: Value, batch_indices: Value, *,
    coordinate_transformation_mode: str = "", mode: str = "avg", output_height: int = 1,
    output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0,
) -> Value:  # fmt: skip
    """Regions pooled from interpolated points; at first, pixels lay at whole coordinates."""
    how = coordinate_transformation_mode
    how = how or ("half_pixel" if g.opset >= 16 else "output_half_pixel")
    g.one_of("coordinate_transformation_mode", how, ("half_pixel", "output_half_pixel"))
    _image(g, x)
    if rois.rank != 2 or batch_indices.rank != 1:
        ranks = f"{rois.rank} and {batch_indices.rank}"
        g.malformed(f"rois and batch_indices have {ranks} dimensions")
    g.one_of("mode", mode, ("avg", "max"))
    numbers = g.call("cast", batch_indices, dtype=rois.dtype)
    numbers = moves.reshape(g, numbers, (batch_indices.shape[0], 1))
    return g.call(
        "roi_align", x, moves.concat(g, (numbers, rois), 1),
        size=(output_height, output_width), scale=spatial_scale, samples=sampling_ratio,
        mode="avg" if mode == "avg" else "max_pixel", half_pixel=how == "half_pixel",
    )  # fmt: skip


@onnx_op("MaxRoiPool")
def max_roi_pool(
    g: Build, x: Value, rois: Value, *, pooled_shape: Ints, spatial_scale: float = 1.0
) -> Value:
    """The largest of each part of regions of whole pixels."""
    _image(g, x)
    return g.call("roi_pool", x, rois, size=pooled_shape, scale=spatial_scale)


@onnx_op("DeformConv", since=19)
def deform_conv(
    g: Build,
    x: Value,
    w: Value,
    offset: Value,
    b: Value | None = None,
    mask: Value | None = None,
    *,
    group: int = 1,
    kernel_shape: Ints = (),
    offset_group: int = 1,
    **place: Unpack[Spaced],
) -> Value:
    """A convolution at moved points."""
    if x.rank != 4:
        g.unsupported(f"an image of {x.rank} dimensions", "4")
    if kernel_shape and tuple(w.shape[2:]) != kernel_shape:
        g.malformed(f"kernel_shape={kernel_shape}, but the weights have {w.shape[2:]}")
    win = window(g, x, w.shape[2:], **place)
    y = g.call(
        "deformable_conv2d", x, offset, w, mask, groups=group, offset_groups=offset_group,
        **win.placed(),
    )  # fmt: skip
    return y if b is None else g.call("add", y, per_channel(g, b, y.rank))


# ----------------------------------------------------------------------------- boxes and patches


@onnx_op("ImageDecoder", since=20)
def image_decoder(g: Build, data: Value, *, pixel_format: str = "RGB") -> Value:
    """The pixels of an encoded picture, whose size the picture tells."""
    g.one_of("pixel_format", pixel_format, ("RGB", "BGR", "Grayscale"))
    if data.rank != 1 or data.dtype != "uint8":
        g.malformed(
            f"an encoded picture is a vector of uint8, not {data.dtype} of rank {data.rank}"
        )
    channels = 1 if pixel_format == "Grayscale" else 3
    extents = (None, None, channels)
    return g.host("decode_image", (data,), "uint8", extents, pixel_format=pixel_format)


@onnx_op("NonMaxSuppression", since=10)
def non_max_suppression(
    g: Build, boxes: Value, scores: Value, most: Value | None = None,
    iou_threshold: Value | None = None, score_threshold: Value | None = None, *,
    center_point_box: int = 0,
) -> Value:  # fmt: skip
    """The best boxes of every image and class without those that overlap a better one."""
    g.one_of("center_point_box", center_point_box, (0, 1))
    limit = 0 if most is None else int(g.number(most, "max_output_boxes_per_class"))
    least = None if score_threshold is None else float(g.number(score_threshold, "score_threshold"))
    overlap = 0.0 if iou_threshold is None else float(g.number(iou_threshold, "iou_threshold"))
    if not 0 <= overlap <= 1:
        g.malformed(f"iou_threshold={overlap}; legal: 0 to 1")
    if limit <= 0:
        return g.call("full", shape=(0, 3), value=0.0, dtype="int64")
    found, count = g.calls(
        "all_class_non_max_suppression",
        boxes,
        scores,
        max_output_boxes_per_class=min(limit, (1 << 31) - 1),
        iou_threshold=overlap,
        score_threshold=least,
        center_point_box=bool(center_point_box),
    )
    return g.shrink(found, count, axis=0)


@onnx_op("Col2Im", since=18)
def col2im(
    g: Build, x: Value, image_shape: Value, block_shape: Value, *, dilations: Ints = (),
    pads: Ints = (), strides: Ints = (),
) -> Value:  # fmt: skip
    """Windows added up to the images that they are of."""
    size, kernel = g.dims(image_shape, "image_shape"), g.ints(block_shape, "block_shape")
    if len(size) != len(kernel):
        g.malformed(f"image_shape has {len(size)} elements, block_shape {len(kernel)}")
    if min(kernel, default=1) < 1:
        g.malformed(f"block_shape={kernel}; every number has to be at least 1")
    columns = x.shape[1]
    if isinstance(columns, int) and columns % math.prod(kernel):
        g.malformed(f"{columns} rows are no multiple of block_shape={kernel}")
    return g.call(
        "col2im", x, size=size, kernel=kernel, strides=strides, pads=pads, dilations=dilations
    )
