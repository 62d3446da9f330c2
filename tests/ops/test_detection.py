"""Detection: boxes chosen by scores, classes and overlap."""

from typing import Any

import numpy as np
import pytest

from .cases import Array, Case, data, label
from .test_oracle import onnx_run


def boxes(*shape: int, seed: int = 0) -> Array:
    """Boxes of which many overlap; corners in any order."""
    random = np.random.default_rng(seed)
    first = random.uniform(0, 6, (*shape, 2))
    second = first + random.uniform(-3, 3, (*shape, 2))
    return np.concatenate([first, second], -1).astype(np.float32)


def rows(b: int, n: int, classes: int = 2, seed: int = 1) -> Array:
    """[b, n, 6]: class (some -1), score (some 0 or equal), box."""
    random = np.random.default_rng(seed)
    kind = random.integers(-1, classes, (b, n, 1))
    score = random.integers(-1, 9, (b, n, 1)) / 8
    return np.concatenate([kind, score, boxes(b, n, seed=seed)], -1).astype(np.float32)


X = rows(2, 17)
COUNT = np.array([17, 9], np.int32)
PLACES = np.stack([np.arange(17)[::-1], np.arange(17) - 2]).astype(np.int32)


def test_valid_counts() -> None:
    several: list[dict[str, Any]] = [
        {}, {"score_threshold": 0.3}, {"id_index": -1, "score_threshold": -2.0}
    ]  # fmt: skip
    for attrs in several:
        Case("get_valid_counts", X, **attrs).check()
        Case("get_valid_counts", X, symbolic={0: {0: "n", 1: "m"}}, **attrs).check()
    Case("get_valid_counts", X, score_threshold=0.3).check_native()
    Case("get_valid_counts", X.astype("float16"), score_threshold=0.3).check()
    count, kept, places = Case("get_valid_counts", X, score_threshold=0.3).numpy()
    assert 0 < count[0] < 17
    np.testing.assert_array_equal(kept[0, : count[0]], X[0, places[0, : count[0]]])
    assert (kept[0, count[0] :] == -1).all()


SUPPRESSIONS: list[dict[str, Any]] = [
    {}, {"iou_threshold": 0.2}, {"iou_threshold": 0.0}, {"force_suppress": True},
    {"top_k": 6}, {"max_output_size": 3, "iou_threshold": 0.3}, {"max_output_size": 0},
    {"id_index": -1, "iou_threshold": 0.1}, {"top_k": 9, "force_suppress": True},
]  # fmt: skip


@pytest.mark.parametrize("attrs", SUPPRESSIONS, ids=label)
def test_non_max_suppression(attrs: dict[str, Any]) -> None:
    for bottom in (False, True):
        Case("non_max_suppression", X, COUNT, invalid_to_bottom=bottom, **attrs).check()
    Case("non_max_suppression", X, COUNT, PLACES, return_indices=True, **attrs).check()
    Case("non_max_suppression", X, COUNT, None, return_indices=True, **attrs).check()
    symbolic = {0: {0: "n", 1: "m"}, 1: {0: "n"}}
    Case("non_max_suppression", X, COUNT, symbolic=symbolic, **attrs).check()


def test_non_max_suppression_of_other_columns() -> None:
    moved = X[:, :, [2, 3, 4, 5, 1]].copy()
    attrs: dict[str, Any] = {"coord_start": 0, "score_index": 4, "id_index": -1}
    Case("non_max_suppression", moved, COUNT, iou_threshold=0.2, **attrs).check()
    Case("non_max_suppression", X.astype("float16"), COUNT, iou_threshold=0.2).check()
    Case("non_max_suppression", X, COUNT.astype("int64"), iou_threshold=0.2).check()


def test_non_max_suppression_of_known_boxes() -> None:
    x = np.array(
        [[[0, 0.8, 1, 20, 25, 45], [1, 0.7, 30, 60, 50, 80], [0, 0.4, 4, 21, 19, 40],
          [2, 0.9, 35, 61, 52, 79], [1, 0.5, 100, 60, 70, 110]]], np.float32,
    )  # fmt: skip
    order = np.arange(5, dtype=np.int32)[None]
    count = np.array([5], np.int32)
    attrs: dict[str, Any] = {"iou_threshold": 0.7, "force_suppress": True, "top_k": 2}
    kept = Case("non_max_suppression", x, count, order, **attrs).numpy()[0][0]
    np.testing.assert_array_equal(kept[:2], x[0, [3, 0]])
    assert (kept[2:] == -1).all()
    attrs = {"iou_threshold": 0.45, "return_indices": True}
    names, many = Case("non_max_suppression", x, count, order, **attrs).numpy()
    assert names.tolist() == [[3, 0, 1, 4, -1]]
    assert many.tolist() == [[4]]
    attrs["force_suppress"] = True
    assert Case("non_max_suppression", x, count, order, **attrs).numpy()[1].tolist() == [[3]]


@pytest.mark.parametrize("level", [0, 3])
def test_non_max_suppression_compiles(level: int) -> None:
    attrs: dict[str, Any] = {"iou_threshold": 0.3}
    Case("non_max_suppression", X, COUNT, invalid_to_bottom=True, **attrs).check_native(level=level)
    case = Case("non_max_suppression", X, COUNT, PLACES, return_indices=True, top_k=11, **attrs)
    case.check_native(level=level)


def test_unknown_numbers_of_boxes_compile() -> None:
    symbolic = {0: {0: "n", 1: "m"}, 1: {0: "n"}}
    for attrs in ({"invalid_to_bottom": True}, {"return_indices": True}):
        more: dict[str, Any] = {"iou_threshold": 0.3, **attrs}
        Case("non_max_suppression", X, COUNT, symbolic=symbolic, **more).check_native()
    Case("get_valid_counts", X, symbolic={0: {0: "n", 1: "m"}}).check_native()


@pytest.mark.parametrize("n", [1, 2, 3, 64, 65, 300])
def test_boxes_are_sorted(n: int) -> None:
    """Scores with many equals: their order stays."""
    random = np.random.default_rng(n)
    x = np.zeros((1, n, 6), np.float32)
    x[0, :, 1] = random.integers(1, max(n // 3, 2), n)
    x[0, :, 2:] = np.arange(n)[:, None] * 10 + np.arange(4) * 1.0
    count = np.array([n], np.int32)
    case = Case("non_max_suppression", x, count, None, return_indices=True)
    names, many = case.native()
    assert many[0, 0] == n
    np.testing.assert_array_equal(names[0], np.argsort(-x[0, :, 1], kind="stable"))


BOXES, SCORES = boxes(2, 13, seed=5), data((2, 3, 13), low=0, high=1)
ALL_CLASSES: list[dict[str, Any]] = [
    {}, {"iou_threshold": 0.4}, {"iou_threshold": 0.5, "score_threshold": 0.4},
    {"iou_threshold": 0.5, "max_output_boxes_per_class": 2},
    {"iou_threshold": 0.5, "score_threshold": 2.0}, {"max_output_boxes_per_class": 0},
    {"iou_threshold": 0.3, "center_point_box": True},
]  # fmt: skip


@pytest.mark.parametrize("attrs", ALL_CLASSES, ids=label)
def test_all_classes(attrs: dict[str, Any]) -> None:
    given = (np.abs(BOXES) if attrs.get("center_point_box") else BOXES), SCORES
    for form in ("onnx", "tensorflow"):
        Case("all_class_non_max_suppression", *given, output_format=form, **attrs).check()
    indices, count = Case("all_class_non_max_suppression", *given, **attrs).numpy()
    most = attrs.get("max_output_boxes_per_class", -1)
    inputs: list[Array | None] = [
        *given,
        np.array([given[1].shape[2] if most < 0 else most], np.int64),
        np.array([attrs.get("iou_threshold", 0.0)], np.float32),
    ]
    if "score_threshold" in attrs:
        inputs.append(np.array([attrs["score_threshold"]], np.float32))
    center = int(attrs.get("center_point_box", False))
    (want,) = onnx_run("NonMaxSuppression", inputs, center_point_box=center)
    np.testing.assert_array_equal(indices[: count[0]], want)
    assert (indices[count[0] :] == -1).all()


def test_all_classes_of_unknown_sizes_and_native() -> None:
    for form in ("onnx", "tensorflow"):
        attrs: dict[str, Any] = {"iou_threshold": 0.4, "output_format": form}
        symbolic = {0: {0: "n", 1: "m"}, 1: {0: "n", 2: "m"}}
        case = Case("all_class_non_max_suppression", BOXES, SCORES, symbolic=symbolic, **attrs)
        case.check()
        Case("all_class_non_max_suppression", BOXES, SCORES, **attrs).check_native()
    half = [t.astype("float16") for t in (BOXES, SCORES)]
    Case("all_class_non_max_suppression", *half, iou_threshold=0.4).check()


def test_scores_that_are_no_numbers_come_last() -> None:
    scores = SCORES.copy()
    scores[:, :, ::3] = np.nan
    attrs: dict[str, Any] = {"iou_threshold": 0.4, "score_threshold": 0.2}
    case = Case("all_class_non_max_suppression", BOXES, scores, **attrs)
    case.check()
    case.check_native()


REGULAR: list[dict[str, Any]] = [
    {"max_detections_per_class": 4, "max_detections": 6, "num_classes": 3},
    {"max_detections_per_class": 1, "max_detections": 9, "num_classes": 2},
    {"max_detections_per_class": 99, "max_detections": 50, "num_classes": 2},
]


@pytest.mark.parametrize("attrs", REGULAR, ids=label)
def test_regular_suppression(attrs: dict[str, Any]) -> None:
    scores = np.ascontiguousarray(SCORES.transpose(0, 2, 1))
    ordered = np.concatenate(
        [np.minimum(BOXES[..., :2], BOXES[..., 2:]), np.maximum(BOXES[..., :2], BOXES[..., 2:])], -1
    )
    more = {"iou_threshold": 0.3, "score_threshold": 0.2, **attrs}
    for given in (ordered, BOXES):
        Case("regular_non_max_suppression", given, scores, **more).check()
    Case("regular_non_max_suppression", ordered, scores, **more).check_native()
    symbolic = {0: {0: "n", 1: "m"}, 1: {0: "n", 1: "m"}}
    Case("regular_non_max_suppression", ordered, scores, symbolic=symbolic, **more).check()
    found, classes, values, count = Case(
        "regular_non_max_suppression", ordered, scores, **more
    ).numpy()
    for b in range(2):
        k = int(count[b])
        assert 0 < k <= attrs["max_detections"]
        assert (np.diff(values[b, :k]) <= 0).all()
        assert not values[b, k:].any()
        assert not found[b, k:].any()
        assert set(classes[b, :k]) <= set(range(attrs["num_classes"]))


@pytest.mark.parametrize("seed", range(5))
def test_suppression_of_other_boxes(seed: int) -> None:
    x = rows(2, 14, classes=3, seed=10 + seed)
    count = np.array([14, seed], np.int32)
    attrs: dict[str, Any] = {"iou_threshold": 0.1 + 0.2 * seed, "force_suppress": seed % 2 == 0}
    Case("non_max_suppression", x, count, return_indices=True, **attrs).check()
    Case("non_max_suppression", x, count, max_output_size=seed + 1, **attrs).check()
