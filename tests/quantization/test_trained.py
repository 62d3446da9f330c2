"""Trained models in floats, quantized here, beside their makers' int8 forms: same pictures.

They are looked for in the folder that SMELT_MODELS names, or in build/models.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tflite
from PIL import Image
from sklearn.datasets import load_sample_images

import smelt

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("SMELT_MODELS", ROOT / "build" / "models"))
FOUND = {p.stem: p for p in FOLDER.glob("**/*.tflite")}
MODELS = {"ic": (32, 1.0), "vww": (96, 1 / 255)}
"""The size of pictures, and what their bytes are multiplied by."""


@cache
def pictures(size: int) -> np.ndarray:
    """Parts of photographs, of all sizes."""
    rng = np.random.default_rng(0)
    found = []
    photos = load_sample_images().images
    for n in range(240):
        photo = photos[n % 2]
        side = int(rng.integers(size, min(photo.shape[:2])))
        y, x = (int(rng.integers(0, n - side + 1)) for n in photo.shape[:2])
        part = Image.fromarray(photo[y : y + side, x : x + side])
        found.append(np.asarray(part.resize((size, size), Image.Resampling.BILINEAR)))
    return np.stack(found)


def theirs(path: Path, data: np.ndarray) -> np.ndarray:
    """The results of a model whose input and result are quantized, as floats."""
    graph = tflite.Model.GetRootAsModel(path.read_bytes(), 0).Subgraphs(0)

    def numbers(at: int) -> tuple[float, int]:
        q: Any = graph.Tensors(at).Quantization()
        return q.Scale(0), q.ZeroPoint(0)

    (s, z), (out, zero) = numbers(graph.Inputs(0)), numbers(graph.Outputs(0))
    exe = smelt.compile(str(path))
    bytes_ = np.clip(np.round(data / s) + z, -128, 127).astype("int8")
    made = [exe(x[None]).numpy()[0].astype("float32") for x in bytes_]
    return np.asarray((np.array(made) - zero) * out)


@pytest.mark.skipif(not FOUND, reason=f"no trained models in {FOLDER} (SMELT_MODELS)")
@pytest.mark.parametrize("method", ["minmax", "mse"])
@pytest.mark.parametrize("name", MODELS)
def test_nearer_to_the_floats_than_the_makers_form(name: str, method: str) -> None:
    size, factor = MODELS[name]
    data = (pictures(size) * factor).astype("float32")
    seen, unseen = data[:100], data[100:]
    path = str(FOUND[f"{name}_f32"])
    made = smelt.quantize(path, seen, method=method)
    floats, exe = smelt.compile(path), smelt.compile(made.mod)
    a, b = (np.array([e(x[None]).numpy()[0] for x in unseen]) for e in (floats, exe))
    c = theirs(FOUND[f"{name}_int8"], unseen)

    def agree(other: np.ndarray) -> float:
        return float(np.mean(a.argmax(1) == other.argmax(1)))

    assert made.report.quantized == len(made.report.layers)
    assert agree(b) >= max(agree(c), 0.95)
    assert np.linalg.norm(a - b) < np.linalg.norm(a - c)
