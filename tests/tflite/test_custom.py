"""Operators that are not TFLite's own and known all the same, beside the kernels of XNNPACK."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from smelt.frontend.tflite import from_tflite
from smelt.ir.errors import ImportFailure, Unsupported
from tests.tflite.build import Oracle, Spec, Step, const, model
from tests.tflite.check import compiled, differences, interpreted

SAME, VALID = 1, 2


def transposed(
    r: np.random.Generator, image: tuple[int, ...], kernel: tuple[int, int],
    strides: tuple[int, int], padding: int, options: bytes | None = None, dtype: str = "float32",
) -> bytes:  # fmt: skip
    """A model of a transposed convolution that adds a bias."""
    batch, *sizes, depth = image
    w, bias = r.normal(size=(3, *kernel, depth)), r.normal(size=3)
    out = [n * s if padding == SAME else (n - 1) * s + k
           for n, s, k in zip(sizes, strides, kernel, strict=True)]  # fmt: skip
    tensors = [
        Spec(image, dtype),
        const(w, dtype),
        const(bias, dtype),
        Spec((batch, *out, 3), dtype),
    ]
    raw = struct.pack("<3i", padding, *strides[::-1]) if options is None else options
    step = Step("Convolution2DTransposeBias", [0, 1, 2], [3], custom=raw)
    return model(tensors, [step], [0], [3])


@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize("seed", range(6))
def test_a_transposed_convolution_with_a_bias(seed: int, padding: int) -> None:
    r = np.random.default_rng(seed)
    batch, height, width, depth = (int(n) for n in r.integers(1, 5, 4))
    kernel, steps = ((int(a), int(b)) for a, b in r.integers(1, 4, (2, 2)))
    kernel = max(kernel[0], steps[0]), max(kernel[1], steps[1])
    content = transposed(r, (batch, height, width, depth), kernel, steps, padding)
    x = r.normal(size=(batch, height, width, depth)).astype("float32")
    (expected,), mod = Oracle(content, delegate=True)(x), from_tflite(content)
    assert not differences(interpreted(mod, x)[0], expected)
    if seed == 0:
        assert not differences(compiled(mod, x)[0], expected)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no options": ({"options": b""}, "options []; legal: 4, 4, padding and two steps of 1 or more"),
    "padding": ({"options": struct.pack("<3i", 7, 1, 1)}, "padding=7\n  supported: 1, 2"),
    "steps": ({"options": struct.pack("<3i", 1, 0, 1)}, "options [1, 0, 1]; legal: 4, 4, padding"),
    "type": ({"dtype": "float64"}, "products of float64 and float64\n  supported: float32"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused(name: str) -> None:
    more, text = BAD[name]
    content = transposed(np.random.default_rng(0), (1, 2, 2, 2), (2, 2), (2, 2), SAME, **more)
    with pytest.raises((Unsupported, ImportFailure)) as e:
        from_tflite(content)
    assert "custom.Convolution2DTransposeBias" in str(e.value)
    assert text in str(e.value)
