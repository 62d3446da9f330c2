"""Operators of object detection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smelt.relax.compose.common import divisible, legal, number_of, numbers, reshaped, shape_of
from smelt.relax.compose.rows import floats
from smelt.relax.nodes import RelaxExpr, call

from ..dialect import relay_op, same


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


same(
    "vision.multibox_transform_loc", "cls_prob loc_pred anchor", core="multibox_transform_loc",
    results=2, clip=True, threshold=0.01,
    variances=(0.1, 0.1, 0.2, 0.2), keep_background=False,
)  # fmt: skip
same(
    "vision.get_valid_counts", "data", core="get_valid_counts", results=3,
    prepare=plain_numbers("score_threshold"), score_threshold=0.0, id_index=0, score_index=1,
)  # fmt: skip
same(
    "vision.non_max_suppression", "data valid_count indices", core="non_max_suppression",
    results=lambda made: 2 if made.attrs["return_indices"] else 1,
    prepare=plain_numbers("max_output_size", "iou_threshold"), max_output_size=-1,
    iou_threshold=0.5, force_suppress=False, top_k=-1, coord_start=2, score_index=1, id_index=0,
    return_indices=True, invalid_to_bottom=False,
)  # fmt: skip
same(
    "vision.all_class_non_max_suppression", "boxes scores", core="all_class_non_max_suppression",
    results=lambda made: 2 if made.attrs["output_format"] == "onnx" else 3,
    prepare=plain_numbers("max_output_boxes_per_class", "iou_threshold", "score_threshold"),
    forms={"output_format": {f: f for f in ("onnx", "tensorflow")}},
    max_output_boxes_per_class=-1, iou_threshold=-1.0, score_threshold=-1.0, output_format="onnx",
)  # fmt: skip
same(
    "vision.regular_non_max_suppression", "boxes scores", core="regular_non_max_suppression",
    results=4,
    required="max_detections_per_class max_detections num_classes iou_threshold score_threshold",
)  # fmt: skip

_REGIONS = {"pooled_size": numbers("pooled_size", 2)}
same(
    "vision.roi_align", "data rois", core="roi_align", images=True,
    renamed="pooled_size=size spatial_scale=scale sample_ratio=samples",
    forms={**_REGIONS, "sample_ratio": lambda value: max(value, 0)},
    required="pooled_size spatial_scale", sample_ratio=-1, layout="NCHW", mode="avg",
)  # fmt: skip
same(
    "vision.roi_pool", "data rois", core="roi_pool", images=True, forms=_REGIONS,
    renamed="pooled_size=size spatial_scale=scale", required="pooled_size spatial_scale",
    layout="NCHW",
)  # fmt: skip
same(
    "vision.proposal", "cls_prob bbox_pred im_info", core="proposal",
    required="scales ratios feature_stride threshold rpn_pre_nms_top_n rpn_post_nms_top_n "
    "rpn_min_size iou_loss",
)  # fmt: skip


@relay_op("vision.yolo_reorg")
def yolo_reorg(data: RelaxExpr, *, stride: int) -> RelaxExpr:
    """Channels and blocks of pixels change places: [n, c, h, w] to [n, c * s * s, h / s, w / s].

    Element (c, y, x) of the result is element (c % k, y * s + c // k // s, x * s + c // k % s) of
    the data read as [n, k, h * s, w * s], with k = c / s / s channels of the data.
    """
    n, c, h, w = shape_of(data)
    divisible("the number of channels", c, stride * stride)
    divisible("the height", h, stride)
    divisible("the width", w, stride)
    wide = reshaped(data, (n, c // (stride * stride), h * stride, w * stride))
    return reshaped(
        call("space_to_depth", wide, block=stride),
        (n, c * stride * stride, h // stride, w // stride),
    )
