"""Classic operators that are compositions of ours: the formula against the definition."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from .cases import Array, Case, close, data, label


def do(name: str, *operands: Array | None, **attrs: Any) -> Array:
    """The result of one operator."""
    return Case(name, *operands, **attrs).numpy()[0]


def space_to_batch(x: Array, block: tuple[int, ...], pads: tuple[tuple[int, int], ...]) -> Array:
    """Pad, split every spatial dimension by its block, blocks to the front."""
    m = len(block)
    border = (0, *[a for a, _ in pads], *[0] * (x.ndim - 1 - m))
    behind = (0, *[b for _, b in pads], *[0] * (x.ndim - 1 - m))
    x = do("pad", x, pads=(*border, *behind))
    n, *spatial = x.shape[: 1 + m]
    split = [e for s, b in zip(spatial, block, strict=True) for e in (s // b, b)]
    x = do("reshape", x, shape=(n, *split, *x.shape[1 + m :]))
    order = [2 * k + 2 for k in range(m)] + [0] + [2 * k + 1 for k in range(m)]
    x = do("transpose", x, axes=(*order, *range(1 + 2 * m, x.ndim)))
    few = [s // b for s, b in zip(spatial, block, strict=True)]
    return do("reshape", x, shape=(n * math.prod(block), *few, *x.shape[1 + 2 * m :]))


def batch_to_space(x: Array, block: tuple[int, ...], crops: tuple[tuple[int, int], ...]) -> Array:
    """The blocks in front behind their spatial dimensions, joined, cut."""
    m = len(block)
    n, *spatial = x.shape[: 1 + m]
    images = n // math.prod(block)
    x = do("reshape", x, shape=(*block, images, *x.shape[1:]))
    order = [m, *itertools.chain(*[(m + 1 + k, k) for k in range(m)])]
    x = do("transpose", x, axes=(*order, *range(2 * m + 1, x.ndim)))
    whole = [s * b for s, b in zip(spatial, block, strict=True)]
    x = do("reshape", x, shape=(images, *whole, *x.shape[2 * m + 1 :]))
    cuts = tuple([(a, s - b) for (a, b), s in zip(crops, whole, strict=True)])
    begin, end = zip(*cuts, strict=True)
    return do("strided_slice", x, axes=tuple(range(1, 1 + m)), begin=begin, end=end)


@pytest.mark.parametrize(
    ("shape", "block", "pads"),
    [((2, 4, 6, 3), (2, 3), ((0, 0), (0, 0))), ((1, 5, 7), (2, 3), ((1, 2), (0, 2))),
     ((2, 5, 2), (3,), ((1, 0),))], ids=label,
)  # fmt: skip
def test_space_to_batch(
    shape: tuple[int, ...], block: tuple[int, ...], pads: tuple[tuple[int, int], ...]
) -> None:
    x = data(shape)
    found = space_to_batch(x, block, pads)
    padded = np.pad(x, [(0, 0), *pads, *[(0, 0)] * (x.ndim - 1 - len(block))])
    for k, place in enumerate(np.ndindex(*block)):
        own = padded[(slice(None), *[slice(p, None, b) for p, b in zip(place, block, strict=True)])]
        np.testing.assert_array_equal(found[k * shape[0] : (k + 1) * shape[0]], own)
    np.testing.assert_array_equal(batch_to_space(found, block, pads), x)


def test_l2_normalize() -> None:
    x, eps = data((2, 3, 4)), 0.05
    x[0] *= 1e-3
    total = do("sum", do("square", x), axes=(1, 2))
    found = do("divide", x, do("sqrt", do("maximum", total, np.array(eps, np.float32))))
    for n in range(2):
        close(found[n], x[n] / np.sqrt(max(float((x[n] ** 2).sum()), eps)).astype("f"), 1e-6)


@pytest.mark.parametrize("counted", [False, True])
def test_pooling_that_rounds_up(counted: bool) -> None:
    """ceil_mode: stride - 1 more pixels behind, which never count."""
    torch = pytest.importorskip("torch")
    x, kernel, strides = data((1, 2, 8, 9)), (3, 3), (2, 2)
    attrs: dict[str, Any] = {"kernel": kernel, "strides": strides}
    functional, t = torch.nn.functional, torch.from_numpy(x)
    want = functional.max_pool2d(t, kernel, strides, 1, ceil_mode=True).numpy()
    close(do("max_pool", x, pads=(1, 1, 2, 2), **attrs), want)
    want = functional.avg_pool2d(t, kernel, strides, 1, True, counted).numpy()
    if counted:
        padded = do("pad", x, pads=(0, 0, 1, 1, 0, 0, 1, 1))
        close(do("avg_pool", padded, pads=(0, 0, 1, 1), **attrs), want)
    else:
        close(do("avg_pool", x, pads=(1, 1, 2, 2), **attrs), want)


def test_grids_with_coordinates_in_front() -> None:
    """Relay and Relax keep the coordinates of a grid in dimension 1."""
    theta, x = data((2, 2, 3), low=-0.7, high=0.7), data((2, 3, 5, 6))
    ours = do("affine_grid", theta, size=(4, 7), align_corners=True)
    classic = do("transpose", ours, axes=(0, 3, 1, 2))
    y, z = np.meshgrid(np.linspace(-1, 1, 4), np.linspace(-1, 1, 7), indexing="ij")
    base = np.stack([z, y, np.ones_like(y)])
    close(classic, np.einsum("nij,jyx->niyx", theta, base).astype("f"), 1e-5)
    back = do("transpose", classic, axes=(0, 2, 3, 1))
    attrs: dict[str, Any] = {"align_corners": True}
    close(do("grid_sample", x, back, **attrs), do("grid_sample", x, ours, **attrs))


def test_upsampling_is_a_resize() -> None:
    torch = pytest.importorskip("torch")
    x, sizes = data((1, 2, 4, 5)), (1, 2, 12, 10)
    t = torch.from_numpy(x)
    up = torch.nn.functional.interpolate
    attrs: dict[str, Any] = {"coordinate_mode": "asymmetric", "nearest_mode": "floor"}
    close(do("resize", x, sizes=sizes, **attrs), up(t, sizes[2:], mode="nearest").numpy())
    attrs = {"mode": "linear", "coordinate_mode": "align_corners"}
    want = up(t, sizes[2:], mode="bilinear", align_corners=True).numpy()
    close(do("resize", x, sizes=sizes, **attrs), want, 1e-5)


def test_regions_whose_pixels_are_not_moved() -> None:
    """Relax's roi_align with aligned=True: regions may be small, but nothing moves by half."""
    x, scale = data((1, 2, 6, 6)), 0.5
    rois = np.array([[0, 2.1, 3.3, 3.0, 4.2], [0, 1, 1, 9, 8]], np.float32)
    half = np.array([[0, 1, 1, 1, 1]], np.float32) * np.float32(0.5 / scale)
    attrs: dict[str, Any] = {"size": (2, 2), "scale": scale, "samples": 2}
    found = do("roi_align", x, do("add", rois, half), half_pixel=True, **attrs)
    close(found[1], do("roi_align", x, rois, **attrs)[1], 1e-5)
    assert np.abs(found[0] - do("roi_align", x, rois, **attrs)[0]).max() > 1e-3


def test_boxes_moved_by_predictions_with_the_scores_of_all_classes() -> None:
    """Relax's multibox_transform_loc: softmax of the classes; boxes top, left, bottom, right."""
    logits, loc = data((2, 4, 5)), data((2, 20), low=-1, high=1)
    anchor = np.sort(data((1, 5, 2, 2), low=0, high=1), axis=2).reshape(1, 5, 4)
    variances = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    # right, down, width, height
    move = do("multiply", do("reshape", loc, shape=(2, 5, 4)), variances)
    low, high = [do("strided_slice", anchor, axes=(2,), begin=(b,), end=(b + 2,)) for b in (0, 2)]
    size = do("subtract", high, low)
    shift = do("strided_slice", move, axes=(2,), begin=(0,), end=(2,))
    grow = do("strided_slice", move, axes=(2,), begin=(2,), end=(4,))
    half_of = np.array(0.5, np.float32)
    centre = do("add", do("multiply", shift, size), do("multiply", do("add", low, high), half_of))
    half = do("multiply", do("multiply", do("exp", grow), size), half_of)
    ends = [do("flip", do(f, centre, half), axes=(2,)) for f in ("subtract", "add")]
    boxes, scores = do("concat", *ends, axis=2), do("softmax", logits, axis=1)
    close(scores.sum(1), np.ones((2, 5), np.float32), 1e-5)
    for b, a in np.ndindex(2, 5):
        left, top, right, bottom = anchor[0, a]
        dx, dy, dw, dh = loc[b].reshape(5, 4)[a] * variances
        x, y = dx * (right - left) + (left + right) / 2, dy * (bottom - top) + (top + bottom) / 2
        w, h = np.exp(dw) * (right - left) / 2, np.exp(dh) * (bottom - top) / 2
        close(boxes[b, a], np.array([y - h, x - w, y + h, x + w], np.float32), 1e-5)
