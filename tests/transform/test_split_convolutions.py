"""Transposed convolutions become plain ones; those of single pixels move by one of what stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smelt.ir.expr import INDEX, Var
from smelt.relax.interpret import interpret
from smelt.relax.transform import split_convolutions

from .graphs import assert_same, call, const, module, num, ops_of, var


def transposed(
    kernel: tuple[int, int], stride: int, pads: tuple[int, ...] = (0,) * 4, extra: int = 0,
    **attrs: Any,
) -> Any:  # fmt: skip
    x = var("x", 2, 3, 5, 6)
    w = const(3, 4, *kernel)
    how = {"strides": (stride,) * 2, "pads": pads, "output_padding": (extra,) * 2} | attrs
    return module([x], call("conv_transpose", x, w, **how))


@pytest.mark.parametrize(
    ("kernel", "stride", "pads", "extra", "convs"),
    [
        ((2, 2), 2, (0, 0, 0, 0), 0, 1),
        ((4, 4), 4, (0, 0, 0, 0), 0, 1),
        ((4, 4), 2, (1, 1, 1, 1), 0, 4),
        ((3, 3), 2, (1, 1, 1, 1), 1, 4),
        ((3, 3), 2, (1, 1, 1, 1), 0, 4),
        ((3, 3), 2, (0, 0, 0, 0), 0, 4),
        ((5, 4), 2, (2, 1, 2, 1), 1, 4),
        ((5, 2), 2, (2, 0, 1, 1), 0, 4),
        ((8, 8), 4, (2, 2, 2, 2), 0, 4),
        ((16, 16), 8, (4, 4, 4, 4), 0, 4),
        ((3, 3), 3, (0, 0, 0, 0), 0, 1),
        ((4, 5), 3, (1, 1, 0, 1), 0, 9),
        ((3, 3), 1, (1, 1, 1, 1), 0, 1),
        ((3, 4), 1, (0, 0, 0, 0), 0, 1),
        ((4, 4), 2, (0, 1, 2, 0), 0, 4),
    ],
)
def test_phases(
    kernel: tuple[int, int], stride: int, pads: tuple[int, ...], extra: int, convs: int
) -> None:
    before = transposed(kernel, stride, pads, extra)
    after = split_convolutions(before)
    found = ops_of(after)
    assert found["conv2d"] == convs
    assert "conv_transpose" not in found
    assert_same(before, after)


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize(
    ("taps", "stride", "pads", "extra", "parts"),
    [(2, 2, (0, 0), 0, 1), (4, 2, (1, 1), 0, 2), (3, 2, (1, 0), 0, 2), (8, 4, (2, 2), 0, 2),
     (3, 1, (1, 1), 0, 1), (16, 8, (4, 4), 0, 2), (5, 3, (1, 0), 1, 3)],
)  # fmt: skip
def test_phases_of_other_dimensions(
    rank: int, taps: int, stride: int, pads: tuple[int, int], extra: int, parts: int
) -> None:
    """Lines, and rooms; of 27 convolutions none is made."""
    x, w = var("x", 2, 3, *range(4, 4 + rank)), const(3, 2, *[taps] * rank)
    around = tuple([p for p in pads for _ in range(rank)])
    y = call("conv_transpose", x, w, strides=(stride,) * rank, pads=around,
             output_padding=(extra,) * rank)  # fmt: skip
    before = module([x], y)
    after = split_convolutions(before)
    convs = parts**rank
    assert ops_of(after).get(f"conv{rank}d", 0) == (convs if convs <= 16 else 0)
    assert ops_of(after).get("conv_transpose", 0) == (convs > 16)
    assert_same(before, after)


def test_sizes_known_at_run_time() -> None:
    x = var("x", *[Var(n, INDEX) if isinstance(n, str) else n for n in ("n", 3, "h", "w")])
    y = call("conv_transpose", x, const(3, 4, 3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    before = module([x], y)
    after = split_convolutions(before)
    assert ops_of(after)["conv2d"] == 4
    assert after["main"].body.type is before["main"].body.type
    assert_same(before, after)


@pytest.mark.parametrize(
    "before",
    [
        transposed((2, 2), 3),  # phases without a term
        transposed((5, 5), 5, (3, 3, 3, 3)),  # 25 convolutions
        transposed((3, 3), 1, (3, 3, 0, 0)),  # cut by more than a border
        transposed((4, 4), 2, (0, 3, 2, 0)),
        transposed((3, 3), 2, dilations=(2, 2)),
        transposed((4, 4), 2, strides=(2, 1)),
    ],
)
def test_what_stays(before: Any) -> None:
    assert split_convolutions(before) is before


def test_infinities_stay_where_they_are() -> None:
    before = transposed((4, 4), 2, (1, 1, 1, 1))
    x = np.zeros((2, 3, 5, 6), np.float32)
    x[0, 1, 2, 3] = np.inf
    a, b = (interpret(m["main"], x) for m in (before, split_convolutions(before)))
    assert np.array_equal(np.isfinite(a), np.isfinite(b))


def test_weights_given_at_run_time_and_integers_stay() -> None:
    x, w = var("x", 1, 3, 4, 4), var("w", 3, 2, 2, 2)
    assert ops_of(split_convolutions(module([x, w], call("conv_transpose", x, w, strides=(2, 2)))))[
        "conv_transpose"
    ]
    i = var("i", 1, 3, 4, 4, dtype="int32")
    y = call("conv_transpose", i, num(2, 3, 2, 2, 2, dtype="int32"), strides=(2, 2))
    assert ops_of(split_convolutions(module([i], y)))["conv_transpose"]


def of_pixels(*strides: int, side: int = 1, groups: int = 1, height: Any = 5, **attrs: Any) -> Any:
    x, w = var("x", 2, 4, height, 6), const(6, 4 // groups, side, side)
    return module([x], call("conv2d", x, w, strides=strides, groups=groups, **attrs))


@pytest.mark.parametrize("strides", [(2, 2), (3, 1), (1, 4)])
@pytest.mark.parametrize("groups", [1, 2])
def test_single_pixels_that_stay(strides: tuple[int, int], groups: int) -> None:
    before = of_pixels(*strides, groups=groups)
    after = split_convolutions(before)
    assert ops_of(after) == {"strided_slice": 1, "conv2d": 1}
    assert after["main"].body.type is before["main"].body.type
    assert_same(before, after)


@pytest.mark.parametrize(
    "before",
    [
        of_pixels(1, 1),
        of_pixels(2, 2, side=3),
        of_pixels(2, 2, pads=(1, 0, 0, 0)),
        of_pixels(2, 2, height=Var("h", INDEX)),
    ],
)
def test_other_windows_stay(before: Any) -> None:
    assert split_convolutions(before) is before
