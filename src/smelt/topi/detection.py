"""Detection: boxes with scores chosen by threshold and by overlap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from smelt.ir.build import all_of, equal, if_then_else, maximum, minimum, select, value_of
from smelt.ir.expr import INDEX, Expr, ExprLike, cast, const
from smelt.te.tensor import Tensor, min_value, reduce_axis
from smelt.te.tensor import sum as te_sum
from smelt.tir.nodes import Stmt

from .boxes import Box, Corners, Rows, corners, iou, packed, rows_of, sorted_order, suppressed
from .common import (
    at_least,
    float_only,
    named,
    number,
    one_of,
    pick,
    require,
    stored,
    take_forms,
    tensor,
    wide,
)
from .program import add_to, filled_with, loop, program, seq, store
from .reference import Array, box_overlap, descending, greedy
from .registry import op

ZERO, ONE = const(0, INDEX), const(1, INDEX)


def _rows_of_boxes(x: Tensor, **columns: int) -> None:
    """x is [b, n, e], and the columns (-1: none) exist."""
    float_only(x)
    take_forms("[b, n, e]", x=x)
    e = value_of(x.shape[2])
    require(e is not None, f"{named(x=x)}: the last extent has to be a known number")
    assert e is not None
    for name, column in columns.items():
        least = -1 if name == "id_index" else 0
        most = e - 4 if name == "coord_start" else e - 1
        require(least <= column <= most, f"{name}={column}; legal: {least} to {most}")


def _moved(x: Tensor, places: Tensor, name: str) -> Tensor:
    """The rows of x [b, n, ...] at the places [b, n], -1 where a place is -1."""

    def body(b: Expr, j: Expr, *k: Expr) -> Expr:
        at = places[b, j]
        return if_then_else(at >= 0, x[(b, maximum(at, 0), *k)], number(-1, x.dtype))

    return tensor(x.shape, body, name)


@op(kind="opaque")
def get_valid_counts(
    x: Tensor, *, score_threshold: float = 0.0, id_index: int = 0, score_index: int = 1
) -> tuple[Tensor, Tensor, Tensor]:
    """How many boxes have a score above the threshold (and no negative class), those boxes first,
    and where they stood.

    Shapes    x [b, n, e]; results [b] int32, [b, n, e] and [b, n] int32, both with -1 behind
    id_index  the column of the class, -1: there is none
    """
    _rows_of_boxes(x, id_index=id_index, score_index=score_index)

    def valid(b: Expr, j: Expr) -> Expr:
        good = x[b, j, score_index] > number(score_threshold, x.dtype)
        return good if id_index < 0 else all_of(good, x[b, j, id_index] >= 0.0)

    places, count = packed(tensor(x.shape[:2], valid, "valid"))
    indices = stored(places, "int32", "valid_indices")
    return stored(count, "int32", "valid_count"), _moved(x, places, "valid_boxes"), indices


@get_valid_counts.numpy
def _(x: Array, *, score_threshold: float, id_index: int, score_index: int) -> tuple[Array, ...]:
    """The rows whose score passes."""
    good = x[:, :, score_index] > x.dtype.type(score_threshold)
    if id_index >= 0:
        good &= x[:, :, id_index] >= 0
    rows, places = np.full(x.shape, -1, x.dtype), np.full(x.shape[:2], -1, np.int32)
    for b, own in enumerate(good):
        (found,) = np.nonzero(own)
        rows[b, : len(found)], places[b, : len(found)] = x[b, found], found
    return good.sum(1).astype(np.int32), rows, places


# ------------------------------------------------------------------------------------ suppression


def _counted(t: Tensor, most: Expr) -> Tensor:
    """Numbers of boxes as indices, kept inside what there is."""
    return tensor(t.shape, lambda r: maximum(minimum(cast(INDEX, t[r]), most), 0), "count")


@op(kind="opaque")
def non_max_suppression(
    x: Tensor, valid_count: Tensor, indices: Tensor | None = None, *, max_output_size: int = -1,
    iou_threshold: float = 0.5, force_suppress: bool = False, top_k: int = -1,
    coord_start: int = 2, score_index: int = 1, id_index: int = 0, return_indices: bool = False,
    invalid_to_bottom: bool = False,
) -> Any:  # fmt: skip
    """Boxes in the order of their scores without those that overlap a better one of their class.

    Shapes            x [b, n, e], the first valid_count [b] of each image; indices [b, n], what
                      `return_indices` gives for each box, None: its place; result [b, n, e], rows
                      of -1 for what is left out. Or (return_indices) the kept boxes' indices
                      [b, n], then -1, and how many they are [b, 1] int32
    max_output_size   boxes to keep of an image, -1: all
    iou_threshold     shared area over covered area from which on a box is left out; 0 or less:
                      nothing is, and boxes stay in their order
    force_suppress    boxes of all classes leave each other out
    top_k             boxes of an image that are looked at, -1: all
    coord_start       the first of four columns: two corners
    id_index          the column of the class, -1: there is none
    invalid_to_bottom rows of -1, and of negative class, stand behind the others
    """
    _rows_of_boxes(x, coord_start=coord_start, score_index=score_index, id_index=id_index)
    take_forms("[b, n, e]", "[b]", "[b, n]", x=x, valid_count=valid_count, indices=indices)
    valid = _counted(valid_count, x.shape[1])
    sort = (top_k, max_output_size, iou_threshold, force_suppress)
    columns = (coord_start, score_index, id_index)
    if iou_threshold > 0:
        order, kept = _best(x, valid, sort, columns)
    else:
        order = tensor(x.shape[:2], lambda b, j: j, "order")
        kept = tensor(x.shape[:2], lambda b, j: j < valid[b], "kept")
    if return_indices:
        return _kept_indices(order, kept, indices)

    def place(b: Expr, j: Expr) -> Expr:
        return select(kept[b, j], order[b, j], -1)

    boxes = _moved(x, tensor(x.shape[:2], place, "kept_places"), "nms")
    if not invalid_to_bottom:
        return boxes

    def counts(b: Expr, j: Expr) -> Expr:
        return kept[b, j] if id_index < 0 else all_of(kept[b, j], boxes[b, j, id_index] >= 0.0)

    places, _ = packed(tensor(x.shape[:2], counts, "nms_valid"))
    return _moved(boxes, places, "nms_moved")


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
            kind = image[:, own]
            alike = [k for k in kept if own < 0 or force or kind[k] == kind[i]]
            rivals = [k for k in alike if own < 0 or kind[k] >= 0]
            lost = any(box_overlap(image[k, box], image[i, box]) >= threshold for k in rivals)
            out.append(-1 if lost else i)
            kept += [] if lost else [i]
    return out


@non_max_suppression.numpy
def _(
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
            best = descending(image[:valid, score_index])[: top_k if top_k > 0 else None]
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


def _best(
    x: Tensor, valid: Tensor, sort: tuple[int, int, float, bool], columns: tuple[int, int, int]
) -> tuple[Tensor, Tensor]:
    """The boxes of each image in the order of their scores, and which of them are kept."""
    top_k, most, threshold, force = sort
    coordinates, score_column, id_column = columns
    score = tensor(x.shape[:2], lambda b, j: x[b, j, score_column], "score")
    order = sorted_order(score, valid)
    rows = tensor(x.shape, lambda b, j, k: x[b, order[b, j], k], "sorted_boxes")
    count = valid if top_k <= 0 else tensor(valid.shape, lambda b: minimum(valid[b], top_k), "top")

    def box(own: Box) -> Corners:
        return corners(lambda k: cast(wide(x.dtype), own(coordinates + k)))

    def overlaps(own: Box, before: Box) -> Expr:
        near = iou(box(own), box(before)) >= threshold
        if id_column < 0:
            return near
        rival = before(id_column) >= 0.0
        if not force:
            rival = all_of(rival, equal(own(id_column), before(id_column)))
        return if_then_else(rival, near, False)

    limit = x.shape[1] if most < 0 else most
    kept, _, _ = suppressed(
        rows_of(rows), count, limit, overlaps, lambda own: own(score_column) > 0.0
    )
    return order, kept


def _kept_indices(order: Tensor, kept: Tensor, indices: Tensor | None) -> tuple[Tensor, Tensor]:
    """What stands for the kept boxes, and how many they are."""
    dtype = "int32" if indices is None else indices.dtype

    def name(b: Expr, j: Expr) -> Expr:
        found = order[b, j] if indices is None else indices[b, order[b, j]]
        return select(kept[b, j], cast(dtype, found), number(-1, dtype))

    names = tensor(order.shape, name, "nms_names")
    places, count = packed(tensor(order.shape, lambda b, j: names[b, j] >= 0, "nms_valid"))
    one = tensor((order.shape[0], ONE), lambda b, _: cast("int32", count[b]), "nms_count")
    return _moved(names, places, "nms_indices"), one


def _boxes_and_scores(boxes: Tensor, scores: Tensor, form: str) -> None:
    """Boxes [b, n, 4], and their scores in a form."""
    float_only(boxes, "boxes")
    float_only(scores, "scores")
    take_forms("[b, n, 4]", form, boxes=boxes, scores=scores)


@op(kind="opaque")
def all_class_non_max_suppression(
    boxes: Tensor, scores: Tensor, *, max_output_boxes_per_class: int = -1,
    iou_threshold: float = 0.0, score_threshold: float | None = None,
    center_point_box: bool = False, output_format: str = "onnx",
) -> tuple[Tensor, ...]:  # fmt: skip
    """For every class the boxes in the order of their scores, without those that overlap a better
    one by more than iou_threshold.

    Shapes            boxes [b, n, 4]; scores [b, c, n]
                      "onnx": (image, class, box) of the kept boxes [b * c * n, 3] int64, rows of -1
                      behind, and how many they are [1] int64
                      "tensorflow": (class, box) [b, c * n, 2] int64, scores [b, c * n], both 0
                      behind, and how many they are [b] int64
    max_output_boxes_per_class  -1: all
    score_threshold   only boxes with a higher score are looked at; None: all
    center_point_box  boxes are (x, y, width, height) of centres instead of two corners
    Source            ONNX NonMaxSuppression-11, with room for all boxes
    """
    _boxes_and_scores(boxes, scores, "[b, c, n]")
    one_of(("onnx", "tensorflow"), output_format=output_format)
    images, classes, n = scores.shape
    rows = images * classes
    score = tensor((rows, n), lambda r, j: scores[r // classes, r % classes, j], "score")
    low = min_value(scores.dtype) if score_threshold is None else None

    def passes(v: Expr) -> Expr:
        return v >= low if low is not None else v > number(score_threshold or 0.0, scores.dtype)

    def box(own: Box) -> Corners:
        if not center_point_box:
            return corners(own)
        half = [own(2) * 0.5, own(3) * 0.5]
        return [*[own(d) - half[d] for d in range(2)], *[own(d) + half[d] for d in range(2)]]

    most = n if max_output_boxes_per_class < 0 else max_output_boxes_per_class
    kept = _kept_by_class(
        boxes, score, classes, passes, most, lambda a, b: iou(box(a), box(b)) > iou_threshold
    )
    return _collected(scores, *kept, output_format)


@all_class_non_max_suppression.numpy
def _(
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
        order = descending(own)
        if score_threshold is not None:
            order = [i for i in order if own[i] > own.dtype.type(score_threshold)]
        kept = greedy(boxes[b], order, max_output_boxes_per_class, iou_threshold)
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


def _collected(
    scores: Tensor, kept: Tensor, total: Tensor, output_format: str
) -> tuple[Tensor, ...]:
    """The kept boxes of all images and classes in one list ("onnx"), or in one for each image."""
    images, classes, n = scores.shape
    if output_format == "onnx":
        return _listed(kept, total, classes)
    lists, rows = images, classes
    counts = tensor((lists, rows * n), lambda k, q: q % n < total[k * rows + q // n], "counts")
    places, count = packed(counts)

    def listed(k: Expr, i: Expr, value: Callable[[Expr, Expr], Expr], blank: int) -> Expr:
        """The value of box i of a list, given its row and its number; `blank` behind the last."""
        q = maximum(places[k, i], 0)
        r = k * rows + q // n
        e = value(r, kept[r, q % n])
        return if_then_else(i < count[k], e, number(blank, e.dtype))

    def box(k: Expr, i: Expr, e: Expr) -> Expr:
        cells: Sequence[Callable[[Expr, Expr], Expr]] = [lambda r, _: r % classes, lambda _, j: j]
        return pick(e, [listed(k, i, cell, 0) for cell in cells])

    def score(k: Expr, i: Expr) -> Expr:
        return listed(k, i, lambda r, j: scores[k, r % classes, j], 0)

    found = tensor((images, rows * n, 2), box, "selected")
    return found, tensor((images, rows * n), score, "selected_scores"), count


def _listed(kept: Tensor, total: Tensor, classes: Expr) -> tuple[Tensor, ...]:
    """(image, class, box) of all kept boxes, rows of -1 behind, and how many they are."""
    rows, n = kept.shape

    def body(found: Tensor, count: Tensor) -> Stmt:
        def one(r: Expr, m: Expr) -> Stmt:
            cells = (r // classes, r % classes, kept[r, m])
            row = [store(found, (count[0], e), cell) for e, cell in enumerate(cells)]
            return seq(*row, add_to(count, (0,), 1))

        listed = loop(rows, lambda r: loop(total[r], lambda m: one(r, m), "m"), "r")
        return seq(filled_with(found, number(-1, INDEX)), store(count, (0,), 0), listed)

    shapes = [(rows * n, const(3, INDEX)), (ONE,)]
    return program(shapes, [INDEX] * 2, [kept, total], body, "listed")


def _class_scores(scores: Tensor, classes: int) -> Tensor:
    """[b * classes, n]: a row for each of an image's last classes, of scores [b, n, ...]."""
    images, n, columns = scores.shape

    def own(r: Expr, j: Expr) -> Expr:
        return scores[r // classes, j, columns - classes + r % classes]

    return tensor((images * classes, n), own, "score")


def _solid_overlap(threshold: float) -> Callable[[Box, Box], Expr]:
    """Whether a box overlaps one before it by more than this; one turned inside out does not."""

    def overlaps(own: Box, before: Box) -> Expr:
        a, b = [[box(c) for c in range(4)] for box in (own, before)]
        solid = [(c[2] - c[0]) * (c[3] - c[1]) > 0.0 for c in (a, b)]
        return all_of(*solid, iou(a, b) > threshold)

    return overlaps


@op(kind="opaque")
def regular_non_max_suppression(
    boxes: Tensor, scores: Tensor, *, max_detections_per_class: int, max_detections: int,
    num_classes: int, iou_threshold: float, score_threshold: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The best boxes of all classes, after those of each class that overlap a better one by more
    than iou_threshold are left out.

    Shapes   boxes [b, n, 4], (top, left, bottom, right); scores [b, n, classes], the last
             `num_classes` of which count (before them the background); results [b, m, 4] boxes,
             [b, m] classes as float32, [b, m] scores, all 0 behind, and how many they are [b]
             int32; m = max_detections
    score_threshold  boxes with a lower score are not looked at
    """
    _boxes_and_scores(boxes, scores, "[b, n, classes]")
    most = max_detections
    at_least(1, max_detections=most, max_detections_per_class=max_detections_per_class,
             num_classes=num_classes)  # fmt: skip
    columns = value_of(scores.shape[2])
    require(
        columns is None or num_classes <= columns,
        f"num_classes={num_classes}; {named(scores=scores)} have {columns}",
    )
    images, n = boxes.shape[:2]
    score, limit = _class_scores(scores, num_classes), number(score_threshold, scores.dtype)
    place, total = _kept_by_class(
        boxes, score, num_classes, lambda v: v >= limit, max_detections_per_class,
        _solid_overlap(iou_threshold),
    )  # fmt: skip

    room = minimum(n, max_detections_per_class)  # only these of a class can be kept: few to sort

    def candidate(b: Expr, q: Expr) -> Expr:
        r, m = b * num_classes + q // room, q % room
        return select(m < total[r], score[r, place[r, m]], min_value(scores.dtype))

    every = tensor((images, room * num_classes), candidate, "candidates")
    ranked = sorted_order(every)
    c = reduce_axis((0, num_classes), "c")
    count = tensor((images,), lambda b: te_sum(total[b * num_classes + c.var], [c]), "count")
    sizes = (images, const(most, INDEX))

    def chosen(b: Expr, k: Expr, value: Callable[[Expr, Expr], Expr]) -> Expr:
        q = ranked[b, minimum(k, room * num_classes - 1)]
        r = b * num_classes + q // room
        e = value(r, place[r, q % room])
        return select(k < count[b], e, number(0, e.dtype))

    def box(b: Expr, k: Expr, e: Expr) -> Expr:
        return chosen(b, k, lambda _, j: boxes[b, j, e])

    def kind(b: Expr, k: Expr) -> Expr:
        return chosen(b, k, lambda r, _: cast("float32", r % num_classes))

    return (
        tensor((*sizes, const(4, INDEX)), box, "detection_boxes"),
        tensor(sizes, kind, "detection_classes"),
        tensor(sizes, lambda b, k: chosen(b, k, lambda r, j: score[r, j]), "detection_scores"),
        tensor((images,), lambda b: cast("int32", minimum(count[b], most)), "num_detections"),
    )


@regular_non_max_suppression.numpy
def _(
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
            order = [i for i in descending(own) if own[i] >= own.dtype.type(score_threshold)]
            found += [(i, c) for i in greedy(flat, order, max_detections_per_class, iou_threshold)]
        all_scores = np.array([scores[b, i, first + c] for i, c in found], scores.dtype)
        for k, place in enumerate(descending(all_scores)[:max_detections]):
            i, c = found[place]
            out[b, k], classes[b, k], values[b, k] = boxes[b, i], c, scores[b, i, first + c]
            count[b] += 1
    return out, classes, values, count


def _kept_by_class(
    boxes: Tensor, score: Tensor, classes: Expr | int, passes: Callable[[Expr], Expr],
    most: ExprLike, overlaps: Callable[[Box, Box], Expr],
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """For every image's class, whose scores are a row of score [r, n]: the boxes that are kept,
    best first [r, n], and how many they are [r]."""
    rows, n = score.shape
    # only what passes is sorted: few of many, as a rule
    places, count = packed(tensor(score.shape, lambda r, j: passes(score[r, j]), "passes"))
    own = tensor(score.shape, lambda r, j: score[r, maximum(places[r, j], 0)], "passing")
    order = sorted_order(own, count)
    to = wide(boxes.dtype)

    def place(r: Expr, j: Expr) -> Expr:
        return maximum(places[r, order[r, j]], 0)

    def sorted_box(r: Expr, j: Expr, k: Expr) -> Expr:
        return cast(to, boxes[r // classes, place(r, j), k])

    found = Rows((rows, n, const(4, INDEX)), to, [boxes, places, order], sorted_box)
    _, kept, total = suppressed(found, count, most, overlaps)
    return tensor(score.shape, lambda r, m: place(r, kept[r, m]), "kept_places"), total
