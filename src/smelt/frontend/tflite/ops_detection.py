"""The converter of what detection models end with: boxes decoded, the best of them kept."""

from __future__ import annotations

import numpy as np

from smelt.frontend.common import Value, moves
from smelt.frontend.common.moves import as_type

from .node import Node
from .registry import custom_op


@custom_op("TFLite_Detection_PostProcess")
def detection_postprocess(
    g: Node, encodings: Value, scores: Value, anchors: Value, *, max_detections: int,
    max_classes_per_detection: int, num_classes: int, y_scale: float, x_scale: float,
    h_scale: float, w_scale: float, nms_score_threshold: float, nms_iou_threshold: float,
    detections_per_class: int = 100, use_regular_nms: bool = False,
) -> tuple[Value, ...]:  # fmt: skip
    """The best boxes of an image: corners [1, m, 4], classes [1, m], scores [1, m], all 0 behind
    the last one, and how many boxes they are of [1]; m is
    max_detections * max_classes_per_detection.

    Shapes  encodings [1, n, 4 or more], y, x, height and width relative to the anchors [n, 4];
            scores [1, n, num_classes] or, behind those of the background, one more
    """
    counts = {"max_detections": max_detections, "num_classes": num_classes,
              "max_classes_per_detection": max_classes_per_detection,
              "detections_per_class": detections_per_class}  # fmt: skip
    scales = {"y_scale": y_scale, "x_scale": x_scale, "h_scale": h_scale, "w_scale": w_scale}
    for name, value in (*counts.items(), *scales.items()):
        if value <= 0:
            g.malformed(f"{name}={value}; legal: numbers above 0")
    _check_shapes(g, encodings, scores, anchors, num_classes)
    encodings, scores, anchors = (
        _floats(g, k, v) for k, v in enumerate((encodings, scores, anchors))
    )
    boxes = _corners(g, encodings, anchors, *scales.values())
    scores = moves.along(g, scores, 2, scores.shape[2] - num_classes, scores.shape[2])
    if use_regular_nms:
        found = g.calls(
            "regular_non_max_suppression", boxes, scores, num_classes=num_classes,
            max_detections_per_class=detections_per_class, max_detections=max_detections,
            iou_threshold=nms_iou_threshold, score_threshold=nms_score_threshold,
        )  # fmt: skip
    else:
        limits = max_detections, nms_iou_threshold, nms_score_threshold
        found = _best_of_all(g, boxes, scores, max_classes_per_detection, *limits)
    rows = max_detections * max_classes_per_detection
    *results, count = found
    return *[_lengthened(g, v, 1, rows) for v in results], as_type(g, count, "float32")


def _check_shapes(g: Node, encodings: Value, scores: Value, anchors: Value, classes: int) -> None:
    n = anchors.shape[0] if anchors.rank else None
    shapes = [v.shape for v in (encodings, scores, anchors)]
    fits = [len(s) for s in shapes] == [3, 3, 2] and shapes[0][:2] == shapes[1][:2] == (1, n)
    if not fits or shapes[0][2] < 4 or shapes[2][1] != 4 or shapes[1][2] - classes not in (0, 1):
        g.malformed(f"operands of the shapes {', '.join(map(str, shapes))} for {classes} classes; "
                    "legal: (1, n, 4 or more), (1, n, classes or one more), (n, 4)")  # fmt: skip


def _floats(g: Node, k: int, x: Value) -> Value:
    """The numbers that an operand stands for."""
    if x.dtype == "float32":
        return x
    t = g.tensor(k)
    if x.dtype not in ("int8", "uint8") or not t.quantized:
        g.unsupported(f"the operand {t.name!r} of {x.dtype}", "float32; quantized int8, uint8")
    return g.call("dequantize", x, g.known(g.scale(t)), g.known(g.zero(t), x.dtype))


def _corners(
    g: Node, encodings: Value, anchors: Value, y: float, x: float, height: float, width: float
) -> Value:
    """Boxes [1, n, 4], top, left, bottom, right, of encodings by these scales."""
    middle, size = (moves.along(g, anchors, 1, k, k + 2) for k in (0, 2))

    def scaled(begin: int, *by: float) -> Value:
        part = moves.along(g, encodings, 2, begin, begin + 2)
        return g.call("divide", part, g.known(by, "float32"))

    centre = g.call("add", g.call("multiply", scaled(0, y, x), size), middle)
    half = g.call("multiply", g.call("exp", scaled(2, height, width)), 0.5)
    half = g.call("multiply", half, size)
    return moves.concat(g, [g.call(op, centre, half) for op in ("subtract", "add")], 2)


def _best_of_all(
    g: Node, boxes: Value, scores: Value, classes: int, most: int, overlap: float, least: float
) -> tuple[Value, ...]:
    """Boxes that no better one overlaps, whatever its class: each with its best classes.

    classes  results of a box; 0 where it has not so many
    least    boxes whose best score is lower are left out
    """
    of_box = min(classes, int(scores.shape[2]))
    if of_box == 1:
        values = g.call("max", scores, axes=(2,), keepdims=True)
        kinds = g.call("argmax", scores, axis=2, keepdims=True, select_last_index=False)
    else:
        values, kinds = g.calls("topk", scores, k=of_box, axis=2, largest=True, sorted=True)
    best = moves.transpose(g, moves.along(g, values, 2, 0, 1), (0, 2, 1))
    # the operator leaves out what is not above its threshold
    below = float(np.nextafter(np.float32(least), np.float32(-np.inf)))
    places, _, count = g.calls(
        "all_class_non_max_suppression", boxes, best, max_output_boxes_per_class=most,
        iou_threshold=overlap, score_threshold=below, output_format="tensorflow",
    )  # fmt: skip
    rows = min(most, int(boxes.shape[1]))
    places = moves.along(g, moves.along(g, places, 1, 0, rows), 2, 1, 2)
    number = g.known(np.arange(rows)[None, :, None], count.dtype)
    there = g.call("less", number, moves.reshape(g, count, (1, 1, 1)))

    def listed(x: Value) -> Value:
        """What belongs to the boxes [1, n, w], of those that are kept."""
        own = g.call("gather_nd", x, places, batch_dims=1)
        return g.call("where", there, own, g.known(0, own.dtype))

    corners = moves.expand_dims(g, listed(boxes), (2,))
    found = [moves.broadcast_to(g, corners, (1, rows, of_box, 4))]
    found += [listed(as_type(g, kinds, "float32")), listed(values)]
    lists = [_lengthened(g, v, 2, classes) for v in found]
    return *[moves.reshape(g, v, (1, rows * classes, *v.shape[3:])) for v in lists], count


def _lengthened(g: Node, x: Value, axis: int, extent: int) -> Value:
    """Zeros behind the end of a dimension."""
    behind = extent - int(x.shape[axis])
    return moves.pad(g, x, moves.both_ends((0, behind), (axis,), (0,) * (2 * x.rank)))
