"""Encoded pictures as arrays of pixels, read by Pillow where it is installed."""

from __future__ import annotations

import importlib.util
import io

import numpy as np

from smelt.runtime.errors import InputError, LoadError, nearest

PIXEL_FORMATS = ("RGB", "BGR", "Grayscale")


def decode(data: np.ndarray, pixel_format: str = "RGB") -> np.ndarray:
    """The pixels of an encoded picture: JPEG, JPEG 2000, PNG, BMP, TIFF, WebP or PNM.

    Shapes   data [n] uint8, the bytes of a file; result [h, w, c] uint8, c = 1 for "Grayscale",
             else 3 in the order that the format names
    Errors   InputError where the bytes are no picture or an argument is wrong, LoadError where
             Pillow is missing
    Source   ONNX ImageDecoder-20
    """
    if pixel_format not in PIXEL_FORMATS:
        legal = ", ".join(PIXEL_FORMATS)
        near = nearest(pixel_format, PIXEL_FORMATS)
        raise InputError(f"pixel_format={pixel_format!r}; legal: {legal}{near}")
    if data.ndim != 1 or data.dtype != np.uint8:
        raise InputError(
            f"an encoded picture is a vector of uint8; got {data.dtype} of shape {data.shape}"
        )
    if importlib.util.find_spec("PIL") is None:
        raise LoadError("pictures are decoded by Pillow, which is missing: pip install pillow")
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415

    try:
        with Image.open(io.BytesIO(data.tobytes())) as picture:
            if pixel_format == "Grayscale":
                return np.asarray(picture.convert("L"))[:, :, None]
            pixels = np.asarray(picture.convert("RGB"))
    except UnidentifiedImageError as e:
        raise InputError(f"the {data.size} bytes are no picture that Pillow can read") from e
    except OSError as e:
        raise InputError(f"the picture in {data.size} bytes is damaged: {e}") from e
    return pixels if pixel_format == "RGB" else np.ascontiguousarray(pixels[:, :, ::-1])
