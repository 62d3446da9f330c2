import itertools
from typing import Any

import numpy as np
import pytest

from .cases import Case, data


@pytest.mark.parametrize(("a", "b"), [
    ((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (6, 4, 5)),
    ((3, 4), (2, 4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4,)),
    ((4,), (2, 4, 5)), ((1, 3, 4), (2, 4, 5)),
])  # fmt: skip
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    for dtype in ("float32", "float16", "bfloat16", "int32", "float64"):
        Case("matmul", data(a, dtype), data(b, dtype)).check()


def test_matmul_transposed() -> None:
    for ta, tb in itertools.product((False, True), repeat=2):
        a = data((2, 4, 3) if ta else (2, 3, 4))
        b = data((5, 4) if tb else (4, 5))
        Case("matmul", a, b, transpose_a=ta, transpose_b=tb, symbolic={0: {0: "n"}}).check()
        one = Case("matmul", a, data((*b.shape,)), transpose_a=ta, transpose_b=tb)
        one.check()
    Case("matmul", data((4, 3)), data((4,)), transpose_a=True, transpose_b=True).check()


def test_matmul_of_unknown_sizes() -> None:
    both = {0: {0: "n", 1: "m"}, 1: {0: "m", 1: "s"}}
    Case("matmul", data((3, 4)), data((4, 5)), symbolic=both).check()
    Case("matmul", data((2, 3, 4)), data((4, 5)), symbolic={0: {0: "n", 1: "m"}}).check()


def test_matmul_of_whole_shapes_reads_the_second_operand_without_the_batch() -> None:
    case = Case("matmul", data((2, 3, 4)), data((4, 5)))
    assert case.kind == "contraction"


CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 3, 6, 5), (4, 3, 3, 3), {}),
    ((2, 3, 6, 5), (4, 3, 3, 2), {"strides": (2, 1), "pads": (1, 0, 1, 2)}),
    ((1, 4, 7, 7), (6, 2, 3, 3), {"groups": 2, "pads": (1, 1, 1, 1)}),
    ((1, 4, 7, 7), (4, 1, 3, 3), {"groups": 4, "pads": (1, 1, 1, 1), "strides": (2, 2)}),
    ((1, 4, 7, 7), (8, 1, 3, 3), {"groups": 4}),
    ((1, 2, 9, 9), (3, 2, 3, 3), {"dilations": (2, 3), "pads": (2, 1, 0, 3)}),
    ((2, 8, 4, 4), (5, 8, 1, 1), {}),
]


@pytest.mark.parametrize(("x", "w", "attrs"), CONVOLUTIONS)
def test_conv2d(x: tuple[int, ...], w: tuple[int, ...], attrs: dict[str, Any]) -> None:
    for dtype in ("float32", "float16", "int32"):
        Case("conv2d", data(x, dtype), data(w, dtype), **attrs).check()
    Case("conv2d", data(x), data(w), symbolic={0: {0: "n", 2: "s", 3: "t"}}, **attrs).check()


def test_conv1d_and_conv3d() -> None:
    Case("conv1d", data((2, 3, 9)), data((4, 3, 3)), strides=(2,), pads=(1, 2)).check()
    Case("conv1d", data((2, 4, 9)), data((4, 1, 3)), groups=4, dilations=(2,)).check()
    Case("conv3d", data((1, 2, 4, 5, 4)), data((3, 2, 2, 3, 2)), pads=(1, 0, 1, 0, 1, 1)).check()
    Case(
        "conv3d", data((1, 2, 4, 5, 4)), data((2, 1, 2, 2, 2)), groups=2, strides=(2, 1, 2)
    ).check()


TRANSPOSED: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 3, 4), (3, 2, 3), {}),
    (
        (1, 3, 4, 5),
        (3, 2, 3, 3),
        {"strides": (2, 2), "pads": (1, 1, 1, 1), "output_padding": (1, 1)},
    ),
    ((2, 4, 3, 3), (4, 2, 2, 2), {"strides": (2, 3), "groups": 2}),
    ((1, 4, 3, 3), (4, 1, 3, 3), {"strides": (2, 2), "groups": 4}),
    ((1, 2, 4, 4), (2, 3, 3, 3), {"dilations": (2, 1), "pads": (0, 1, 2, 1)}),
    ((1, 2, 2, 3, 2), (2, 2, 2, 2, 2), {"strides": (2, 1, 2)}),
    ((1, 2, 4, 4), (2, 3, 1, 1), {"strides": (2, 2)}),
    ((1, 2, 4, 4), (2, 3, 2, 2), {"pads": (1, 1, 1, 1)}),
    ((1, 2, 0), (2, 3, 3), {"strides": (2,), "dilations": (2,)}),
]


@pytest.mark.parametrize(("x", "w", "attrs"), TRANSPOSED)
def test_conv_transpose(x: tuple[int, ...], w: tuple[int, ...], attrs: dict[str, Any]) -> None:
    Case("conv_transpose", data(x), data(w), **attrs).check()
    Case("conv_transpose", data(x), data(w), symbolic={0: {0: "n", 2: "s"}}, **attrs).check()


POOLS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 2, 6, 5), {"kernel": (3, 2)}),
    ((2, 3, 7, 7), {"kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}),
    ((1, 2, 7), {"kernel": (3,), "strides": (2,), "pads": (0, 1)}),
    ((1, 1, 4, 5, 4), {"kernel": (2, 2, 2), "strides": (2, 1, 2), "pads": (0, 1, 0, 1, 0, 1)}),
    ((1, 1, 9, 9), {"kernel": (3, 2), "dilations": (2, 3), "pads": (2, 1, 1, 2)}),
]


@pytest.mark.parametrize(("x", "attrs"), POOLS)
def test_pooling(x: tuple[int, ...], attrs: dict[str, Any]) -> None:
    unknown = {0: {0: "n", 2: "s"}}
    for dtype in ("float32", "float16", "int8", "uint8"):
        Case("max_pool", data(x, dtype, -9, -1), **attrs).check()
    Case("max_pool", data(x), symbolic=unknown, **attrs).check()
    for include in (False, True):
        for dtype in ("float32", "float16", "int32"):
            Case("avg_pool", data(x, dtype), count_include_pad=include, **attrs).check()
        Case("avg_pool", data(x), count_include_pad=include, symbolic=unknown, **attrs).check()


def test_normalisation_by_channel() -> None:
    vectors = [data((4,), low=0.5), data((4,)), data((4,)) + 1, data((4,), low=0.5)]
    for shape in ((2, 4, 3, 5), (3, 4), (2, 4, 6)):
        Case("batch_norm", data(shape), *vectors, epsilon=1e-3, symbolic={0: {0: "n"}}).check()
    for dtype in ("float32", "float16"):
        x, scale, bias = data((2, 4, 3, 5), dtype), data((4,), dtype), data((4,), dtype) + 1
        Case("instance_norm", x, scale, bias, symbolic={0: {0: "n", 2: "s"}}).check()
        for groups in (1, 2, 4):
            Case("group_norm", x, scale, bias, groups=groups, symbolic={0: {0: "n"}}).check()


def test_normalisation_of_rows() -> None:
    for dtype in ("float32", "float16", "float64", "bfloat16"):
        x = data((2, 3, 8), dtype, 1, 5)
        Case(
            "layer_norm", x, data((8,), dtype), data((8,), dtype), symbolic={0: {0: "n", 1: "m"}}
        ).check()
        Case("layer_norm", x, data((3, 8), dtype), None, axis=1, epsilon=1e-3).check()
        Case("layer_norm", x, data((3, 1), dtype), None, axis=1).check()
        Case("rms_norm", x, data((8,), dtype), symbolic={0: {1: "m"}}).check()
        Case("rms_norm", x, data((3, 8), dtype), axis=-2, epsilon=1e-6).check()


def test_the_variance_of_large_numbers_is_exact() -> None:
    x = (data((2, 16)) + 10000).astype(np.float32)
    one = np.ones(16, np.float32)
    got = Case("layer_norm", x, one, None).numpy()[0]
    wide = x.astype(np.float64)
    want = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(got, want, atol=2e-3)
    Case("layer_norm", x, one, None).check(2e-3)


def test_lrn_and_lp_norm() -> None:
    for size in (1, 3, 4, 5):
        Case("lrn", data((2, 6, 3, 2)), size=size, alpha=0.1, symbolic={0: {0: "n"}}).check()
    x = data((3, 4))
    x[1] = 0
    for p in (1, 2):
        for axis in (0, 1):
            Case("lp_norm", x, axis=axis, p=p).check()


def test_attention() -> None:
    q, k, v = data((2, 2, 3, 4)), data((2, 2, 5, 4)), data((2, 2, 5, 6))
    sizes = {0: {0: "n", 2: "s"}, 1: {0: "n", 2: "t"}, 2: {0: "n", 2: "t"}}
    Case("attention", q, k, v, None, scale=0.5, symbolic=sizes).check()
    Case("attention", q, k, v, data((2, 1, 1, 5), "float32", -9, 0), scale=0.5).check()
    Case("attention", q, k, v, np.arange(5) < np.arange(1, 4)[:, None], scale=0.5).check()
    half = [t.astype(np.float16) for t in (q, k, v)]
    Case("attention", *half, None, scale=0.5).check()
