"""What detection models end with, beside TFLite's kernel, as far as that defines its results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers

import smelt
from smelt.frontend.tflite import from_tflite, survey
from smelt.ir.errors import ImportFailure, Unsupported
from tests.tflite.build import Array, Oracle, Spec, Step, const, model
from tests.tflite.check import compiled, differences, interpreted

N, CLASSES = 20, 4
NUMBERS = {"int8": [(0.03, -5), (1 / 256, -128), (1 / 128, -128)],
           "uint8": [(0.03, 120), (1 / 256, 0), (1 / 128, 3)]}  # fmt: skip
"""Scales and zero points of encodings, scores and anchors."""

OPTIONS: dict[str, Any] = {
    "max_detections": 6, "max_classes_per_detection": 1, "num_classes": CLASSES,
    "nms_score_threshold": 0.4, "nms_iou_threshold": 0.3, "y_scale": 10.0, "x_scale": 8.0,
    "h_scale": 5.0, "w_scale": 4.0, "use_regular_nms": False,
}  # fmt: skip


def detector(
    background: int = 1, n: int = N, dtype: str = "float32", kind: str = "float32",
    width: int = 4, operands: int = 3, **options: Any,
) -> bytes:  # fmt: skip
    """A model of nothing else. kind: of the first result."""
    r = np.random.default_rng(9)
    given = {k: v for k, v in (OPTIONS | options).items() if v is not None}
    places = np.concatenate([r.uniform(0.2, 0.8, (n, 2)), r.uniform(0.2, 0.5, (n, 2))], -1)
    shapes = [(1, n, width), (1, n, CLASSES + background), (n, 4)]
    if dtype == "float32":
        ins = [Spec(s) for s in shapes[:2]] + [const(places, "float32")]
    else:
        pairs = NUMBERS[dtype]
        ins = [Spec(s, dtype, *p) for s, p in zip(shapes[:2], pairs[:2], strict=True)]
        whole = np.round(places / pairs[2][0] + pairs[2][1])
        ins.append(const(whole, dtype, scale=pairs[2][0], zero=pairs[2][1]))
    m = given.get("max_detections", 0) * given.get("max_classes_per_detection", 0)
    outs = [Spec((1, m, 4), kind), Spec((1, m)), Spec((1, m)), Spec((1,))]
    step = Step("TFLite_Detection_PostProcess", range(operands), [3, 4, 5, 6],
                custom=bytes(flexbuffers.Dumps(given)))  # fmt: skip
    return model([*ins, *outs], [step], [0, 1], [3, 4, 5, 6])


def image(seed: int, background: int = 1, n: int = N, dtype: str = "float32") -> list[Array]:
    """Encodings and scores; every other image has many equal scores."""
    r = np.random.default_rng(seed)
    shapes = (1, n, 4), (1, n, CLASSES + background)
    if dtype != "float32":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        return [r.integers(low, high + 1, s).astype(dtype) for s in shapes]
    scores = r.uniform(0, 1, shapes[1])
    scores = np.round(4 * scores) / 4 if seed % 2 else scores
    return [a.astype("float32") for a in (r.normal(0, 2, shapes[0]), scores)]


def mistakes(content: bytes, given: list[Array], native: bool = False) -> str:
    """How results differ from TFLite's; behind the last box, where its are what memory holds, from
    zeros."""
    expected = [np.array(y) for y in Oracle(content)(*given)]
    found = (compiled if native else interpreted)(from_tflite(content), *given)
    rows = expected[0].shape[1]
    each = max(1, rows // OPTIONS["max_detections"])
    for y in expected[:3]:
        y[:, int(expected[3][0]) * each :] = 0
    return "; ".join(filter(None, map(differences, found, expected)))


WAYS: dict[str, dict[str, Any]] = {
    "fast": {},
    "regular": {"use_regular_nms": True},
    "regular, few of each class": {"use_regular_nms": True, "detections_per_class": 2},
    "without background": {"background": 0},
    "regular without background": {"background": 0, "use_regular_nms": True},
    "low threshold": {"nms_score_threshold": 0.0, "nms_iou_threshold": 0.9},
    "two classes of each": {"max_classes_per_detection": 2},
    "more than there are": {"n": 3, "max_detections": 6},
    "regular, more than there are": {"n": 3, "use_regular_nms": True, "nms_score_threshold": 0.6},
    "threshold of equal scores": {"nms_score_threshold": 0.75},
    "regular, threshold of equal scores": {"nms_score_threshold": 0.75, "use_regular_nms": True},
    "uint8": {"dtype": "uint8"},
    "regular uint8": {"dtype": "uint8", "use_regular_nms": True},
}


@pytest.mark.parametrize("way", WAYS)
def test_detections_are_tflites(way: str) -> None:
    content = detector(**WAYS[way])
    shape = {k: v for k, v in WAYS[way].items() if k in ("background", "n", "dtype")}
    # which of a box's equal classes stands first, the kernel leaves to its heap
    step = 2 if "max_classes_per_detection" in WAYS[way] else 1
    wrong = [(seed, mistakes(content, image(seed, **shape))) for seed in range(0, 12, step)]
    wrong += [(seed, mistakes(content, image(seed, **shape), native=True)) for seed in (0, step)]
    assert not [w for w in wrong if w[1]]


@pytest.mark.parametrize("regular", [False, True])
def test_nothing_above_the_threshold(regular: bool) -> None:
    exe: Any = smelt.compile(detector(use_regular_nms=regular), threads=1)
    boxes, scores = image(0)
    found = [np.asarray(y) for y in exe(boxes, scores * 0.3)]
    assert Oracle(detector(use_regular_nms=regular))(boxes, scores * 0.3)[3] == 0
    assert [y.shape for y in found] == [(1, 6, 4), (1, 6), (1, 6), (1,)]
    assert not any(y.any() for y in found)


def test_more_classes_than_there_are() -> None:
    """The kernel passes over the places of the classes that a box lacks; they are zeros."""
    content = detector(max_classes_per_detection=CLASSES + 2)
    given = image(2)
    expected, found = Oracle(content)(*given), interpreted(from_tflite(content), *given)
    count = int(expected[3][0])
    assert count == found[3][0] > 1
    for a, b in zip(found[:3], expected[:3], strict=True):
        rows = [y.reshape(1, 6, CLASSES + 2, -1)[:, :count] for y in (a, b)]
        assert not differences(rows[0][:, :, :CLASSES], rows[1][:, :, :CLASSES])
        assert not rows[0][:, :, CLASSES:].any()


@pytest.mark.parametrize("regular", [False, True])
def test_int8_is_what_its_floats_are(regular: bool) -> None:
    """TFLite's kernel takes uint8 and floats only."""
    given = image(3, dtype="int8")
    mod = from_tflite(detector(dtype="int8", use_regular_nms=regular))
    shifted = [(x.astype("int16") + 128).astype("uint8") for x in given]
    moved = {"uint8": [(s, z + 128) for s, z in NUMBERS["int8"]]}
    with pytest.MonkeyPatch.context() as m:
        m.setitem(NUMBERS, "uint8", moved["uint8"])
        content = detector(dtype="uint8", use_regular_nms=regular)
    expected = Oracle(content)(*shifted)
    count = int(expected[3][0])
    for a, b in zip(interpreted(mod, *given), expected, strict=True):
        assert not differences(a[:, :count] if a.ndim > 1 else a, b[:, :count] if b.ndim > 1 else b)


def test_notes_of_converters_say_nothing() -> None:
    notes: dict[str, Any] = {"_output_quantized": True, "_output_types": [1, 1, 1, 1],
             "_support_output_type_float_in_quantized_op": True}  # fmt: skip
    assert not mistakes(detector(**notes), image(0))


def test_an_operator_of_the_users_wins() -> None:
    def first(
        g: Any, encodings: Any, scores: Any, anchors: Any, *, max_detections: int,
        max_classes_per_detection: int, num_classes: int, y_scale: float, x_scale: float,
        h_scale: float, w_scale: float, nms_score_threshold: float, nms_iou_threshold: float,
        use_regular_nms: bool,
    ) -> Any:  # fmt: skip
        assert (max_detections, num_classes, w_scale) == (6, CLASSES, 4.0)
        six = [g.call("strided_slice", v, axes=(1,), begin=(0,), end=(6,), strides=(1,))
               for v in (encodings, scores)]  # fmt: skip
        best = g.call("max", six[1], axes=(2,), keepdims=False)
        return six[0], best, best, g.constant(np.ones(1, "float32"))

    name = "custom.TFLite_Detection_PostProcess"
    mod = from_tflite(detector(), operators={name: first})
    boxes, scores = image(0)
    np.testing.assert_array_equal(interpreted(mod, boxes, scores)[0], boxes[:, :6])


def test_the_survey_knows_it() -> None:
    (row,) = survey(detector()).operators
    assert (row.operator, row.state) == ("custom.TFLite_Detection_PostProcess", "works")


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no limit": ({"max_detections": 0}, "max_detections=0; legal: numbers above 0"),
    "no scale": ({"h_scale": 0.0}, "h_scale=0.0; legal: numbers above 0"),
    "missing": ({"num_classes": None}, "the attribute 'num_classes' is missing"),
    "unknown": ({"soft_nms": True}, "attribute soft_nms=True"),
    "columns": (
        {"num_classes": 2},
        "operands of the shapes (1, 20, 4), (1, 20, 5), (20, 4) for 2 classes; legal: (1, n, 4 or "
        "more), (1, n, classes or one more), (n, 4)",
    ),
    "result": (
        {"kind": "uint8"},
        "the file says that 't3' is uint8; from these operands the operator makes float32",
    ),
    "operands": ({"operands": 2}, "the operand 'anchors' (number 2) is missing"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused(name: str) -> None:
    options, text = BAD[name]
    with pytest.raises((Unsupported, ImportFailure)) as e:
        from_tflite(detector(**options))
    where = "<bytes>: node '0' (custom.TFLite_Detection_PostProcess, which makes 't3'): "
    assert str(e.value).startswith(where + text)
