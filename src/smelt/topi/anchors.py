"""Boxes made from anchors: where they stand, what a network's predictions move them to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from smelt.ir import build
from smelt.ir.expr import INDEX, Expr, ExprLike, cast
from smelt.te.tensor import Tensor, compute, reduce_axis

from .boxes import Box, iou, packed, rows_of, sorted_order, suppressed
from .common import (
    at_least,
    clamped,
    extents,
    float_only,
    named,
    number,
    pick,
    require,
    same_dtype,
    take_forms,
    take_numbers,
    tensor,
)
from .reduce import FIRST_MAX
from .reference import Array, descending, greedy
from .registry import op

FLOAT = "float32"


@op
def multibox_prior(
    *, height: ExprLike, width: ExprLike, sizes: tuple[float, ...] = (1.0,),
    ratios: tuple[float, ...] = (1.0,), steps: tuple[float, ...] = (-1.0, -1.0),
    offsets: tuple[float, ...] = (0.5, 0.5), clip: bool = False,
) -> Tensor:  # fmt: skip
    """Anchors of every pixel: one of each size, then the first size in each further ratio.

    Shapes   result [1, height * width * (sizes + ratios - 1), 4] float32: left, top, right, bottom
    Units    all in parts of the image; sizes of height, ratios of width to height
    steps    between pixels, down and right; not positive: the image evenly
    offsets  of the centre in its pixel, down and right, in steps
    clip     cut anchors to the image
    """
    take_numbers("rows and columns", 2, steps=steps, offsets=offsets)
    for name, values in (("sizes", sizes), ("ratios", ratios)):
        require(len(values) >= 1, f"{name}={values} needs at least one number")
    rows, columns = extents((height, width))
    kinds = len(sizes) + len(ratios) - 1
    high = [s / 2 for s in sizes] + [sizes[0] / math.sqrt(r) / 2 for r in ratios[1:]]
    broad = [s / 2 for s in sizes] + [sizes[0] * math.sqrt(r) / 2 for r in ratios[1:]]
    real = [cast(FLOAT, rows), cast(FLOAT, columns)]

    def centre(i: Expr, d: int) -> Expr:
        place = cast(FLOAT, i) + offsets[d]
        return place * steps[d] if steps[d] > 0 else place / real[d]

    def body(_: Expr, i: Expr, e: Expr) -> Expr:
        pixel, kind = i // kinds, i % kinds
        half = [pick(kind, [number(v, FLOAT) for v in each]) for each in (high, broad)]
        # sizes are parts of the height, so that anchors are square
        half[1] = half[1] * real[0] / real[1]
        y, x = centre(pixel // columns, 0), centre(pixel % columns, 1)
        v = pick(e, [x - half[1], y - half[0], x + half[1], y + half[0]])
        return clamped(v, number(0.0, FLOAT), number(1.0, FLOAT)) if clip else v

    return tensor((1, rows * columns * kinds, 4), body, "multibox_prior")


@multibox_prior.numpy
def _(
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


@op(kind="opaque")
def multibox_transform_loc(
    cls_prob: Tensor, loc_pred: Tensor, anchor: Tensor, *, clip: bool = True,
    threshold: float = 0.01, variances: tuple[float, ...] = (0.1, 0.1, 0.2, 0.2),
    keep_background: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Anchors moved by predictions, with the class and score of each; those of a class first.

    Shapes   cls_prob [b, c, n], class 0 the background; loc_pred [b, n * 4]; anchor [1, n, 4],
             (left, top, right, bottom); results [b, n, 6], (class, score, left, top, right,
             bottom), rows of -1 behind, and how many count [b] int32
    threshold        classes with a lower score are background
    variances        factors of the predictions: right, down, width, height
    keep_background  boxes of background count too, and classes are numbered from it
    """
    operands = {"cls_prob": cls_prob, "loc_pred": loc_pred, "anchor": anchor}
    dtype = same_dtype(**operands)
    float_only(cls_prob, "cls_prob")
    take_forms("[b, c, n]", "[b, n * 4]", "[1, n, 4]", **operands)
    take_numbers("coordinates", 4, variances=variances)
    b, classes, n = cls_prob.shape
    first = 0 if keep_background else 1
    known = build.value_of(classes)
    require(
        known is None or known > first,
        f"{named(cls_prob=cls_prob)} needs more than {first} classes",
    )
    k = reduce_axis((0, classes - first), "k")

    def best(i: Expr, j: Expr) -> Any:
        return FIRST_MAX((k.var + first, cls_prob[i, k.var + first, j]), [k])

    kind, score = compute((b, n), best, "best_class")

    def own(i: Expr, j: Expr) -> Expr:
        """A class with a low score, or none above -1, is background."""
        low = build.any_of(score[i, j] < number(threshold, dtype), score[i, j] <= -1.0)
        return build.select(low, 0, kind[i, j])

    counts = tensor((b, n), lambda i, j: True if keep_background else own(i, j) > 0, "counts")
    places, count = packed(counts)

    def coordinate(i: Expr, j: Expr, d: int, sign: float) -> Expr:
        begin, end = anchor[0, j, d], anchor[0, j, d + 2]
        size = end - begin
        centre = loc_pred[i, j * 4 + d] * variances[d] * size + (begin + end) * 0.5
        half = build.call("exp", loc_pred[i, j * 4 + d + 2] * variances[d + 2]) * size * 0.5
        v = centre + half * sign
        return clamped(v, number(0.0, dtype), number(1.0, dtype)) if clip else v

    def body(i: Expr, m: Expr, e: Expr) -> Expr:
        j = build.maximum(places[i, m], 0)
        name = cast(dtype, own(i, j) - first)
        box = [coordinate(i, j, d, sign) for sign in (-1.0, 1.0) for d in range(2)]
        return build.select(m < count[i], pick(e, [name, score[i, j], *box]), number(-1, dtype))

    many = tensor((b,), lambda i: cast("int32", count[i]), "valid_count")
    return tensor((b, n, 6), body, "multibox_boxes"), many


@multibox_transform_loc.numpy
def _(
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


# -------------------------------------------------------------------------------------- proposal


def _anchor(ratio: float, scale: float, base: int) -> tuple[float, float, float, float]:
    """The anchor of the first pixel: left, top, right, bottom, the last pixels included."""
    width = math.floor(math.sqrt(math.floor(base * base / ratio)) + 0.5)
    size = [width * scale, math.floor(width * ratio + 0.5) * scale]
    centre, reach = (base - 1) / 2, [(s - 1) / 2 for s in size]
    return centre - reach[0], centre - reach[1], centre + reach[0], centre + reach[1]


@op(kind="opaque")
def proposal(
    cls_prob: Tensor, bbox_pred: Tensor, im_info: Tensor, *,
    scales: tuple[float, ...] = (4.0, 8.0, 16.0, 32.0), ratios: tuple[float, ...] = (0.5, 1.0, 2.0),
    feature_stride: int = 16, threshold: float = 0.7, rpn_pre_nms_top_n: int = 6000,
    rpn_post_nms_top_n: int = 300, rpn_min_size: int = 16, iou_loss: bool = False,
) -> Tensor:  # fmt: skip
    """Regions that a region proposal network holds for objects, best first.

    Shapes              cls_prob [b, 2 * a, h, w], background then object of each of the
                        a = ratios * scales anchors; bbox_pred [b, 4 * a, h, w]; im_info [b, 3],
                        (height, width, scale); result [b * rpn_post_nms_top_n, 5], (image, left,
                        top, right, bottom); where fewer are left they repeat
    Units               pixels of the image, the last ones included
    feature_stride      pixels of the image per pixel of the operands
    threshold           shared area over covered area above which a region is left out
    rpn_pre_nms_top_n   regions looked at, not positive: all
    rpn_min_size        smaller regions, in pixels before im_info's scale, come last
    iou_loss            predictions are added to corners instead of scaling the anchors
    """
    operands = {"cls_prob": cls_prob, "bbox_pred": bbox_pred, "im_info": im_info}
    dtype, kinds = same_dtype(**operands), len(scales) * len(ratios)
    float_only(cls_prob, "cls_prob")
    take_forms(f"[b, {2 * kinds}, h, w]", f"[b, {4 * kinds}, h, w]", "[b, 3]", **operands)
    at_least(1, rpn_post_nms_top_n=rpn_post_nms_top_n)
    b, _, h, w = cls_prob.shape
    n = h * w * kinds
    anchors = [_anchor(r, s, feature_stride) for r in ratios for s in scales]
    places = (anchors, feature_stride, iou_loss)
    boxes = _predicted(cls_prob, bbox_pred, im_info, places, rpn_min_size)
    score = tensor((b, n), lambda i, j: boxes[i, j, 4], "score")
    order = sorted_order(score)
    rows = tensor((b, n, 4), lambda i, j, k: boxes[i, order[i, j], k], "sorted_boxes")
    top = n if rpn_pre_nms_top_n <= 0 else build.minimum(n, rpn_pre_nms_top_n)

    def overlaps(own: Box, before: Box) -> Expr:
        a, b = [[box(k) for k in range(4)] for box in (own, before)]
        return iou(a, b, 1.0) > threshold

    _, kept, total = suppressed(
        rows_of(rows), tensor((b,), lambda i: top, "looked_at"), n, overlaps
    )
    most = rpn_post_nms_top_n

    def body(r: Expr, e: Expr) -> Expr:
        i = r // most
        j = kept[i, r % most % build.maximum(total[i], 1)]
        return build.if_then_else(e < 1, cast(dtype, i), rows[i, j, e - 1])

    return tensor((b * most, 5), body, "proposal")


@proposal.numpy
def _(
    cls_prob: Array, bbox_pred: Array, im_info: Array, *, scales: Sequence[float],
    ratios: Sequence[float], feature_stride: int, threshold: float, rpn_pre_nms_top_n: int,
    rpn_post_nms_top_n: int, rpn_min_size: int, iou_loss: bool,
) -> Array:  # fmt: skip
    """Region by region."""
    images, _, h, w = cls_prob.shape
    anchors = [np.reshape(_anchor(r, s, feature_stride), (2, 2)) for r in ratios for s in scales]
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
        kept = greedy(np.array(boxes), descending(np.array(scores))[:top], -1, threshold, 1.0)
        out += [[b, *boxes[kept[m % len(kept)]]] for m in range(rpn_post_nms_top_n)]
    return np.array(out).astype(cls_prob.dtype)


def _predicted(
    cls_prob: Tensor, bbox_pred: Tensor, im_info: Tensor,
    places: tuple[Sequence[tuple[float, ...]], int, bool], min_size: int,
) -> Tensor:  # fmt: skip
    """[b, h * w * anchors, 5]: the regions cut to their image, and their scores."""
    anchors, stride, iou_loss = places
    dtype, kinds = cls_prob.dtype, len(anchors)
    b, _, h, w = cls_prob.shape

    def corners(i: Expr, k: Expr, y: Expr, x: Expr) -> list[Expr]:
        """Left, top, right, bottom."""
        old = [
            pick(k, [number(a[d], dtype) for a in anchors]) + cast(dtype, v * stride)
            for d, v in enumerate((x, y, x, y))
        ]
        delta = [bbox_pred[i, k * 4 + d, y, x] for d in range(4)]
        if iou_loss:
            return [a + e for a, e in zip(old, delta, strict=True)]
        low, high = [], []
        for d in range(2):
            size = old[d + 2] - old[d] + 1.0
            centre = delta[d] * size + old[d] + (size - 1.0) * 0.5
            reach = (build.call("exp", delta[d + 2]) * size - 1.0) * 0.5
            low.append(centre - reach)
            high.append(centre + reach)
        return [*low, *high]

    def body(i: Expr, j: Expr, e: Expr) -> Expr:
        k, x, y = j % kinds, j // kinds % w, j // kinds // w
        last = [im_info[i, 1] - 1.0, im_info[i, 0] - 1.0]
        found, zero = corners(i, k, y, x), number(0.0, dtype)
        held = [clamped(v, zero, last[d % 2]) for d, v in enumerate(found)]
        least = im_info[i, 2] * number(min_size, dtype)
        small = build.any_of(*[held[d + 2] - held[d] + 1.0 < least for d in range(2)])
        reach = build.select(small, least * 0.5, number(0.0, dtype))
        moved = [v - reach if d < 2 else v + reach for d, v in enumerate(held)]
        whole = [cast(INDEX, im_info[i, d] / float(stride)) for d in range(2)]
        inside = build.all_of(y < whole[0], x < whole[1])
        score = build.select(inside, cls_prob[i, kinds + k, y, x], number(-1, dtype))
        return pick(e, [*moved, build.select(small, number(-1, dtype), score)])

    return tensor((b, h * w * kinds, 5), body, "proposal_boxes")
