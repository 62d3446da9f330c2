"""Resizing over modes, coordinates and ranks, against onnxruntime and ONNX's definition."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from smelt.frontend.onnx import from_onnx
from smelt.ir.errors import SmeltError

from .many import check_all, joined, one
from .models import random

F32, I64 = np.float32, np.int64
IMAGE = random(1, 2, 6, 7)
SMALL = IMAGE[:, :1]
LINE, VOLUME = random(2, 2, 9), random(1, 2, 4, 3, 5)
COORDINATES = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
NEAREST = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


def factors(*values: float) -> np.ndarray:
    return np.array(values, F32)


def sizes(*values: int) -> np.ndarray:
    return np.array(values, I64)


@pytest.mark.parametrize("how", COORDINATES)
def test_nearest(how: str) -> None:
    nodes = [
        one(
            "Resize",
            IMAGE,
            known=[None, None, s],
            mode="nearest",
            nearest_mode=n,
            coordinate_transformation_mode=how,
        )
        for n, s in itertools.product(NEAREST, (sizes(1, 2, 12, 21), sizes(1, 2, 4, 10)))
    ]
    check_all(nodes, 19)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("how", [*COORDINATES, "half_pixel_symmetric"])
def test_between_pixels(mode: str, how: str) -> None:
    attrs: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": how}
    nodes = [one("Resize", IMAGE, known=[None, None, s], **attrs)
             for s in (sizes(1, 2, 12, 10), sizes(1, 2, 4, 5), sizes(1, 2, 1, 1))]  # fmt: skip
    nodes.append(one("Resize", IMAGE, known=[None, factors(1, 1, 2, 3)], **attrs))
    check_all(nodes, 19, 1e-5)


REFERENCE: list[dict[str, Any]] = [
    {"mode": m, "coordinate_transformation_mode": c, "exclude_outside": e, **more}
    for m, c, (e, more) in itertools.product(
        ("linear", "cubic"),
        [*COORDINATES, "half_pixel_symmetric"],
        [(0, {}), (1, {"cubic_coeff_a": -0.5})],
    )
]


@pytest.mark.parametrize("antialias", [0, 1])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_as_onnx_defines_it(mode: str, antialias: int) -> None:
    nodes = [
        one("Resize", SMALL, known=[None, s], **attrs, antialias=antialias)
        for attrs, s in itertools.product(
            [a for a in REFERENCE if a["mode"] == mode][::3],
            (factors(1, 1, 0.6, 1.7), factors(1, 1, 0.34, 0.6)),
        )
    ]
    check_all(nodes, 19, 1e-5, oracle="onnx")


@pytest.mark.parametrize("x", [LINE, VOLUME], ids=["line", "volume"])
def test_other_ranks(x: np.ndarray) -> None:
    scale = factors(1, 1, *[1.5, 0.7, 2.0][: x.ndim - 2])
    for mode in ("nearest", "linear", "cubic"):
        attrs: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": "half_pixel"}
        nodes = [one("Resize", x, known=[None, scale], **attrs)]
        if mode != "nearest":
            nodes.append(one("Resize", x, known=[None, scale], antialias=1, **attrs))
        check_all(nodes, 19, 1e-5, oracle="onnx")
    if x.ndim == 5:
        check_all([one("Resize", x, known=[None, scale], mode="linear")], 13, 1e-5)


def test_every_dimension_may_change() -> None:
    x = random(2, 3, 4)
    nodes = [one("Resize", x, known=[None, None, sizes(3, 5, 2)], mode=m)
             for m in ("nearest", "linear")]  # fmt: skip
    check_all(nodes, 19, 1e-5, oracle="onnx")


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
def test_the_aspect_ratio_may_be_kept(policy: str) -> None:
    nodes = [
        one(
            "Resize",
            IMAGE,
            known=[None, None, s],
            mode=m,
            axes=axes,
            keep_aspect_ratio_policy=policy,
        )
        for m, (s, axes) in itertools.product(
            ("nearest", "linear"), [(sizes(9, 8), [2, 3]), (sizes(3, 9), [3, 2])]
        )
    ]
    check_all(nodes, 19, 1e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_a_part_is_cut_out(mode: str) -> None:
    roi = factors(0, 0, 0.4, 0.6, 1, 1, 1.3, 0.3)
    attrs: dict[str, Any] = {
        "mode": mode,
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "extrapolation_value": 10.0,
    }
    nodes = [
        one("Resize", IMAGE, known=[roi, None, sizes(1, 2, 5, 4)], **attrs),
        one("Resize", IMAGE, known=[roi, None, sizes(1, 2, 1, 9)], **attrs),
        one(
            "Resize",
            IMAGE,
            known=[factors(0.1, 0.2, 0.9, 0.8), None, sizes(3, 8)],
            axes=[3, 2],
            **attrs,
        ),
    ]
    check_all(nodes, 19, 1e-5, oracle="onnx")


def test_integers_are_rounded_toward_zero_and_held() -> None:
    x = np.random.default_rng(0).integers(0, 256, (1, 1, 5, 6), np.uint8)
    nodes = [one("Resize", x, known=[None, factors(1, 1, 2, 1.5)], mode=m)
             for m in ("nearest", "linear")]  # fmt: skip
    check_all(nodes, 13)
    edge = np.array([[[0, 0, 255, 255, 0, 0]]], np.uint8)
    check_all(
        [one("Resize", edge, known=[None, factors(1, 1, 1)], mode="cubic")], 13, oracle="onnx"
    )


@pytest.mark.parametrize("opset", [7, 9, 10])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_before_operator_set_11(mode: str, opset: int) -> None:
    scales: list[tuple[float, ...]]
    scales = [(1, 1, 2, 2), (1, 1, 3, 1)] if mode == "nearest" else [(1, 1, 2, 2)]
    if opset == 10:
        scales += [(1, 1, 0.5, 0.6), (1, 1, 0.4, 2.5)]
    op = "Resize" if opset == 10 else "Upsample"
    nodes = [
        one(op, IMAGE, mode=mode, scales=list(map(float, s)))
        if opset == 7
        else one(op, IMAGE, known=[factors(*s)], mode=mode)
        for s in scales
    ]
    check_all(nodes, opset, 1e-5)


@pytest.mark.parametrize(
    ("known", "attrs", "text"),
    [
        ([None, factors(1, 1, 2)], {}, "3 scales for 4 dimensions"),
        ([None, factors(1, 1, 0, 2)], {}, "every scale has to be above 0"),
        ([None, None, sizes(1, 2)], {"axes": [3]}, "2 sizes for 1 dimensions"),
        ([], {}, "scales or sizes have to be given, not both"),
        ([None, factors(1, 1, 2, 2)], {"mode": "bicubic"}, "mode='bicubic'"),
        (
            [None, factors(1, 1, 2, 2)],
            {"coordinate_transformation_mode": "tf_crop_and_resize"},
            "needs the operand 'roi'",
        ),
    ],
)
def test_what_is_wrong_is_named(known: list[Any], attrs: dict[str, Any], text: str) -> None:
    m, _ = joined([one("Resize", IMAGE, known=known, **attrs)], 19)
    with pytest.raises(SmeltError, match=text):
        from_onnx(m)
