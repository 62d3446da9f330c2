import itertools
from typing import Any

import numpy as np
import pytest

from .cases import SIZES, Case, data

n, m = SIZES["n"], SIZES["m"]


@pytest.mark.parametrize(("old", "new"), [
    ((2, 3, 4), (24,)), ((24,), (2, 3, 4)), ((2, 3, 4), (6, 4)), ((2, 3, 4), (2, 12)),
    ((6, 4), (4, 6)), ((2, 3, 4), (1, 2, 3, 1, 4)), ((1, 1), (1,)), ((), (1, 1)), ((1,), ()),
    ((2, 3, 4, 5), (3, 2, 20)), ((4, 6, 5), (2, 2, 3, 2, 5)), ((2, 1, 3), (2, 3)),
])  # fmt: skip
def test_reshape(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    for dtype in ("float32", "int64", "bool"):
        Case("reshape", data(old, dtype), shape=new).check()


def test_reshape_of_unknown_sizes() -> None:
    x = data((2, 6, 8))
    Case("reshape", x, shape=(n, m, 2, 4), symbolic={0: {0: "n", 1: "m"}}).check()
    Case("reshape", x, shape=(n * m, 8), symbolic={0: {0: "n", 1: "m"}}).check()
    Case("reshape", x, shape=(n * 48,), symbolic={0: {0: "n"}}).check()
    Case("reshape", x, shape=(n * 2, 24), symbolic={0: {0: "n"}}).check()
    Case("reshape", x, shape=(m, n, 8), symbolic={0: {0: "n", 1: "m"}}).check()
    Case("reshape", x, shape=(8, n // 2, 12), symbolic={0: {0: "n"}}).check()


def test_splitting_one_dimension_leaves_the_others_alone() -> None:
    case = Case("reshape", data((2, 6, 8)), shape=(n, 6, 2, 4), symbolic={0: {0: "n"}})
    case.check()
    assert Case("reshape", data((2, 6)), shape=(2, 6)).kind == "elementwise"


def test_transpose() -> None:
    for axes in itertools.permutations(range(3)):
        Case("transpose", data((2, 3, 4)), axes=axes, symbolic={0: {1: "n"}}).check()
    Case("transpose", data((2, 3, 4))).check()
    Case("transpose", data((2, 3, 4)), axes=(-1, 0, -2)).check()


def test_dimensions_of_one() -> None:
    Case("expand_dims", data((2, 3)), axes=(0, -1), symbolic={0: {0: "n"}}).check()
    Case("expand_dims", data(()), axes=(0,)).check()
    Case("squeeze", data((1, 2, 1, 3)), axes=(0, -2), symbolic={0: {1: "n"}}).check()
    Case("squeeze", data((1, 2, 1)), axes=None).check()
    Case("broadcast_to", data((3, 1)), shape=(2, 3, 4)).check()
    Case("broadcast_to", data((3, 1)), shape=(n * 2, n, 4), symbolic={0: {0: "n"}}).check()
    Case("broadcast_to", data((3, 4)), shape=(2, 1, 1)).check()


def test_concat() -> None:
    xs = [data((2, k, 3)) for k in (1, 4, 2)]
    Case("concat", *xs, axis=1, symbolic={k: {0: "n"} for k in range(3)}).check()
    Case("concat", *xs, axis=-2, symbolic={0: {1: "n"}, 2: {1: "m"}}).check()
    Case("concat", xs[0], axis=0).check()


SLICES: list[dict[str, Any]] = [
    {"axes": (0,), "begin": (1,), "end": (4,)},
    {"axes": (1, 0), "begin": (0, 1), "end": (7, 5), "strides": (3, 2)},
    {"axes": (1,), "begin": (6,), "end": (-1,), "strides": (-1,)},
    {"axes": (1, 0), "begin": (5, 4), "end": (1, -1), "strides": (-2, -4)},
    {"axes": (0,), "begin": (2,), "end": (2,)},
]


@pytest.mark.parametrize("attrs", SLICES)
def test_strided_slice(attrs: dict[str, Any]) -> None:
    Case("strided_slice", data((5, 7)), **attrs).check()
    Case("strided_slice", data((5, 7, 2)), symbolic={0: {2: "n"}}, **attrs).check()


def test_slices_with_unknown_ends() -> None:
    both = {0: {0: "n", 1: "m"}}
    x = data((5, 7))
    Case("strided_slice", x, axes=(0, 1), begin=(1, 2), end=(n, m - 1), symbolic=both).check()
    Case(
        "strided_slice", x, axes=(1,), begin=(m - 1,), end=(-1,), strides=(-2,), symbolic=both
    ).check()
    Case("flip", x, axes=(0, -1), symbolic=both).check()


def test_pad() -> None:
    x = data((4, 5))
    for mode in ("constant", "reflect", "edge", "wrap"):
        for pads in ((1, 2, 3, 1), (0, 2, 0, 0), (-1, 0, 2, -2), (0, 0, 0, 0)):
            Case("pad", x, pads=pads, mode=mode, value=1.5).check()
            Case("pad", x, pads=pads, mode=mode, value=-1.0, symbolic={0: {0: "n", 1: "m"}}).check()
    Case("pad", x, pads=(5, 9, 6, 7), mode="reflect").check()
    Case("pad", x, pads=(5, 9, 6, 7), mode="wrap").check()
    Case("pad", data((1, 3)), pads=(2, 0, 1, 0), mode="reflect").check()
    Case("pad", data((4, 5), "int8"), pads=(1, 2, 3, 1), value=-7.0).check()
    Case("pad", x, pads=(n, 0, 1, n + 1), symbolic={0: {0: "n"}}).check()


def test_tile() -> None:
    Case("tile", data((2, 3)), repeats=(2, 3), symbolic={0: {0: "n"}}).check()
    Case("tile", data((2, 3)), repeats=(1, n), symbolic={0: {0: "n"}}).check()


def test_gather() -> None:
    x = data((4, 5, 3))
    indices = np.array([[0, -1, 2], [3, 1, -4]], np.int64)
    for axis in (0, 1, -1):
        own = np.clip(indices, -3, 2) if axis == -1 else indices
        for dtype in (np.int64, np.int32):
            Case(
                "gather", x, own.astype(dtype), axis=axis, symbolic={0: {0: "n"}, 1: {1: "m"}}
            ).check()
    Case("gather", x, np.array(2, np.int64), axis=1).check()
    Case("gather", data((7,), "bool"), indices, axis=0).check()


def test_indices_outside_never_read_outside() -> None:
    Case("gather", data((4, 2)), np.array([99, -99], np.int64)).check()


def test_gather_elements_and_nd() -> None:
    x = data((3, 4, 2))
    for axis in (0, 1, 2):
        Case(
            "gather_elements",
            x,
            data((2, 3, 2), "int64", -x.shape[axis], x.shape[axis] - 1),
            axis=axis,
        ).check()
    rows = np.array([[0, 1], [2, -1], [1, 3]], np.int64)
    Case("gather_nd", x, rows, symbolic={0: {0: "n"}, 1: {0: "m"}}).check()
    Case("gather_nd", x, data((2, 2, 3), "int64", 0, 1)).check()
    Case("gather_nd", x, data((3, 2, 1), "int64", 0, 3), batch_dims=1).check()
    Case("gather_nd", x, data((3, 1), "int64", 0, 3), batch_dims=1).check()


def test_one_hot() -> None:
    indices = np.array([[0, 2, -1], [9, -4, 1]], np.int64)
    for axis in (0, 1, -1):
        Case("one_hot", indices, depth=4, axis=axis).check()
    Case("one_hot", indices, depth=4, on_value=5, off_value=-2, dtype="int8").check()
    Case("one_hot", indices, depth=n, symbolic={0: {0: "n"}}).check()


def test_blocks_of_pixels() -> None:
    for mode in ("DCR", "CRD"):
        Case(
            "depth_to_space",
            data((2, 12, 2, 3)),
            block=2,
            mode=mode,
            symbolic={0: {0: "n", 2: "m"}},
        ).check()
        Case(
            "space_to_depth", data((2, 3, 4, 6)), block=2, mode=mode, symbolic={0: {0: "n", 3: "m"}}
        ).check()


def test_diagonals() -> None:
    Case("diagonal", data((3, 3)), axes=(0, 1)).check()
    Case("diagonal", data((2, 4, 3, 4)), axes=(1, -1)).check()
    Case("diagonal", data((4, 3, 2, 4)), axes=(3, 0), symbolic={0: {0: "n", 3: "n"}}).check()


def test_triangles() -> None:
    for upper in (True, False):
        for k in (-2, 0, 1, 9):
            Case("trilu", data((2, 4, 5)), k=k, upper=upper, symbolic={0: {0: "n", 1: "m"}}).check()


def test_creation() -> None:
    for dtype in ("float32", "int64", "bool", "float16"):
        Case("full", shape=(2, 3), value=1, dtype=dtype).check()
        Case("full", shape=(), value=0, dtype=dtype).check()
    Case("full", shape=(2,), value=(1 << 53) + 1, dtype="int64").check()
    Case("full", shape=(2,), value=float("-inf")).check()
    Case("arange", count=5).check()
    Case("arange", start=2, step=-3, count=5, dtype="int32").check()
    Case("arange", start=0.5, step=0.25, count=4, dtype="float32").check()
    Case("eye", rows=3, columns=4, k=1).check()
    Case("eye", rows=3, columns=3, k=-1, dtype="int32").check()


REDUCTIONS = ("none", "add", "mul", "min", "max")


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_scatter(reduction: str) -> None:
    x = data((4, 5))
    for axis in (0, 1):
        indices = data((3, 4), "int64", -4, 3)
        for dtype in ("float32", "int32", "float16"):
            Case(
                "scatter_elements", data((4, 5), dtype), indices, data((3, 4), dtype),
                axis=axis, reduction=reduction,
            ).check()  # fmt: skip
    rows = np.array([[0, 1], [2, -1], [0, 1]], np.int64)
    Case("scatter_nd", x, rows, data((3,)), reduction=reduction, symbolic={0: {0: "n"}}).check()
    Case(
        "scatter_nd",
        x,
        rows[:, :1],
        data((3, 5)),
        reduction=reduction,
        symbolic={1: {0: "n"}, 2: {0: "n"}},
    ).check()
    Case("scatter_nd", x, rows[0], data(()), reduction=reduction).check()
    Case("scatter_nd", x, rows.reshape(1, 3, 2), data((1, 3)), reduction=reduction).check()


def test_topk() -> None:
    for axis in (0, 1, -1):
        for largest in (True, False):
            for dtype in ("float32", "int32", "uint8"):
                Case("topk", data((5, 6), dtype), k=3, axis=axis, largest=largest).check()
    Case("topk", data((5, 6)), k=6, symbolic={0: {0: "n", 1: "m"}}).check()


COORDINATES = (
    "half_pixel",
    "asymmetric",
    "align_corners",
    "pytorch_half_pixel",
    "half_pixel_symmetric",
)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("sizes", [(1, 2, 8, 10), (1, 2, 2, 3), (1, 2, 7, 1), (1, 2, 12, 5)])
def test_resize(sizes: tuple[int, ...], coordinates: str) -> None:
    x = data((1, 2, 4, 5))
    for how in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"):
        Case("resize", x, sizes=sizes, coordinate_mode=coordinates, nearest_mode=how).check()
    for mode in ("linear", "cubic"):
        for exclude in (False, True):
            Case(
                "resize",
                x,
                sizes=sizes,
                mode=mode,
                coordinate_mode=coordinates,
                exclude_outside=exclude,
            ).check(1e-4)


def test_resize_by_scales_and_by_unknown_sizes() -> None:
    x = data((1, 2, 4, 5))
    scales = (1.0, 1.0, 1.6, 0.5)
    for mode in ("nearest", "linear", "cubic"):
        Case("resize", x, sizes=(1, 2, 6, 2), scales=scales, mode=mode).check(1e-4)
        Case("resize", x, sizes=(n, 2, 8, m * 2), mode=mode, symbolic={0: {0: "n", 3: "m"}}).check(
            1e-4
        )
        Case("resize", x.astype(np.float16), sizes=(1, 2, 6, 2), scales=scales, mode=mode).check()
    crop: dict[str, Any] = {
        "roi": (0, 0, 0.2, -0.3, 1, 1, 0.7, 1.2),
        "coordinate_mode": "tf_crop_and_resize",
    }
    for mode in ("nearest", "linear", "cubic"):
        Case("resize", x, sizes=(1, 2, 3, 4), mode=mode, extrapolation_value=7.0, **crop).check(
            1e-4
        )
