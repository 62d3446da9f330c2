"""`relax.op.vision`: detection of objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.ir.dtype import to_numpy

from ..compose.common import (
    along,
    dtype_of,
    extents,
    items_of,
    legal,
    numbers,
    one_of,
    reshaped,
    scalar,
    shape_of,
)
from ..compose.layout import gathered, spread
from ..nodes import RelaxExpr, call, constant
from .entry import Indices, entry, namespace, number_given

__getattr__, __dir__ = namespace("vision")


@entry("vision.all_class_non_max_suppression")
def all_class_non_max_suppression(
    boxes: RelaxExpr, scores: RelaxExpr, max_output_boxes_per_class: Any = -1,
    iou_threshold: Any = -1.0, score_threshold: Any = -1.0, output_format: str = "onnx",
) -> list[RelaxExpr]:  # fmt: skip
    """The kept boxes of every class, as "onnx" or "tensorflow" give them, and how many."""
    one_of("output_format", output_format, "onnx", "tensorflow")
    return items_of(call(
        "all_class_non_max_suppression", boxes, scores,
        max_output_boxes_per_class=int(number_given(max_output_boxes_per_class)),
        iou_threshold=float(number_given(iou_threshold)),
        score_threshold=float(number_given(score_threshold)), output_format=output_format,
    ))  # fmt: skip


@entry("vision.get_valid_counts")
def get_valid_counts(
    data: RelaxExpr, score_threshold: Any = 0.0, id_index: int = 0, score_index: int = 1
) -> list[RelaxExpr]:
    """(how many boxes have a score above the threshold, those first, where they stood)."""
    return items_of(call(
        "get_valid_counts", data, score_threshold=float(number_given(score_threshold)),
        id_index=id_index, score_index=score_index,
    ))  # fmt: skip


@entry("vision.non_max_suppression")
def non_max_suppression(
    data: RelaxExpr, valid_count: RelaxExpr, indices: Indices, max_output_size: Any = -1,
    iou_threshold: Any = 0.5, force_suppress: bool = False, top_k: int = -1, coord_start: int = 2,
    score_index: int = 1, id_index: int = 0, return_indices: bool = True,
    invalid_to_bottom: bool = False, soft_nms_sigma: float = 0.0,
) -> Any:  # fmt: skip
    """Boxes in the order of their scores without those that overlap a better one.

    return_indices  the kept boxes' indices and how many they are, instead of boxes
    """
    legal(soft_nms_sigma == 0, f"soft_nms_sigma={soft_nms_sigma} is not supported; legal: 0.0")
    made = call(
        "non_max_suppression", data, valid_count, indices,
        max_output_size=int(number_given(max_output_size)),
        iou_threshold=float(number_given(iou_threshold)), force_suppress=force_suppress,
        top_k=top_k, coord_start=coord_start, score_index=score_index, id_index=id_index,
        return_indices=return_indices, invalid_to_bottom=invalid_to_bottom,
    )  # fmt: skip
    return items_of(made) if return_indices else made


@entry("vision.multibox_transform_loc")
def multibox_transform_loc(
    cls_pred: RelaxExpr, loc_pred: RelaxExpr, anchor: RelaxExpr, clip: bool = False,
    threshold: float = 0.0, variances: Any = (1.0, 1.0, 1.0, 1.0), keep_background: bool = True,
    apply_softmax: bool = True,
) -> list[RelaxExpr]:  # fmt: skip
    """Anchors moved by predictions: (boxes [b, n, 4] as (top, left, bottom, right), scores
    [b, classes, n]).

    Shapes           cls_pred [b, classes, n]; loc_pred [b, 4 * n] of (x, y, w, h); anchor
                     [1, n, 4] of (left, top, right, bottom)
    threshold        scores below it become 0
    variances        factors of the four predictions
    clip             boxes are brought into 0 .. 1
    keep_background  False: the scores of class 0 become 0
    """
    legal(len(variances) == 4, f"variances={variances}; 4 numbers are legal")
    kind = dtype_of(loc_pred)
    scores: RelaxExpr = call("softmax", cls_pred, axis=1) if apply_softmax else cls_pred
    high = call("greater_equal", scores, scalar(threshold, dtype_of(scores)))
    scores = call("where", high, scores, scalar(0, dtype_of(scores)))
    if not keep_background:
        classes = extents(cls_pred)[1]
        legal(classes is not None, "keep_background=False needs a known number of classes")
        kept = np.ones((classes or 1, 1), to_numpy(dtype_of(scores)))
        kept[0] = 0
        scores = call("multiply", scores, constant(kept))
    batch, count = shape_of(cls_pred)[0], shape_of(cls_pred)[2]
    moves = call("multiply", reshaped(loc_pred, (batch, count, 4)),
                 constant(np.asarray([float(v) for v in variances], to_numpy(kind))))  # fmt: skip
    low, high_corner = along(anchor, 2, 0, 2), along(anchor, 2, 2, 4)
    size = call("subtract", high_corner, low)
    half = scalar(0.5, kind)
    middle = call("add", low, call("multiply", size, half))
    middle = call("add", call("multiply", along(moves, 2, 0, 2), size), middle)
    reach = call("multiply", call("multiply", call("exp", along(moves, 2, 2, 4)), size), half)
    corners = [call(how, middle, reach) for how in ("subtract", "add")]
    boxes: RelaxExpr = call("concat", *[call("flip", c, axes=(2,)) for c in corners], axis=2)
    return [call("clip", boxes, min=0.0, max=1.0) if clip else boxes, scores]


@entry("vision.roi_align")
def roi_align(
    data: RelaxExpr, rois: RelaxExpr, pooled_size: Any, spatial_scale: float,
    sample_ratio: int = -1, aligned: bool = False, layout: str = "NCHW", mode: str = "avg",
) -> RelaxExpr:  # fmt: skip
    """Regions [k, 5] of images, each pooled from interpolated points; 0 or -1 samples: by size."""
    y = call(
        "roi_align", spread(data, layout, "layout", "NCHW"), rois,
        size=numbers("pooled_size", 2)(pooled_size), scale=float(spatial_scale),
        samples=max(sample_ratio, 0), mode=mode, half_pixel=bool(aligned),
    )  # fmt: skip
    return gathered(y, "NCHW", layout, "layout")


@entry("vision.roi_pool")
def roi_pool(
    data: RelaxExpr, rois: RelaxExpr, pooled_size: Any, spatial_scale: float, layout: str = "NCHW"
) -> RelaxExpr:
    """Regions [k, 5] of images, the largest element of each part."""
    y = call("roi_pool", spread(data, layout, "layout", "NCHW"), rois,
             size=numbers("pooled_size", 2)(pooled_size), scale=float(spatial_scale))  # fmt: skip
    return gathered(y, "NCHW", layout, "layout")
