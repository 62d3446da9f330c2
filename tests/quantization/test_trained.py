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
from smelt.frontend.source import import_floats

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("SMELT_MODELS", ROOT / "build" / "models"))
FOUND = {p.stem: p for p in FOLDER.glob("**/*.tflite")}
PICTURES = {"ic": (32, 1.0), "vww": (96, 1 / 255)}
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


def ends(path: Path) -> list[tuple[float, int]]:
    """Scale and zero point of a model's input and result."""
    graph = tflite.Model.GetRootAsModel(path.read_bytes(), 0).Subgraphs(0)
    found = []
    for at in (graph.Inputs(0), graph.Outputs(0)):
        q: Any = graph.Tensors(at).Quantization()
        found.append((q.Scale(0), q.ZeroPoint(0)))
    return found


def spectra(path: Path) -> np.ndarray:
    """Walks from one row of a spectrogram to the next, in the range that a model is made for."""
    (scale, zero), _ = ends(path)
    low, high = (-128 - zero) * scale, (127 - zero) * scale
    rng = np.random.default_rng(0)
    shape = [int(n) for n in smelt.compile(str(path)).inputs[0].shape[1:]]
    walk = np.cumsum(rng.standard_normal((240, *shape)), axis=1)
    walk = (walk - walk.mean()) / (3 * walk.std())
    return np.asarray(np.clip((low + high) / 2 + walk * (high - low) / 2, low, high), "float32")


def theirs(path: Path, data: np.ndarray) -> np.ndarray:
    """The results of a model whose input and result are quantized, as floats."""
    (s, z), (out, zero) = ends(path)
    exe = smelt.compile(str(path))
    bytes_ = np.clip(np.round(data / s) + z, -128, 127).astype("int8")
    made = [exe(x[None]).numpy()[0].astype("float32") for x in bytes_]
    return np.asarray((np.array(made) - zero) * out)


@pytest.mark.skipif(not FOUND, reason=f"no trained models in {FOLDER} (SMELT_MODELS)")
@pytest.mark.parametrize("method", ["minmax", "mse"])
@pytest.mark.parametrize("name", ["ic", "vww", "kws", "ad"])
def test_nearer_to_the_floats_than_the_makers_form(name: str, method: str) -> None:
    if name in PICTURES:
        size, factor = PICTURES[name]
        data = (pictures(size) * factor).astype("float32")
    else:
        data = spectra(FOUND[f"{name}_int8"])
    seen, unseen = data[:100], data[100:]
    path = str(FOUND[f"{name}_f32"])
    made = smelt.quantize(path, seen, method=method)
    assert made.report.quantized == len(made.report.layers)
    smelt.to_onnx(made.mod)
    a, b = (
        np.array([e(x[None]).numpy()[0] for x in unseen])
        for e in (smelt.compile(import_floats(path)), smelt.compile(made.mod))
    )
    c = theirs(FOUND[f"{name}_int8"], unseen)
    assert np.linalg.norm(a - b) < np.linalg.norm(a - c)
    if name != "ad":  # its result is a spectrum
        ours, makers = (float(np.mean(a.argmax(1) == v.argmax(1))) for v in (b, c))
        assert ours >= max(makers, 0.95)
