"""Pictures decoded to pixels."""

from __future__ import annotations

import io

import numpy as np
import pytest

from smelt.runtime.errors import InputError
from smelt.runtime.images import decode

Image = pytest.importorskip("PIL.Image")

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)


def encoded(pixels: np.ndarray, kind: str) -> np.ndarray:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return np.frombuffer(file.getvalue(), np.uint8)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM"])
def test_formats_without_loss_give_the_pixels_back(kind: str) -> None:
    data = encoded(PIXELS, kind)
    np.testing.assert_array_equal(decode(data), PIXELS)
    np.testing.assert_array_equal(decode(data, "BGR"), PIXELS[:, :, ::-1])
    assert decode(data, "BGR").flags.c_contiguous


def test_colours_become_their_brightness() -> None:
    # ITU-R 601-2
    want = PIXELS @ np.array([0.299, 0.587, 0.114])
    found = decode(encoded(PIXELS, "PNG"), "Grayscale")
    assert found.shape == (5, 7, 1)
    assert found.dtype == np.uint8
    np.testing.assert_allclose(found[:, :, 0], want, atol=1)


def test_a_grey_picture_has_three_equal_colours() -> None:
    grey = PIXELS[:, :, 0]
    np.testing.assert_array_equal(decode(encoded(grey, "PNG")), np.stack([grey] * 3, -1))


def test_jpeg_is_near_the_pixels() -> None:
    smooth = np.full((16, 16, 3), (200, 100, 50), np.uint8)
    np.testing.assert_allclose(decode(encoded(smooth, "JPEG")).astype(int), smooth, atol=4)


def test_what_is_no_picture_says_so() -> None:
    good = encoded(PIXELS, "PNG")
    with pytest.raises(InputError, match="the 9 bytes are no picture"):
        decode(np.arange(9, dtype=np.uint8))
    with pytest.raises(InputError, match="damaged"):
        decode(good[: good.size // 2].copy())
    with pytest.raises(InputError, match="vector of uint8; got int64"):
        decode(np.arange(9))
    with pytest.raises(InputError, match="pixel_format='rgb'; legal: RGB, BGR, Grayscale"):
        decode(good, "rgb")
