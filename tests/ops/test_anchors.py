"""Anchors and what predictions make of them."""

from typing import Any

import numpy as np
import pytest

from .cases import Array, Case, close, data, label

PRIORS: list[dict[str, Any]] = [
    {"height": 3, "width": 5},
    {"height": 4, "width": 2, "sizes": (0.3, 0.5, 0.9), "ratios": (1.0, 2.0, 0.5), "clip": True},
    {"height": 2, "width": 3, "sizes": (0.4,), "ratios": (1.0, 3.0), "steps": (0.2, 0.1),
     "offsets": (0.0, 1.0)},
]  # fmt: skip


@pytest.mark.parametrize("attrs", PRIORS, ids=label)
def test_multibox_prior(attrs: dict[str, Any]) -> None:
    case = Case("multibox_prior", **attrs)
    case.check()
    case.check_native()
    kinds = len(attrs.get("sizes", (1,))) + len(attrs.get("ratios", (1,))) - 1
    assert case.numpy()[0].shape == (1, attrs["height"] * attrs["width"] * kinds, 4)


def test_anchors_of_a_known_image() -> None:
    found = Case("multibox_prior", height=2, width=2, sizes=(0.5,), ratios=(1.0, 4.0)).numpy()[0]
    close(found[0, 0], np.array([0, 0, 0.5, 0.5], np.float32), 1e-6)
    close(found[0, 1], np.array([-0.25, 0.125, 0.75, 0.375], np.float32), 1e-6)
    close(found[0, 6], np.array([0.5, 0.5, 1, 1], np.float32), 1e-6)


def predictions(dtype: str = "float32") -> list[Array]:
    random = np.random.default_rng(7)
    probabilities = random.dirichlet(np.ones(4), (2, 9)).transpose(0, 2, 1)
    anchor = np.sort(random.uniform(0, 1, (1, 9, 2, 2)), 2).reshape(1, 9, 4)
    moves = random.uniform(-2, 2, (2, 36))
    return [np.ascontiguousarray(t.astype(dtype)) for t in (probabilities, moves, anchor)]


LOCATIONS: list[dict[str, Any]] = [
    {}, {"threshold": 0.6, "clip": False}, {"keep_background": True},
    {"keep_background": True, "threshold": 0.5, "variances": (1.0, 0.5, 0.2, 0.1)},
]  # fmt: skip


@pytest.mark.parametrize("attrs", LOCATIONS, ids=label)
def test_multibox_transform_loc(attrs: dict[str, Any]) -> None:
    for dtype in ("float32", "float64"):
        Case("multibox_transform_loc", *predictions(dtype), **attrs).check()
    Case("multibox_transform_loc", *predictions(), **attrs).check_native()
    symbolic = {0: {0: "n"}, 1: {0: "n"}}
    Case("multibox_transform_loc", *predictions(), symbolic=symbolic, **attrs).check()
    boxes, count = Case("multibox_transform_loc", *predictions(), **attrs).numpy()
    assert count.any()
    if attrs.get("keep_background"):
        assert (count == 9).all()
    for b, n in enumerate(count):
        assert (boxes[b, :n, 0] >= 0).all()
        assert (boxes[b, n:] == -1).all()


PROPOSALS: list[dict[str, Any]] = [
    {"rpn_post_nms_top_n": 5, "rpn_pre_nms_top_n": 12, "rpn_min_size": 4},
    {"rpn_post_nms_top_n": 30, "rpn_pre_nms_top_n": 0, "rpn_min_size": 20, "threshold": 0.3},
    {"rpn_post_nms_top_n": 7, "iou_loss": True, "rpn_min_size": 4},
]


@pytest.mark.parametrize("attrs", PROPOSALS, ids=label)
def test_proposals(attrs: dict[str, Any]) -> None:
    kinds: dict[str, Any] = {"scales": (1.0, 2.0), "ratios": (0.5, 1.0, 2.0), "feature_stride": 8}
    operands = [
        data((2, 12, 3, 4), low=0, high=1),
        data((2, 24, 3, 4), low=-0.7, high=0.7),
        np.array([[24, 32, 1.5], [20, 17, 1]], np.float32),
    ]
    Case("proposal", *operands, **kinds, **attrs).check(1e-3)
    Case("proposal", *operands, **kinds, **attrs).check_native(1e-3)
    found = Case("proposal", *operands, **kinds, **attrs).numpy()[0]
    n = attrs["rpn_post_nms_top_n"]
    np.testing.assert_array_equal(found[:, 0], np.repeat([0, 1], n))
    assert len(np.unique(found[:n], axis=0)) > 1
