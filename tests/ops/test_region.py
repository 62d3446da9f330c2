"""Regions of interest and deformable convolution."""

from typing import Any

import numpy as np
import pytest

from .cases import Array, Case, close, data, label
from .test_oracle import onnx_run

X = data((2, 3, 8, 9))
ROIS = np.array(
    [[0, 1.2, 0.7, 12.9, 10.3], [1, 3.3, 2.1, 3.6, 2.2], [0, -6.1, -5.3, 9.7, 8.8],
     [1, 10.9, 9.4, 25.3, 31.1], [1, 6.2, 6.6, 3.1, 2.4]], np.float32,
)  # fmt: skip

ALIGNED: list[dict[str, Any]] = [
    {"mode": m, "samples": s, "half_pixel": h}
    for m in ("avg", "max")
    for s in (0, 2)
    for h in (False, True)
]
PIXELS: list[dict[str, Any]] = [dict(a, mode="max_pixel") for a in ALIGNED if a["mode"] == "max"]


@pytest.mark.parametrize("attrs", [*ALIGNED, *PIXELS[1:3]], ids=label)
def test_roi_align(attrs: dict[str, Any]) -> None:
    Case("roi_align", X, ROIS, size=(3, 2), scale=0.6, **attrs).check(1e-4)
    Case("roi_align", X, ROIS, size=(1, 4), scale=0.6, **attrs).check_native(1e-4)
    Case("roi_align", X.astype("float64"), ROIS, size=(2, 2), **attrs).check(1e-4)
    sizes = {0: {2: "n"}, 1: {0: "m"}}
    Case("roi_align", X, ROIS, symbolic=sizes, size=(2, 2), scale=0.6, **attrs).check(1e-4)


def test_a_region_of_one_image_is_a_crop() -> None:
    """Samples at pixels: interpolation and pooling are those of a plain average."""
    whole = np.array([[1, 2, 1, 6, 5]], np.float32)
    case = Case("roi_align", X, whole, size=(2, 2), samples=2, half_pixel=True)
    part = X[1:, :, 1:5, 2:6]
    close(case.numpy()[0], part.reshape(1, 3, 2, 2, 2, 2).mean((3, 5)), 1e-5)


def onnx_roi_align(attrs: dict[str, Any], **more: Any) -> Array:
    owners = ROIS[:, 0].astype(np.int64)
    kind = "half_pixel" if attrs["half_pixel"] else "output_half_pixel"
    found = onnx_run(
        "RoiAlign", [X, ROIS[:, 1:].copy(), owners], coordinate_transformation_mode=kind,
        sampling_ratio=attrs["samples"], mode=attrs["mode"], **more,
    )  # fmt: skip
    return found[0]


@pytest.mark.parametrize("attrs", [*[a for a in ALIGNED if a["mode"] == "avg"], *PIXELS], ids=label)
def test_roi_align_agrees_with_onnxruntime(attrs: dict[str, Any]) -> None:
    case = Case("roi_align", X, ROIS[:4], size=(3, 2), scale=0.6, **attrs)
    onnx = {**attrs, "mode": "avg" if attrs["mode"] == "avg" else "max"}
    want = onnx_roi_align(onnx, output_height=3, output_width=2, spatial_scale=0.6)
    close(case.numpy()[0], want[:4], 1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_roi_pool(dtype: str) -> None:
    for size in ((3, 2), (7, 7), (1, 1)):
        Case("roi_pool", X.astype(dtype), ROIS, size=size, scale=0.6).check()
    Case("roi_pool", X.astype(dtype), ROIS, size=(3, 2), scale=0.6).check_native()
    Case("roi_pool", X, ROIS, symbolic={0: {3: "n"}, 1: {0: "m"}}, size=(2, 2), scale=0.6).check()


def test_roi_pool_of_a_known_region() -> None:
    x = np.arange(36, dtype=np.float32).reshape(1, 1, 6, 6)
    rois = np.array([[0, 1, 1, 4, 3], [0, 8, 8, 9, 9]], np.float32)
    found = Case("roi_pool", x, rois, size=(2, 2)).numpy()[0]
    assert found[0, 0].tolist() == [[14, 16], [20, 22]]
    assert not found[1].any()


DEFORMED: list[tuple[Array, tuple[int, ...], dict[str, Any]]] = [
    (data((2, 4, 6, 5)), (3, 4, 3, 3), {"pads": (1, 1, 1, 1)}),
    (data((1, 4, 7, 6)), (4, 2, 2, 3), {"groups": 2, "offset_groups": 2, "strides": (2, 1)}),
    (
        data((1, 4, 7, 6)),
        (2, 4, 2, 2),
        {"offset_groups": 4, "dilations": (2, 3), "pads": (0, 1, 2, 0)},
    ),
]


def _operands(x: Array, w: tuple[int, ...], attrs: dict[str, Any]) -> list[Array]:
    plain = {k: v for k, v in attrs.items() if k != "offset_groups"}
    size = Case("conv2d", x, data(w), **plain).numpy()[0].shape[2:]
    taps = w[2] * w[3] * attrs.get("offset_groups", 1)
    offset = data((x.shape[0], 2 * taps, *size), low=-2.5, high=2.5)
    return [x, offset, data(w), data((x.shape[0], taps, *size), low=0, high=1)]


@pytest.mark.parametrize(("x", "w", "attrs"), DEFORMED, ids=label)
def test_deformable_conv2d(x: Array, w: tuple[int, ...], attrs: dict[str, Any]) -> None:
    operands = _operands(x, w, attrs)
    Case("deformable_conv2d", *operands[:3], **attrs).check(1e-4)
    Case("deformable_conv2d", *operands, **attrs).check(1e-4)
    Case("deformable_conv2d", *operands, **attrs).check_native(1e-4)
    half = [t.astype("float16") for t in operands]
    Case("deformable_conv2d", *half, **attrs).check(2e-2)


def test_offsets_of_nothing_are_a_plain_convolution() -> None:
    x, w, attrs = DEFORMED[0]
    given = _operands(x, w, attrs)
    case = Case("deformable_conv2d", x, np.zeros_like(given[1]), given[2], **attrs)
    close(case.numpy()[0], Case("conv2d", x, given[2], **attrs).numpy()[0], 1e-4)
    moved = np.zeros_like(given[1])
    moved[:, ::2] = 1.0
    below = Case("deformable_conv2d", x, moved, given[2], **attrs).numpy()[0]
    want = Case("conv2d", np.pad(x[:, :, 1:], [(0, 0), (0, 0), (0, 1), (0, 0)]), given[2], **attrs)
    # row -1 of the image moved up is its first row, which the plain border hides
    close(below[:, :, 1:], want.numpy()[0][:, :, 1:], 1e-4)


def test_deformable_conv2d_samples_as_a_grid_does() -> None:
    torch = pytest.importorskip("torch")
    x, w, attrs = DEFORMED[0]
    _, offset, filters, mask = _operands(x, w, attrs)
    n, c, height, width = x.shape
    rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    total = np.zeros((n, w[0], height, width), np.float32)
    for k, (i, j) in enumerate(np.ndindex(3, 3)):
        y = rows + i - 1 + offset[:, 2 * k]
        z = columns + j - 1 + offset[:, 2 * k + 1]
        grid = np.stack([2 * z / (width - 1) - 1, 2 * y / (height - 1) - 1], -1).astype("f")
        seen = torch.nn.functional.grid_sample(
            torch.from_numpy(x), torch.from_numpy(grid), align_corners=True
        )
        moved = seen.numpy() * mask[:, k : k + 1]
        total += np.einsum("nchw,oc->nohw", moved, filters[:, :, i, j])
    assert c == w[1]
    close(Case("deformable_conv2d", x, offset, filters, mask, **attrs).numpy()[0], total, 1e-3)
