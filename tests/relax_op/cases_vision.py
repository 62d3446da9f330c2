"""Cases of detection, against loops in numpy."""

from __future__ import annotations

import numpy as np

from smelt.relax import op
from tests.relax_arrays import f32s, i32s

from .cases import case, f32

vision = op.vision

_boxes = f32s([[[0, 0, 4, 4], [0, 0, 4, 3.9], [5, 5, 9, 9]]])
_scores = f32s([[[0.9, 0.8, 0.3]]])
case(
    "vision.all_class_non_max_suppression",
    lambda b, s: op.take(vision.all_class_non_max_suppression(b, s, 3, 0.5, 0.1)[1], 0, 0),
    (_boxes, _scores),
    lambda b, s: np.int64(2),
)
_data = f32s([[[0, 0.2, 0, 0, 4, 4], [1, 0.9, 5, 5, 9, 9], [0, 0.6, 0, 0, 4, 3.9]]])
case(
    "vision.get_valid_counts",
    lambda x: vision.get_valid_counts(x, 0.5, 0, 1)[0],
    _data,
    lambda x: i32s([2]),
)
case(
    "vision.non_max_suppression",
    lambda x: vision.non_max_suppression(
        x,
        i32s([3]),
        i32s([[0, 1, 2]]),
        -1,
        0.5,
        True,
        id_index=0,
        coord_start=2,
        score_index=1,
        return_indices=False,
        invalid_to_bottom=True,
    ),
    _data,
    lambda x: np.stack([np.stack([x[0, 1], x[0, 2], np.full(6, -1, "float32")])]),
)


def _decoded(cls: np.ndarray, loc: np.ndarray, anchor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    score = np.exp(cls) / np.exp(cls).sum(1, keepdims=True)
    score = np.where(score >= np.float32(0.2), score, 0)
    score[:, 0] = 0
    boxes = np.zeros((*loc.shape[:1], anchor.shape[1], 4), "float32")
    for n in range(loc.shape[0]):
        for i, (left, top, right, bottom) in enumerate(anchor[0]):
            x, y, w, h = loc[n, 4 * i : 4 * i + 4] * f32s([0.1, 0.1, 0.2, 0.2])
            wide, high = right - left, bottom - top
            cx, cy = x * wide + (left + right) / 2, y * high + (top + bottom) / 2
            w, h = np.exp(w) * wide / 2, np.exp(h) * high / 2
            boxes[n, i] = cy - h, cx - w, cy + h, cx + w
    return np.clip(boxes, 0, 1), score.astype("float32")


_anchor = f32s([[[0.1, 0.2, 0.4, 0.6], [0.3, 0.1, 0.9, 0.8]]])
case(
    "vision.multibox_transform_loc",
    lambda c, p, a: vision.multibox_transform_loc(c, p, a, True, 0.2, (0.1, 0.1, 0.2, 0.2), False),
    (f32(2, 3, 2), f32(2, 8), _anchor),
    _decoded,
    1e-4,
)


def _pooled(x: np.ndarray, rois: np.ndarray) -> np.ndarray:
    made = np.zeros((len(rois), x.shape[1], 2, 2), "float32")
    for k, (n, left, top, right, bottom) in enumerate(rois.astype(int)):
        part = x[n, :, top : bottom + 1, left : right + 1]
        h, w = part.shape[1] // 2, part.shape[2] // 2
        for i in range(2):
            for j in range(2):
                made[k, :, i, j] = part[:, i * h : i * h + h, j * w : j * w + w].max((1, 2))
    return made


_rois = f32s([[0, 0, 0, 3, 3], [1, 2, 1, 5, 4]])
case(
    "vision.roi_pool",
    lambda x, r: vision.roi_pool(x, r, (2, 2), 1.0),
    (f32(2, 3, 6, 6), _rois),
    _pooled,
)
case(
    "vision.roi_align",
    lambda x, r: vision.roi_align(x, r, (1, 1), 1.0, 1, mode="avg", layout="NCHW"),
    (np.arange(36, dtype="float32").reshape(1, 1, 6, 6), f32s([[0, 1, 1, 3, 5]])),
    lambda x, r: f32s([[[[3 * 6 + 2]]]]),
)
