"""Operators of object detection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from smelt.ir.build import value_of
from smelt.relax.compose.common import (
    items_of,
    legal,
    number_of,
    numbers,
    one_of,
    reshaped,
    shape_of,
)
from smelt.relax.nodes import RelaxExpr, call

from ..dialect import relay_op
from .layout import on_images


def plain_numbers(*names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What brings attributes that may be given as constants into the form of numbers."""

    def prepare(attrs: dict[str, Any]) -> dict[str, Any]:
        for name in names:
            if isinstance(attrs[name], RelaxExpr):
                known = number_of(attrs[name])
                legal(known is not None, f"{name} is computed; a number or a constant is legal")
                attrs[name] = known
        return attrs

    return prepare


def floats(values: Sequence[float] | float) -> tuple[float, ...]:
    """Numbers as floats."""
    return tuple([float(v) for v in (values if isinstance(values, tuple | list) else (values,))])


@relay_op("vision.multibox_prior")
def multibox_prior(
    data: RelaxExpr,
    *,
    sizes: Any = (1.0,),
    ratios: Any = (1.0,),
    steps: Any = (-1.0, -1.0),
    offsets: Any = (0.5, 0.5),
    clip: bool = False,
) -> RelaxExpr:
    """Anchors of every pixel of images [n, c, h, w]: [1, anchors, 4]."""
    height, width = shape_of(data)[2:]
    return call(
        "multibox_prior", height=height, width=width, sizes=floats(sizes), ratios=floats(ratios),
        steps=floats(steps), offsets=floats(offsets), clip=clip,
    )  # fmt: skip


@relay_op("vision.multibox_transform_loc", results=2)
def multibox_transform_loc(
    cls_prob: RelaxExpr,
    loc_pred: RelaxExpr,
    anchor: RelaxExpr,
    *,
    clip: bool = True,
    threshold: float = 0.01,
    variances: Any = (0.1, 0.1, 0.2, 0.2),
    keep_background: bool = False,
) -> list[RelaxExpr]:
    """Anchors moved by predictions, with class and score: (boxes [b, n, 6], how many [b])."""
    return items_of(call(
        "multibox_transform_loc", cls_prob, loc_pred, anchor, clip=clip,
        threshold=float(threshold), variances=floats(variances), keep_background=keep_background,
    ))  # fmt: skip


@relay_op("vision.get_valid_counts", results=3, prepare=plain_numbers("score_threshold"))
def get_valid_counts(
    data: RelaxExpr, *, score_threshold: Any = 0.0, id_index: int = 0, score_index: int = 1
) -> list[RelaxExpr]:
    """(how many boxes have a score above the threshold, those first, where they stood)."""
    return items_of(call(
        "get_valid_counts", data, score_threshold=float(score_threshold), id_index=id_index,
        score_index=score_index,
    ))  # fmt: skip


@relay_op(
    "vision.non_max_suppression",
    results=lambda made: 2 if made.attrs["return_indices"] else 1,
    prepare=plain_numbers("max_output_size", "iou_threshold"),
)
def non_max_suppression(
    data: RelaxExpr,
    valid_count: RelaxExpr,
    indices: RelaxExpr,
    *,
    max_output_size: Any = -1,
    iou_threshold: Any = 0.5,
    force_suppress: bool = False,
    top_k: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = 0,
    return_indices: bool = True,
    invalid_to_bottom: bool = False,
) -> Any:
    """Boxes in the order of their scores without those that overlap a better one.

    return_indices  the kept boxes' indices and how many they are, instead of boxes
    """
    made = call(
        "non_max_suppression", data, valid_count, indices, max_output_size=int(max_output_size),
        iou_threshold=float(iou_threshold), force_suppress=force_suppress, top_k=top_k,
        coord_start=coord_start, score_index=score_index, id_index=id_index,
        return_indices=return_indices, invalid_to_bottom=invalid_to_bottom,
    )  # fmt: skip
    return items_of(made) if return_indices else made


@relay_op(
    "vision.all_class_non_max_suppression",
    results=lambda made: 2 if made.attrs["output_format"] == "onnx" else 3,
    prepare=plain_numbers("max_output_boxes_per_class", "iou_threshold", "score_threshold"),
)
def all_class_non_max_suppression(
    boxes: RelaxExpr,
    scores: RelaxExpr,
    *,
    max_output_boxes_per_class: Any = -1,
    iou_threshold: Any = -1.0,
    score_threshold: Any = -1.0,
    output_format: str = "onnx",
) -> list[RelaxExpr]:
    """The kept boxes of every class, as "onnx" or "tensorflow" give them, and how many."""
    one_of("output_format", output_format, "onnx", "tensorflow")
    return items_of(call(
        "all_class_non_max_suppression", boxes, scores,
        max_output_boxes_per_class=int(max_output_boxes_per_class),
        iou_threshold=float(iou_threshold), score_threshold=float(score_threshold),
        output_format=output_format,
    ))  # fmt: skip


@relay_op("vision.regular_non_max_suppression", results=4)
def regular_non_max_suppression(
    boxes: RelaxExpr,
    scores: RelaxExpr,
    *,
    max_detections_per_class: int,
    max_detections: int,
    num_classes: int,
    iou_threshold: float,
    score_threshold: float,
) -> list[RelaxExpr]:
    """The best boxes of all classes: (boxes, classes, scores, how many)."""
    return items_of(call(
        "regular_non_max_suppression", boxes, scores,
        max_detections_per_class=max_detections_per_class, max_detections=max_detections,
        num_classes=num_classes, iou_threshold=float(iou_threshold),
        score_threshold=float(score_threshold),
    ))  # fmt: skip


@relay_op("vision.roi_align")
def roi_align(
    data: RelaxExpr,
    rois: RelaxExpr,
    *,
    pooled_size: Any,
    spatial_scale: float,
    sample_ratio: int = -1,
    layout: str = "NCHW",
    mode: str = "avg",
) -> RelaxExpr:
    """Regions [k, 5] of images, each pooled from interpolated points; 0 or -1 samples: by size."""
    size, scale = numbers("pooled_size", 2)(pooled_size), float(spatial_scale)
    return on_images("roi_align", data, layout, rois, size=size, scale=scale,
                     samples=max(sample_ratio, 0), mode=mode)  # fmt: skip


@relay_op("vision.roi_pool")
def roi_pool(
    data: RelaxExpr,
    rois: RelaxExpr,
    *,
    pooled_size: Any,
    spatial_scale: float,
    layout: str = "NCHW",
) -> RelaxExpr:
    """Regions [k, 5] of images, the largest element of each part."""
    size, scale = numbers("pooled_size", 2)(pooled_size), float(spatial_scale)
    return on_images("roi_pool", data, layout, rois, size=size, scale=scale)


@relay_op("vision.proposal")
def proposal(
    cls_prob: RelaxExpr,
    bbox_pred: RelaxExpr,
    im_info: RelaxExpr,
    *,
    scales: Any,
    ratios: Any,
    feature_stride: int,
    threshold: float,
    rpn_pre_nms_top_n: int,
    rpn_post_nms_top_n: int,
    rpn_min_size: int,
    iou_loss: bool,
) -> RelaxExpr:
    """Regions that a region proposal network holds for objects: [b * rpn_post_nms_top_n, 5]."""
    return call(
        "proposal", cls_prob, bbox_pred, im_info, scales=floats(scales), ratios=floats(ratios),
        feature_stride=int(feature_stride), threshold=float(threshold),
        rpn_pre_nms_top_n=rpn_pre_nms_top_n, rpn_post_nms_top_n=rpn_post_nms_top_n,
        rpn_min_size=int(rpn_min_size), iou_loss=bool(iou_loss),
    )  # fmt: skip


@relay_op("vision.yolo_reorg")
def yolo_reorg(data: RelaxExpr, *, stride: int) -> RelaxExpr:
    """Channels and blocks of pixels change places: [n, c, h, w] to [n, c * s * s, h / s, w / s].

    Element (c, y, x) of the result is element (c % k, y * s + c // k // s, x * s + c // k % s) of
    the data read as [n, k, h * s, w * s], with k = c / s / s channels of the data.
    """
    n, c, h, w = shape_of(data)
    known = value_of(c)
    legal(
        known is None or known % (stride * stride) == 0,
        f"the data has {known} channels; they have to be a multiple of stride ** 2",
    )
    for name, e in (("height", h), ("width", w)):
        size = value_of(e)
        legal(size is None or size % stride == 0, f"the {name} {size} is no multiple of {stride}")
    wide = reshaped(data, (n, c // (stride * stride), h * stride, w * stride))
    return reshaped(
        call("space_to_depth", wide, block=stride),
        (n, c * stride * stride, h // stride, w // stride),
    )
