"""Convolutions and their transposes over their attributes, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt
from smelt.frontend.onnx import from_onnx
from smelt.relax.interpret import interpret

from .many import check_all, joined, one
from .models import model, node, random, reference

IMAGES = {1: random(2, 4, 11), 2: random(2, 4, 7, 8), 3: random(1, 4, 5, 4, 6)}
KERNELS = {1: (3,), 2: (3, 2), 3: (2, 3, 2)}


def each(values: list[int], rank: int) -> list[int]:
    """As many of these numbers as there are dimensions."""
    return (values * 3)[:rank]


def pads(begin: list[int], end: list[int], rank: int) -> list[int]:
    return [*each(begin, rank), *each(end, rank)]


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutions(rank: int, group: int) -> None:
    x, w = IMAGES[rank], random(8, 4 // group, *KERNELS[rank], seed=1)
    several: list[dict[str, Any]] = [
        {},
        {"strides": each([2, 1], rank), "pads": pads([1, 0], [0, 2], rank)},
        {"dilations": each([2, 1], rank), "pads": pads([2, 1], [1, 0], rank)},
        {"strides": each([2, 3], rank), "auto_pad": "SAME_UPPER"},
        {"strides": each([3, 2], rank), "auto_pad": "SAME_LOWER"},
        {"strides": each([2], rank), "auto_pad": "VALID", "kernel_shape": KERNELS[rank]},
    ]
    nodes = [one("Conv", x, w, group=group, **attrs) for attrs in several]
    nodes.append(one("Conv", x, w, random(8, seed=2), group=group))
    check_all(nodes, 18, 1e-5, compiled=rank == 1)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_transposes(rank: int, group: int) -> None:
    x, w = IMAGES[rank], random(4, 3, *KERNELS[rank], seed=1)
    double = {"strides": [2] * rank}
    several: list[dict[str, Any]] = [
        {},
        {**double, "pads": pads([1, 0], [0, 1], rank), "output_padding": each([1, 0], rank)},
        {"dilations": each([2, 1], rank), "strides": each([1, 3], rank)},
        {**double, "auto_pad": "SAME_UPPER"},
        {**double, "auto_pad": "SAME_LOWER"},
        {**double, "auto_pad": "VALID", "kernel_shape": KERNELS[rank]},
        {**double, "output_shape": [2 * e + 1 for e in x.shape[2:]]},
        {**double, "output_shape": [2 * e for e in x.shape[2:]], "auto_pad": "SAME_UPPER"},
        {**double, "output_shape": [2 * e - 1 for e in x.shape[2:]], "auto_pad": "SAME_LOWER"},
    ]
    nodes = [one("ConvTranspose", x, w, group=group, **attrs) for attrs in several]
    nodes.append(one("ConvTranspose", x, w, random(3 * group, seed=2), group=group))
    check_all(nodes, 18, 1e-5, compiled=rank == 1 and group == 2)


@pytest.mark.parametrize("rank", [1, 2])
def test_padding_may_cut(rank: int) -> None:
    x = IMAGES[rank]
    w, back = random(6, 4, *KERNELS[rank], seed=1), random(4, 3, *KERNELS[rank], seed=1)
    begin, end = each([-1, 1], rank), each([1, -2], rank)
    cut: dict[str, Any] = {"pads": [*begin, *end]}
    m, inputs = joined([one("Conv", x, w, strides=[2] * rank, **cut)], 18)
    sides = list(zip(begin, end, strict=True))
    border = [(0, 0), (0, 0), *[(max(b, 0), max(e, 0)) for b, e in sides]]
    image = np.pad(x, border)
    for d, (b, e) in enumerate(sides):
        image = image.take(range(max(-b, 0), image.shape[2 + d] - max(-e, 0)), 2 + d)
    whole, given = joined([one("Conv", image, w, strides=[2] * rank)], 18)
    (found,) = interpret(from_onnx(m)["main"], *inputs.values())
    np.testing.assert_allclose(found, reference(whole, given)[0], atol=1e-5)

    m, inputs = joined([one("ConvTranspose", x, back, strides=[2] * rank, **cut)], 18)
    (found,) = interpret(from_onnx(m)["main"], *inputs.values())
    plain, _ = joined([one("ConvTranspose", x, back, strides=[2] * rank)], 18)
    want = reference(plain, inputs)[0]
    for d, (b, e) in enumerate(sides):
        width = [(0, 0)] * want.ndim
        width[2 + d] = (max(-b, 0), max(-e, 0))
        want = np.pad(want, width)
        want = want.take(range(max(b, 0), want.shape[2 + d] - max(e, 0)), 2 + d)
    np.testing.assert_allclose(found, want, atol=1e-5)


def test_dilated_windows_keep_the_size() -> None:
    for how in ("SAME_UPPER", "SAME_LOWER"):
        attrs: dict[str, Any] = {"auto_pad": how, "dilations": [2, 3], "strides": [2, 1]}
        check_all(
            [one("Conv", IMAGES[2], random(6, 4, 3, 2), **attrs)],
            18,
            1e-5,
            oracle="onnx",
            compiled=False,
        )


@pytest.mark.parametrize("how", ["SAME_UPPER", "SAME_LOWER"])
def test_sizes_may_be_symbolic(how: str) -> None:
    w, back = random(3, 4, 3, 2), random(4, 3, 3, 2)
    attrs: dict[str, Any] = {"auto_pad": how, "strides": [2, 2]}
    pool: dict[str, Any] = {"kernel_shape": [3, 2], **attrs}
    nodes = [
        node("Conv", ["x", "w"], ["a"], **attrs),
        node("ConvTranspose", ["x", "v"], ["b"], **attrs),
        node("MaxPool", ["x"], ["c"], **pool),
        node("AveragePool", ["x"], ["d"], **pool),
        node("AveragePool", ["x"], ["e"], count_include_pad=1, **pool),
        node("LpPool", ["x"], ["f"], **pool),
    ]
    unknown = {"x": ([2, 4, "h", "w"], np.float32)}
    m = model(nodes, unknown, list("abcdef"), {"w": w, "v": back})
    f = from_onnx(m)["main"]
    for x in (IMAGES[2], random(2, 4, 6, 9), random(2, 4, 5, 7)):
        for found, want in zip(interpret(f, x), reference(m, {"x": x}), strict=True):
            np.testing.assert_allclose(found, want, atol=1e-5)
    sized = node("ConvTranspose", ["x", "v"], ["y"], strides=[2, 2], output_shape=[14, 15])
    m = model([sized], unknown, constants={"v": back})
    (found,) = interpret(from_onnx(m)["main"], IMAGES[2])
    np.testing.assert_allclose(found, reference(m, {"x": IMAGES[2]})[0], atol=1e-5)


def test_pools_of_symbolic_sizes_compile() -> None:
    pool: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}
    nodes = [node("MaxPool", ["x"], ["a"], **pool), node("AveragePool", ["x"], ["b"], **pool)]
    m = model(nodes, {"x": ([2, 4, "h", "w"], np.float32)}, ["a", "b"])
    exe = smelt.compile(m, options=smelt.Options(threads=1, workers=0))
    for x in (IMAGES[2], random(2, 4, 6, 9)):
        for found, want in zip(exe(x), reference(m, {"x": x}), strict=True):
            np.testing.assert_allclose(found.numpy(), want, atol=1e-5)
