"""Operators on images over their modes, against onnxruntime and ONNX's definition."""

from __future__ import annotations

import io
import itertools
from typing import Any

import numpy as np
import pytest

import smelt
from smelt.frontend.onnx import from_onnx
from smelt.ir.errors import SmeltError

from .many import check_all, joined, one
from .models import model, node, random, reference

F32, I64 = np.float32, np.int64
IMAGE, VOLUME = random(2, 3, 5, 6), random(1, 2, 4, 3, 5)
POINTS = np.random.default_rng(0).uniform(-1.4, 1.4, (2, 4, 3, 2)).astype(F32)
POINTS_3D = np.random.default_rng(1).uniform(-1.4, 1.4, (1, 2, 3, 2, 3)).astype(F32)
BORDERS = ["zeros", "border", "reflection"]


def ints(*values: int) -> np.ndarray:
    return np.array(values, I64)


@pytest.mark.parametrize("align", [0, 1])
def test_images_read_at_points(align: int) -> None:
    nodes = [
        one("GridSample", IMAGE, POINTS, mode=m, padding_mode=b, align_corners=align)
        for m, b in itertools.product(["bilinear", "nearest", "bicubic"], BORDERS)
    ]
    check_all([*nodes, one("GridSample", IMAGE, POINTS)], 16, 1e-5)
    late = [
        one("GridSample", IMAGE, POINTS, mode=m, padding_mode=b, align_corners=align)
        for m, b in itertools.product(["linear", "nearest", "cubic"], BORDERS)
    ]
    check_all(late, 22, 1e-5)


@pytest.mark.parametrize("align", [0, 1])
def test_volumes_read_at_points(align: int) -> None:
    nodes = [
        one("GridSample", VOLUME, POINTS_3D, mode=m, padding_mode=b, align_corners=align)
        for m, b in itertools.product(["linear", "nearest"], BORDERS)
    ]
    check_all(nodes, 20, 1e-5)
    # with "border" ONNX's evaluator moves the point itself; onnxruntime moves the pixels, as here
    cubic = [
        one("GridSample", VOLUME, POINTS_3D, mode="cubic", padding_mode=b, align_corners=align)
        for b in ("zeros", "reflection")
    ]
    check_all(cubic, 20, 1e-5, oracle="onnx")


@pytest.mark.parametrize("align", [0, 1])
def test_grids_of_matrices(align: int) -> None:
    nodes = [
        one("AffineGrid", random(2, 2, 3), known=[ints(2, 3, 4, 5)], align_corners=align),
        one("AffineGrid", random(1, 3, 4), known=[ints(1, 3, 2, 4, 5)], align_corners=align),
    ]
    check_all(nodes, 20, 1e-5)


ROIS = np.array(
    [[0, 0, 4, 4], [1.3, 0.7, 5.2, 3.9], [2, 2, 2.4, 2.2], [-1, -2, 9, 8.3]], F32
)  # fmt: skip
OWNERS = ints(0, 1, 0, 1)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("samples", [0, 2])
def test_regions_aligned(samples: int, mode: str) -> None:
    attrs: dict[str, Any] = {
        "output_height": 2,
        "output_width": 3,
        "sampling_ratio": samples,
        "spatial_scale": 0.8,
        "mode": mode,
    }
    check_all([one("RoiAlign", IMAGE, ROIS, OWNERS, **attrs)], 10, 1e-5)
    nodes = [
        one("RoiAlign", IMAGE, ROIS, OWNERS, coordinate_transformation_mode=c, **attrs)
        for c in ("half_pixel", "output_half_pixel")
    ]
    check_all(nodes, 16, 1e-5)
    check_all(nodes, 22, 1e-5, oracle="onnx")


def test_regions_of_whole_pixels() -> None:
    rois = np.concatenate([OWNERS[:, None], ROIS[:, :]], 1).astype(F32)
    nodes = [
        one("MaxRoiPool", IMAGE, rois, pooled_shape=[2, 3], spatial_scale=s) for s in (1.0, 0.6)
    ]
    check_all(nodes, 18)


@pytest.mark.parametrize("groups", [(1, 1), (2, 2), (1, 2)])
def test_convolution_at_moved_points(groups: tuple[int, int]) -> None:
    group, moved = groups
    x, w = random(2, 4, 6, 7), random(6, 4 // group, 3, 2, seed=1)
    attrs: dict[str, Any] = {
        "group": group,
        "offset_group": moved,
        "strides": [2, 1],
        "pads": [1, 0, 2, 1],
        "dilations": [1, 2],
    }
    size = (4, 6)
    offset = random(2, moved * 12, *size, seed=2) * 2
    mask = np.abs(random(2, moved * 6, *size, seed=3))
    nodes = [
        one("DeformConv", x, w, offset, **attrs),
        one("DeformConv", x, w, offset, random(6, seed=4), mask, **attrs),
        one("DeformConv", x, w, offset, random(6, seed=5), kernel_shape=[3, 2], **attrs),
    ]
    check_all(nodes, 19, 1e-5)


def test_columns_become_images() -> None:
    def case(image: tuple[int, ...], block: tuple[int, ...], **attrs: Any) -> Any:
        rank = len(image)
        pads = attrs.get("pads", [0] * 2 * rank)
        steps, gaps = attrs.get("strides", [1] * rank), attrs.get("dilations", [1] * rank)
        places = [
            (image[d] + pads[d] + pads[rank + d] - gaps[d] * (block[d] - 1) - 1) // steps[d] + 1
            for d in range(rank)
        ]
        x = random(2, 3 * int(np.prod(block)), int(np.prod(places)))
        return one("Col2Im", x, known=[ints(*image), ints(*block)], **attrs)

    nodes = [
        case((5, 6), (2, 3)),
        case((5, 7), (3, 2), pads=[1, 0, 2, 1], strides=[2, 3]),
        case((7, 7), (3, 2), dilations=[2, 3], pads=[1, 1, 1, 1]),
        case((9,), (3,), strides=[2]),
        case((4, 5, 3), (2, 2, 1), pads=[0, 1, 0, 1, 0, 0]),
    ]
    check_all(nodes, 18, 1e-5)


def test_the_middle_is_cut_or_padded() -> None:
    x = random(5, 6, 7)
    nodes = [
        one("CenterCropPad", x, known=[ints(2, 9, 7)]),
        one("CenterCropPad", x, known=[ints(8, 3)], axes=[0, -1]),
        one("CenterCropPad", x, known=[ints(5)], axes=[1]),
    ]
    check_all(nodes, 18, oracle="onnx")


def test_channels_and_space() -> None:
    x, y = random(2, 18, 2, 3), random(2, 3, 6, 9)
    nodes = [one("DepthToSpace", x, blocksize=3, mode=m) for m in ("DCR", "CRD")]
    check_all([*nodes, one("SpaceToDepth", y, blocksize=3)], 13)


BOXES = np.random.default_rng(3).uniform(0, 1, (2, 12, 4)).astype(F32)
SCORES = np.random.default_rng(4).uniform(0, 1, (2, 3, 12)).astype(F32).round(2)


@pytest.mark.parametrize("centres", [0, 1])
@pytest.mark.parametrize(
    ("most", "overlap", "least"),
    [(3, 0.3, None), (99, 0.5, 0.4), (1, 0.0, 0.1), (0, 0.5, 0.0), (5, 0.2, 2.0), (2, None, None)],
)
def test_the_best_boxes(
    most: int, overlap: float | None, least: float | None, centres: int
) -> None:
    known = [np.int64(most), *[None if v is None else F32(v) for v in (overlap, least)]]
    m, inputs = joined(
        [one("NonMaxSuppression", BOXES, SCORES, known=known, center_point_box=centres)], 11
    )
    found = smelt.compile(m, options=smelt.Options(threads=1, workers=0))(BOXES, SCORES)
    np.testing.assert_array_equal(found.numpy(), reference(m, inputs)[0])


def test_pictures_are_decoded() -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    file = io.BytesIO()
    image.fromarray(pixels).save(file, "PNG")
    data = np.frombuffer(file.getvalue(), np.uint8)
    made = [
        node("ImageDecoder", ["x"], ["p"], pixel_format="BGR"),
        node("Cast", ["p"], ["c"], to=1),
        node("Add", ["c", "c"], ["y"]),
    ]
    m = model(made, {"x": (["n"], np.uint8)}, ["y"], opset=20)
    exe = smelt.compile(m, options=smelt.Options(threads=1, workers=0))
    np.testing.assert_array_equal(exe(data).numpy(), pixels[:, :, ::-1].astype(F32) * 2)
    with pytest.raises(SmeltError, match="are no picture"):
        exe(data[5:].copy())


@pytest.mark.parametrize(
    ("case", "opset", "text"),
    [
        (one("GridSample", IMAGE, POINTS, mode="linear"), 16, "mode='linear'"),
        (one("GridSample", IMAGE, POINTS, padding_mode="edge"), 16, "padding_mode='edge'"),
        (one("RoiAlign", IMAGE, ROIS, OWNERS, mode="sum"), 16, "mode='sum'"),
        (one("CenterCropPad", IMAGE, known=[ints(3)]), 18, "1 extents for 4 dimensions"),
        (one("Col2Im", random(1, 7, 4), known=[ints(3, 3), ints(2, 2)]), 18, "no multiple"),
        (one("Col2Im", random(1, 4, 5), known=[ints(3, 3), ints(2, 2)]), 18, "5 and 4"),
        (one("DeformConv", random(1, 1, 5), random(1, 1, 3), random(1, 6, 3)), 19, "3 dimensions"),
    ],
    ids=lambda v: v.op if hasattr(v, "op") else None,
)
def test_what_is_wrong_is_named(case: Any, opset: int, text: str) -> None:
    m, _ = joined([case], opset)
    with pytest.raises(SmeltError, match=text):
        from_onnx(m)
