"""The operators in numpy: boxes chosen by scores and overlap, and boxes made from anchors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from .numpy_ops import Array, numpy_op


def _descending(scores: Array) -> list[int]:
    """Where the elements stand in descending order; equal ones keep theirs."""
    return [int(i) for i in np.argsort(-scores.astype(np.float64), kind="stable")]


def _overlap(a: Array, b: Array, pixel: float = 0.0) -> float:
    """Shared area over covered area of two boxes given by two corners each."""
    corners = [np.asarray(v, np.float64).reshape(2, 2) for v in (a, b)]
    lows, highs = [c.min(0) for c in corners], [c.max(0) + pixel for c in corners]
    shared = np.prod(np.maximum(np.minimum(*highs) - np.maximum(*lows), 0))
    areas = [np.prod(high - low) for low, high in zip(lows, highs, strict=True)]
    covered = areas[0] + areas[1] - shared
    return float(shared / covered) if covered > 0 else 0.0


@numpy_op
def get_valid_counts(
    x: Array, *, score_threshold: float, id_index: int, score_index: int
) -> tuple[Array, ...]:
    """The rows whose score passes."""
    good = x[:, :, score_index] > x.dtype.type(score_threshold)
    if id_index >= 0:
        good &= x[:, :, id_index] >= 0
    rows, places = np.full(x.shape, -1, x.dtype), np.full(x.shape[:2], -1, np.int32)
    for b, own in enumerate(good):
        (found,) = np.nonzero(own)
        rows[b, : len(found)], places[b, : len(found)] = x[b, found], found
    return good.sum(1).astype(np.int32), rows, places


@numpy_op
def non_max_suppression(
    x: Array, valid_count: Array, indices: Array | None = None, *, max_output_size: int,
    iou_threshold: float, force_suppress: bool, top_k: int, coord_start: int, score_index: int,
    id_index: int, return_indices: bool, invalid_to_bottom: bool,
) -> Array | tuple[Array, ...]:  # fmt: skip
    """Image by image, box by box."""
    rows = np.full(x.shape, -1, x.dtype)
    names = np.full(x.shape[:2], -1, "int32" if indices is None else indices.dtype)
    count = np.zeros((x.shape[0], 1), np.int32)
    for b, image in enumerate(x):
        valid = int(np.clip(valid_count[b], 0, x.shape[1]))
        order = list(range(valid))
        if iou_threshold > 0:
            best = _descending(image[:valid, score_index])[: top_k if top_k > 0 else None]
            order = _not_suppressed(
                image, best, max_output_size, iou_threshold, force_suppress,
                (coord_start, score_index, id_index),
            )  # fmt: skip
        places = [(k, i) for k, i in enumerate(order) if i >= 0]
        if invalid_to_bottom:
            kept = [i for _, i in places if id_index < 0 or image[i, id_index] >= 0]
            places = list(enumerate(kept))
        for k, i in places:
            rows[b, k] = image[i]
        own = [i if indices is None else indices[b, i] for i in order if i >= 0]
        own = [i for i in own if i >= 0]
        names[b, : len(own)], count[b] = own, len(own)
    return (names, count) if return_indices else rows


def _not_suppressed(
    image: Array, best: list[int], most: int, threshold: float, force: bool,
    columns: tuple[int, int, int],
) -> list[int]:  # fmt: skip
    """The boxes in their order, -1 in place of those that are left out."""
    coordinates, score, own = columns
    box = slice(coordinates, coordinates + 4)
    out: list[int] = []
    kept: list[int] = []
    for i in best:
        if len(kept) == most:
            out.append(-1)
        elif image[i, score] <= 0:
            out.append(i)
        else:
            rivals = [
                k
                for k in kept
                if own < 0 or (image[k, own] >= 0 and (force or image[k, own] == image[i, own]))
            ]
            lost = any(_overlap(image[k, box], image[i, box]) >= threshold for k in rivals)
            out.append(-1 if lost else i)
            kept += [] if lost else [i]
    return out


def _greedy(boxes: Array, order: Iterable[int], most: int, threshold: float) -> list[int]:
    """The boxes that no better one overlaps by more than the threshold."""
    kept: list[int] = []
    for i in order:
        if len(kept) != most and all(_overlap(boxes[k], boxes[i]) <= threshold for k in kept):
            kept.append(i)
    return kept


@numpy_op
def all_class_non_max_suppression(
    boxes: Array, scores: Array, *, max_output_boxes_per_class: int, iou_threshold: float,
    score_threshold: float | None, center_point_box: bool, output_format: str,
) -> tuple[Array, ...]:  # fmt: skip
    """Image by image, class by class."""
    if center_point_box:
        half = boxes[..., 2:] / 2
        boxes = np.concatenate([boxes[..., :2] - half, boxes[..., :2] + half], -1)
    images, classes, n = scores.shape
    found: list[tuple[int, int, int]] = []
    for b, c in np.ndindex(images, classes):
        own = scores[b, c]
        order = [
            i
            for i in _descending(own)
            if score_threshold is None or own[i] > own.dtype.type(score_threshold)
        ]
        kept = _greedy(boxes[b], order, max_output_boxes_per_class, iou_threshold)
        found += [(b, c, i) for i in kept]
    if output_format == "onnx":
        out = np.full((images * classes * n, 3), -1, np.int64)
        out[: len(found)] = np.array(found, np.int64).reshape(-1, 3)
        return out, np.array([len(found)], np.int64)
    places = np.zeros((images, classes * n, 2), np.int64)
    values, count = np.zeros((images, classes * n), scores.dtype), np.zeros(images, np.int64)
    for b, c, i in found:
        places[b, count[b]], values[b, count[b]] = (c, i), scores[b, c, i]
        count[b] += 1
    return places, values, count


@numpy_op
def regular_non_max_suppression(
    boxes: Array, scores: Array, *, max_detections_per_class: int, max_detections: int,
    num_classes: int, iou_threshold: float, score_threshold: float,
) -> tuple[Array, ...]:  # fmt: skip
    """Image by image, class by class, then the best of all."""
    images = scores.shape[0]
    first = scores.shape[2] - num_classes
    out = np.zeros((images, max_detections, 4), boxes.dtype)
    classes = np.zeros((images, max_detections), np.float32)
    values = np.zeros((images, max_detections), scores.dtype)
    count = np.zeros(images, np.int32)
    for b in range(images):
        found: list[tuple[int, int]] = []
        # a box turned inside out has no area: nothing overlaps it
        solid = np.prod(boxes[b, :, 2:] - boxes[b, :, :2], -1) > 0
        flat = np.where(solid[:, None], boxes[b], np.nan)
        for c in range(num_classes):
            own = scores[b, :, first + c]
            order = [i for i in _descending(own) if own[i] >= own.dtype.type(score_threshold)]
            found += [(i, c) for i in _greedy(flat, order, max_detections_per_class, iou_threshold)]
        all_scores = np.array([scores[b, i, first + c] for i, c in found], scores.dtype)
        for k, place in enumerate(_descending(all_scores)[:max_detections]):
            i, c = found[place]
            out[b, k], classes[b, k], values[b, k] = boxes[b, i], c, scores[b, i, first + c]
            count[b] += 1
    return out, classes, values, count


# --------------------------------------------------------------------------------------- anchors


@numpy_op
def multibox_prior(
    *, height: int, width: int, sizes: Sequence[float], ratios: Sequence[float],
    steps: Sequence[float], offsets: Sequence[float], clip: bool,
) -> Array:  # fmt: skip
    """Pixel by pixel."""
    kinds = [(s, 1.0) for s in sizes] + [(sizes[0], r) for r in ratios[1:]]
    out = []
    for i, j in np.ndindex(height, width):
        y = (i + offsets[0]) * (steps[0] if steps[0] > 0 else 1 / height)
        x = (j + offsets[1]) * (steps[1] if steps[1] > 0 else 1 / width)
        for size, ratio in kinds:
            h, w = size / math.sqrt(ratio) / 2, size * height / width * math.sqrt(ratio) / 2
            out.append([x - w, y - h, x + w, y + h])
    boxes = np.array([out])
    return (np.clip(boxes, 0, 1) if clip else boxes).astype(np.float32)


@numpy_op
def multibox_transform_loc(
    cls_prob: Array, loc_pred: Array, anchor: Array, *, clip: bool, threshold: float,
    variances: Sequence[float], keep_background: bool,
) -> tuple[Array, ...]:  # fmt: skip
    """Anchor by anchor."""
    images, _, n = cls_prob.shape
    first = 0 if keep_background else 1
    out = np.full((images, n, 6), -1, np.float64)
    count = np.zeros(images, np.int32)
    moves = loc_pred.astype(np.float64).reshape(images, n, 4) * np.array(variances)
    for b, j in np.ndindex(images, n):
        own = cls_prob[b, first:, j]
        kind = int(own.argmax()) + first
        score = own.max()
        if score < own.dtype.type(threshold) or score <= -1:
            kind = 0
        if kind == 0 and not keep_background:
            continue
        low, high = anchor[0, j].astype(np.float64).reshape(2, 2)
        centre = (low + high) / 2 + moves[b, j, :2] * (high - low)
        half = np.exp(moves[b, j, 2:]) * (high - low) / 2
        box = np.concatenate([centre - half, centre + half])
        out[b, count[b]] = [kind - first, score, *(np.clip(box, 0, 1) if clip else box)]
        count[b] += 1
    return out.astype(cls_prob.dtype), count


def _base_anchor(ratio: float, scale: float, stride: int) -> Array:
    """The corners of the anchor of the first pixel."""
    width = math.floor(math.sqrt(math.floor(stride**2 / ratio)) + 0.5)
    size = np.array([width * scale, math.floor(width * ratio + 0.5) * scale])
    return np.stack([(stride - size) / 2, (stride + size) / 2 - 1])


@numpy_op
def proposal(
    cls_prob: Array, bbox_pred: Array, im_info: Array, *, scales: Sequence[float],
    ratios: Sequence[float], feature_stride: int, threshold: float, rpn_pre_nms_top_n: int,
    rpn_post_nms_top_n: int, rpn_min_size: int, iou_loss: bool,
) -> Array:  # fmt: skip
    """Region by region."""
    images, _, h, w = cls_prob.shape
    anchors = [_base_anchor(r, s, feature_stride) for r in ratios for s in scales]
    out = []
    for b in range(images):
        info = im_info[b].astype(np.float64)
        least, last = info[2] * rpn_min_size, info[1::-1] - 1
        boxes, scores = [], []
        for y, x, k in np.ndindex(h, w, len(anchors)):
            low, high = anchors[k] + np.array([x, y]) * feature_stride
            d = bbox_pred[b, 4 * k : 4 * k + 4, y, x].astype(np.float64).reshape(2, 2)
            if iou_loss:
                low, high = low + d[0], high + d[1]
            else:
                size = high - low + 1
                centre, reach = (low + high) / 2 + d[0] * size, (np.exp(d[1]) * size - 1) / 2
                low, high = centre - reach, centre + reach
            low, high = np.clip(low, 0, last), np.clip(high, 0, last)
            small = bool(((high - low + 1) < least).any())
            inside = y < int(info[0] / feature_stride) and x < int(info[1] / feature_stride)
            grown = least / 2 if small else 0.0
            boxes.append(np.concatenate([low - grown, high + grown]))
            scores.append(cls_prob[b, len(anchors) + k, y, x] if inside and not small else -1)
        top = rpn_pre_nms_top_n if rpn_pre_nms_top_n > 0 else None
        kept: list[int] = []
        for i in _descending(np.array(scores))[:top]:
            if all(_overlap(boxes[k], boxes[i], 1.0) <= threshold for k in kept):
                kept.append(i)
        out += [[b, *boxes[kept[m % len(kept)]]] for m in range(rpn_post_nms_top_n)]
    return np.array(out).astype(cls_prob.dtype)
