"""Pools over their attributes, one to three dimensions, against onnxruntime."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import smelt

from .many import check_all, one
from .models import model, node, random

IMAGES = {1: random(2, 3, 13), 2: random(2, 3, 9, 10), 3: random(1, 2, 6, 7, 5)}
WINDOWS: list[dict[str, Any]] = [
    {"kernel_shape": [2]},
    {"kernel_shape": [3], "strides": [2], "pads": [1, 1]},
    {"kernel_shape": [3], "strides": [2], "pads": [0, 2]},
    {"kernel_shape": [3], "strides": [3], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [4], "strides": [2], "auto_pad": "SAME_LOWER"},
    {"kernel_shape": [3], "strides": [2], "auto_pad": "VALID"},
]


def spread(attrs: dict[str, Any], rank: int) -> dict[str, Any]:
    """One dimension's attributes for several, with the kernel one wider in the first."""
    out = {}
    for name, v in attrs.items():
        if not isinstance(v, list):
            out[name] = v
        elif name == "pads":
            out[name] = [v[0]] * rank + [v[1]] * rank
        else:
            out[name] = v * rank
    return out


CEILED = [
    dict(w, ceil_mode=c)
    for w, c in itertools.product(WINDOWS, (0, 1))
    if not (c and "auto_pad" in w)
]
DILATED = [
    *CEILED,
    {"kernel_shape": [2], "dilations": [3], "strides": [2], "pads": [1, 1], "ceil_mode": 1},
    {"kernel_shape": [3], "dilations": [2], "pads": [2, 2]},
]


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_largest_of_windows(rank: int) -> None:
    x = IMAGES[rank]
    check_all([one("MaxPool", x, **spread(w, rank)) for w in DILATED], 12)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_places_of_the_largest(rank: int, order: int) -> None:
    x = np.round(IMAGES[rank] * 2)  # many are equal: the first counts
    cases = [spread(w, rank) for w in DILATED]
    nodes = [one("MaxPool", x, outputs=2, storage_order=order, **w) for w in cases]
    check_all(nodes, 12, compiled=rank < 3)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.float64, np.float16])
def test_other_types_have_a_largest(dtype: Any) -> None:
    low = -100 if np.dtype(dtype).kind != "u" else 0
    x = np.random.default_rng(0).integers(low, 120, (1, 2, 7, 8)).astype(dtype)
    attrs: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
    outputs = 1 if dtype == np.float16 else 2
    check_all([one("MaxPool", x, outputs=outputs, **attrs)], 12)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_means_of_windows(rank: int) -> None:
    x = IMAGES[rank]
    nodes = [
        one("AveragePool", x, count_include_pad=count, **spread(w, rank))
        for w, count in itertools.product(DILATED, (0, 1))
    ]
    check_all(nodes, 19)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_norms_of_windows(rank: int) -> None:
    x = IMAGES[rank]
    nodes = [
        one("LpPool", x, p=p, **spread(w, rank)) for w, p in itertools.product(WINDOWS, (1, 2, 3))
    ]
    check_all(nodes, 11, 1e-5, compiled=rank < 3)
    check_all([one("LpPool", x, **spread(w, rank)) for w in DILATED], 18, 1e-5, compiled=rank < 3)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_everything_pooled(rank: int) -> None:
    x = IMAGES[rank]
    nodes = [one("GlobalLpPool", x, p=p) for p in (1, 2, 3)]
    check_all([*nodes, one("GlobalMaxPool", x), one("GlobalAveragePool", x)], 11, 1e-5)


UNPOOLED: list[dict[str, Any]] = [
    {"kernel_shape": [2, 2], "strides": [2, 2]},
    {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0]},
]


@pytest.mark.parametrize("attrs", UNPOOLED, ids=str)
def test_unpooling_puts_elements_back(attrs: dict[str, Any]) -> None:
    x = random(2, 3, 7, 8) if "pads" in attrs else random(2, 3, 6, 8)
    pooled = node("MaxPool", ["x"], ["p", "i"], **attrs)
    back = node("MaxUnpool", ["p", "i"], ["y"], **attrs)
    m = model([pooled, back], {"x": (x.shape, x.dtype)}, ["y"])
    y = smelt.compile(m, options=smelt.Options(threads=1, workers=0))(x).numpy()
    assert y.shape == x.shape
    kept = y != 0
    np.testing.assert_array_equal(y[kept], x[kept])
    assert kept.sum() > 0
