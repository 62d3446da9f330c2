"""`relax.op.vision`: detection of objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.ir.dtype import to_numpy

from ..compose.common import along, dtype_of, extents, legal, numbers, reshaped, scalar, shape_of
from ..nodes import RelaxExpr, call, constant
from .entry import entry, namespace, number_given, same

__getattr__, __dir__ = namespace("vision")


def _float(given: Any) -> float:
    return float(number_given(given))


def _int(given: Any) -> int:
    return int(number_given(given))


same(
    "vision.all_class_non_max_suppression", "boxes scores", core="all_class_non_max_suppression",
    several=True,
    forms={"max_output_boxes_per_class": _int, "iou_threshold": _float, "score_threshold": _float,
           "output_format": {f: f for f in ("onnx", "tensorflow")}},
    max_output_boxes_per_class=-1, iou_threshold=-1.0, score_threshold=-1.0, output_format="onnx",
)  # fmt: skip
same("vision.get_valid_counts", "data", core="get_valid_counts", several=True,
     forms={"score_threshold": _float}, score_threshold=0.0, id_index=0, score_index=1)  # fmt: skip


same(
    "vision.non_max_suppression", "data valid_count indices:Indices", core="non_max_suppression",
    several=True, idle="soft_nms_sigma",
    forms={"max_output_size": _int, "iou_threshold": _float, "soft_nms_sigma": {0.0: 0.0}},
    max_output_size=-1, iou_threshold=0.5, force_suppress=False, top_k=-1, coord_start=2,
    score_index=1, id_index=0, return_indices=True, invalid_to_bottom=False, soft_nms_sigma=0.0,
)  # fmt: skip


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


_REGIONS = {"pooled_size": numbers("pooled_size", 2)}
same(
    "vision.roi_align", "data rois", core="roi_align", images=True,
    renamed="pooled_size=size spatial_scale=scale sample_ratio=samples aligned=half_pixel",
    forms={**_REGIONS, "sample_ratio": lambda value: max(value, 0)},
    required="pooled_size spatial_scale", sample_ratio=-1, aligned=False, layout="NCHW",
    mode="avg",
)  # fmt: skip
same(
    "vision.roi_pool", "data rois", core="roi_pool", images=True, forms=_REGIONS,
    renamed="pooled_size=size spatial_scale=scale", required="pooled_size spatial_scale",
    layout="NCHW",
)  # fmt: skip
