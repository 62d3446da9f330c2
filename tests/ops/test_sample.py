"""Images read between their pixels: grids, crops, resizing in one to three dimensions."""

from typing import Any

import numpy as np
import pytest

from smelt.ir.errors import TypeMismatch

from .cases import Array, Case, close, data, label
from .test_oracle import onnx_run

X2, X3 = data((2, 3, 5, 6)), data((1, 2, 4, 3, 5))
G2, G3 = data((2, 4, 7, 2), low=-1.6, high=1.6), data((1, 3, 2, 4, 3), low=-1.6, high=1.6)
TORCH_MODE = {"linear": "bilinear", "nearest": "nearest", "cubic": "bicubic"}


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("border", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(
    ("x", "grid", "mode"),
    [(X2, G2, "linear"), (X2, G2, "nearest"), (X2, G2, "cubic"), (X3, G3, "linear"),
     (X3, G3, "nearest")], ids=label,
)  # fmt: skip
def test_grid_sample(x: Array, grid: Array, mode: str, border: str, align_corners: bool) -> None:
    attrs: dict[str, Any] = {"padding_mode": border, "align_corners": align_corners}
    case = Case("grid_sample", x, grid, mode=mode, **attrs)
    case.check(1e-4)
    torch = pytest.importorskip("torch")
    want = torch.nn.functional.grid_sample(
        torch.from_numpy(x), torch.from_numpy(grid), mode=TORCH_MODE[mode], **attrs
    )
    close(case.numpy()[0], want.numpy(), 1e-4)


def test_grid_sample_of_other_ranks_and_types() -> None:
    for border in ("zeros", "border", "reflection"):
        line = data((2, 5, 1), low=-1.7, high=1.7)
        Case("grid_sample", data((2, 3, 6)), line, mode="cubic", padding_mode=border).check(1e-4)
    Case("grid_sample", X3, G3, mode="cubic", padding_mode="reflection").check(1e-4)
    Case("grid_sample", data((2, 3, 5, 6), "int32", -99, 99), G2, mode="nearest").check()
    Case("grid_sample", X2.astype("float64"), G2, mode="linear").check(1e-4)
    Case("grid_sample", X2.astype("float16"), G2.astype("float64")).check()
    one = Case("grid_sample", data((2, 1, 1, 1)), G2, padding_mode="reflection", align_corners=True)
    one.check()
    sizes = {0: {2: "n", 3: "m"}, 1: {1: "s"}}
    Case("grid_sample", X2, G2, symbolic=sizes, padding_mode="border").check(1e-4)


def test_grid_sample_of_points_far_away() -> None:
    grid = np.array([[[[1e30, 0], [-1e30, 0], [np.inf, 0], [0, 3e9]]]], np.float32)
    x = data((1, 1, 4, 4))
    case = Case("grid_sample", x, grid)
    np.testing.assert_array_equal(case.native()[0], np.zeros((1, 1, 1, 4)))
    case = Case("grid_sample", x, grid[:, :, :2], mode="nearest", padding_mode="border")
    case.check_native()


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_grid_sample_compiles(mode: str) -> None:
    for border in ("zeros", "reflection"):
        Case("grid_sample", X2, G2, mode=mode, padding_mode=border).check_native(1e-4)
    Case("grid_sample", X3, G3, mode="linear", padding_mode="border").check_native(1e-4)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("size", [(4, 5), (1, 3), (2, 3, 4)])
def test_affine_grid(size: tuple[int, ...], align_corners: bool) -> None:
    rank = len(size)
    theta = data((2, rank, rank + 1))
    case = Case("affine_grid", theta, size=size, align_corners=align_corners)
    case.check()
    case.check_native()
    if size == (1, 3) and align_corners:
        np.testing.assert_array_equal(case.numpy()[0][:, 0, 1], theta[:, :, 2])
        return  # torch warns that this case is not meant to be used
    torch = pytest.importorskip("torch")
    want = torch.nn.functional.affine_grid(
        torch.from_numpy(theta), [2, 1, *size], align_corners=align_corners
    )
    close(case.numpy()[0], want.numpy())


BOXES = np.array(
    [[0, 0, 1, 1], [0.1, 0.32, 0.8, 0.93], [0.9, 0.2, 0.1, 0.72], [-0.4, 0.5, 0.6, 1.33]],
    np.float32,
)
OWNERS = np.array([0, 1, 1, 0], np.int32)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("size", [(3, 4), (1, 1), (7, 1)])
def test_crop_and_resize(size: tuple[int, ...], mode: str) -> None:
    attrs: dict[str, Any] = {"size": size, "mode": mode, "extrapolation_value": -7.0}
    Case("crop_and_resize", X2, BOXES, OWNERS, **attrs).check(1e-4)
    Case("crop_and_resize", X2.astype("float16"), BOXES, OWNERS, **attrs).check()
    Case("crop_and_resize", X2, BOXES, OWNERS, symbolic={1: {0: "n"}, 2: {0: "n"}}, **attrs).check(
        1e-4
    )
    Case("crop_and_resize", X2, BOXES, OWNERS, **attrs).check_native(1e-4)


def test_a_crop_of_the_whole_image_is_a_resize_with_aligned_corners() -> None:
    for size in ((5, 6), (9, 3)):
        crop = Case("crop_and_resize", X2, BOXES[:1], OWNERS[:1], size=size).numpy()[0]
        sizes = (1, 3, *size)
        attrs: dict[str, Any] = {"mode": "linear", "coordinate_mode": "align_corners"}
        close(crop, Case("resize", X2[:1], sizes=sizes, **attrs).numpy()[0], 1e-5)
    crop = Case("crop_and_resize", X2, BOXES[1:2], OWNERS[1:2], size=(4, 3)).numpy()[0]
    roi = (0.0, 0.0, 0.1, 0.32, 1.0, 1.0, 0.8, 0.93)
    attrs = {"mode": "linear", "coordinate_mode": "tf_crop_and_resize", "roi": roi}
    close(crop, Case("resize", X2[1:], sizes=(1, 3, 4, 3), **attrs).numpy()[0], 1e-5)


RESIZED = [
    (data((1, 2, 7)), (11,)), (data((1, 2, 7)), (4,)), (data((1, 2, 5, 6)), (8, 4)),
    (data((1, 2, 3, 4, 5)), (5, 3, 7)),
]  # fmt: skip


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize(("x", "size"), RESIZED, ids=label)
def test_resize_in_one_to_three_dimensions(
    x: Array, size: tuple[int, ...], align_corners: bool
) -> None:
    torch = pytest.importorskip("torch")
    names = {1: "linear", 2: "bilinear", 3: "trilinear"}
    modes = {"linear": names[len(size)]} | ({"cubic": "bicubic"} if len(size) == 2 else {})
    sizes = (*x.shape[:2], *size)
    for mode, name in modes.items():
        want = torch.nn.functional.interpolate(
            torch.from_numpy(x), size, mode=name, align_corners=align_corners
        )
        how = "align_corners" if align_corners else "pytorch_half_pixel"
        case = Case("resize", x, sizes=sizes, mode=mode, coordinate_mode=how)
        case.check(1e-4)
        close(case.numpy()[0], want.numpy(), 1e-4)
    if not align_corners:
        attrs: dict[str, Any] = {"coordinate_mode": "asymmetric", "nearest_mode": "floor"}
        case = Case("resize", x, sizes=sizes, **attrs)
        case.check()
        want = torch.nn.functional.interpolate(torch.from_numpy(x), size, mode="nearest")
        close(case.numpy()[0], want.numpy())


COORDINATES = [
    "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"
]  # fmt: skip


@pytest.mark.parametrize("how", COORDINATES)
@pytest.mark.parametrize(
    ("x", "sizes"), [(data((1, 2, 6)), (1, 2, 9)), (data((1, 1, 3, 4, 5)), (1, 1, 5, 3, 8))],
    ids=label,
)  # fmt: skip
def test_resize_by_every_coordinate(x: Array, sizes: tuple[int, ...], how: str) -> None:
    several: list[dict[str, Any]] = [
        {"mode": "linear"},
        {"mode": "nearest", "nearest_mode": "floor"},
        {"mode": "nearest", "nearest_mode": "round_prefer_ceil"},
    ]
    for attrs in several:
        case = Case("resize", x, sizes=sizes, coordinate_mode=how, **attrs)
        inputs: list[Array | None] = [x, None, None, np.array(sizes, np.int64)]
        want = onnx_run("Resize", inputs, coordinate_transformation_mode=how, **attrs)[0]
        close(case.numpy()[0], want, 1e-4)
        case.check(1e-4)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialias_reaches_over_all_elements(mode: str) -> None:
    x = data((1, 2, 9, 7))
    attrs: dict[str, Any] = {"mode": mode, "antialias": True}
    several = [
        Case("resize", x, sizes=(1, 2, 4, 3), **attrs),
        Case("resize", x, sizes=(1, 2, 2, 11), exclude_outside=True, **attrs),
        Case("resize", x, sizes=(1, 2, 3, 4), scales=(1, 1, 0.4, 0.6), **attrs),
        Case("resize", x, sizes=(1, 2, 4, 3), coordinate_mode="tf_crop_and_resize",
             roi=(0, 0, -0.1, 0.2, 1, 1, 1.2, 0.9), extrapolation_value=5.0, **attrs),
        Case("resize", data((1, 1, 8, 8), "uint8", 0, 255), sizes=(1, 1, 4, 4), **attrs),
    ]  # fmt: skip
    for case in several:
        case.check(1e-4)
        case.check_native(1e-4)
    torch = pytest.importorskip("torch")
    want = torch.nn.functional.interpolate(
        torch.from_numpy(x), (4, 3), mode="bi" + mode, antialias=True
    )
    inside = Case("resize", x, sizes=(1, 2, 4, 3), exclude_outside=True, cubic_coeff=-0.5, **attrs)
    close(inside.numpy()[0], want.numpy(), 1e-4)


def test_antialias_needs_a_known_scale() -> None:
    case = Case("resize", data((1, 2, 9, 7)), sizes=(1, 2, 4, 3), mode="linear", antialias=True,
                symbolic={0: {2: "n"}})  # fmt: skip
    with pytest.raises(TypeMismatch, match="dimension 2 of n elements becomes 4; the scale has to"):
        case.numpy()
