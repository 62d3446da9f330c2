"""Morphological dilation, correlation of images, planes of bits, and what is composed of them."""

from typing import Any

import numpy as np
import pytest

from .cases import Array, Case, close, data, label

DILATED: list[tuple[Array, tuple[int, int, int], dict[str, Any]]] = [
    (data((2, 3, 6, 7)), (3, 3, 2), {}),
    (data((1, 2, 7, 7)), (2, 3, 3), {"strides": (2, 1), "pads": (1, 0, 2, 1)}),
    (data((1, 2, 7, 7)), (2, 2, 3), {"dilations": (3, 2), "pads": (1, 1, 1, 1)}),
]


@pytest.mark.parametrize(("x", "w", "attrs"), DILATED, ids=label)
def test_dilation2d(x: Array, w: tuple[int, int, int], attrs: dict[str, Any]) -> None:
    Case("dilation2d", x, data(w), **attrs).check()
    Case("dilation2d", x, data(w), **attrs).check_native()
    for dtype in ("float16", "int32"):
        Case("dilation2d", x.astype(dtype), data(w, dtype), **attrs).check()
    Case("dilation2d", x, data(w), symbolic={0: {0: "n", 2: "m"}}, **attrs).check()


def test_dilation_by_nothing_is_a_largest_element() -> None:
    x = data((1, 2, 7, 7))
    attrs: dict[str, Any] = {"strides": (2, 2), "pads": (1, 1, 1, 1)}
    case = Case("dilation2d", x, np.zeros((2, 3, 3), np.float32), **attrs)
    close(case.numpy()[0], Case("max_pool", x, kernel=(3, 3), **attrs).numpy()[0])


CORRELATED: list[dict[str, Any]] = [
    {}, {"kernel_size": 3, "max_displacement": 2, "stride2": 2, "pads": (2, 2, 2, 2)},
    {"max_displacement": 3, "stride1": 2, "pads": (3, 1, 4, 3), "is_multiply": False},
]  # fmt: skip


@pytest.mark.parametrize("attrs", CORRELATED, ids=label)
def test_correlation(attrs: dict[str, Any]) -> None:
    a, b = data((2, 3, 9, 8)), data((2, 3, 9, 8)) ** 2
    Case("correlation", a, b, **attrs).check(1e-4)
    Case("correlation", a, b, **attrs).check_native(1e-4)
    Case("correlation", a.astype("float16"), b.astype("float16"), **attrs).check()


def test_correlation_with_itself_at_rest_is_the_mean_square() -> None:
    a = data((1, 4, 5, 5))
    found = Case("correlation", a, a, max_displacement=1).numpy()[0]
    close(found[:, 4], (a**2).mean(1)[:, 1:-1, 1:-1], 1e-5)


@pytest.mark.parametrize("word", ["uint8", "uint16", "uint32", "uint64"])
def test_bits(word: str) -> None:
    width = np.dtype(word).itemsize * 8
    for dtype, bits in (("uint8", 3), ("int8", 8), ("int32", 2)):
        x = data((2, 2 * width, 3), dtype, -120 if bits == 8 else 0, 120)
        for bit_axis in (0, 1, 3, -1):
            attrs: dict[str, Any] = {"pack_axis": 1, "bit_axis": bit_axis}
            case = Case("bitpack", x, bits=bits, pack_type=word, **attrs)
            case.check()
            packed = case.numpy()[0]
            back = Case("bitunpack", packed, dtype=dtype, **attrs)
            back.check()
            kept = x if bits == 8 else x & ((1 << bits) - 1)
            np.testing.assert_array_equal(back.numpy()[0], kept)
    Case("bitpack", x, bits=2, pack_type=word).check_native()
    Case("bitunpack", packed, dtype="int32", pack_axis=1, bit_axis=-1).check_native()


def test_the_first_element_is_the_highest_bit() -> None:
    x = np.array([[1, 0, 2, 3, 0, 0, 0, 1]], np.int32)
    attrs: dict[str, Any] = {"pack_axis": 1, "bit_axis": 1, "pack_type": "uint8"}
    packed = Case("bitpack", x, bits=2, **attrs).numpy()[0]
    assert packed.tolist() == [[[0b10010001], [0b00110000]]]


@pytest.mark.parametrize("unipolar", [False, True])
def test_products_of_bit_planes_are_products_of_integers(unipolar: bool) -> None:
    """What the bitserial operators compute, by their definition, against dense ones."""
    x, w = data((3, 64), "uint8", 0, 3), data((5, 64), "uint8", 0, 7)
    planes: dict[str, Any] = {"pack_axis": 1, "bit_axis": 1, "pack_type": "uint32"}
    a = Case("bitpack", x, bits=2, **planes).numpy()[0][:, None, :, None]
    b = Case("bitpack", w, bits=3, **planes).numpy()[0][None, :, None]
    ones = np.vectorize(lambda v: int(v).bit_count())
    count = ones(a & b) - (ones(a & ~b) if unipolar else 0)
    places = np.arange(2)[:, None, None] + np.arange(3)[None, :, None]
    want = (count << places).sum((2, 3, 4))
    signed = 2 * w.astype(np.int32) - 7 if unipolar else w.astype(np.int32)
    case = Case("matmul", x.astype(np.int32), signed, transpose_b=True)
    np.testing.assert_array_equal(case.numpy()[0], want)


def test_a_reorganised_image_is_a_space_to_depth() -> None:
    """yolo_reorg by its definition: pixels of an image that is read as a larger one."""
    n, c, h, w, s = 2, 8, 4, 6, 2
    x = data((n, c, h, w))
    flat = x.reshape(n, -1)
    want = np.empty((n, c, h, w), np.float32)
    few = c // s**2
    for k, j, i in np.ndindex(c, h, w):
        row, column = j * s + k // few // s, i * s + k // few % s
        want[:, k, j, i] = flat[:, column + w * s * (row + h * s * (k % few))]
    moved = Case("space_to_depth", x.reshape(n, few, h * s, w * s), block=s).numpy()[0]
    result = moved.reshape(n, c * s * s, h // s, w // s)
    close(result, want.reshape(n, c * s * s, h // s, w // s))
