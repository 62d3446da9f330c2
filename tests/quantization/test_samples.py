"""Samples that cannot be used: one message each, before anything is computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt.ir.errors import CompileError, SmeltError, Unsupported
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.quantization import Samples
from smelt.relax.nodes import Function, RelaxExpr, Var, call, constant
from smelt.runtime import TensorInfo

X = TensorInfo("x", "float32", (1, 3))
RNG = np.random.default_rng(0)
W = RNG.standard_normal((3, 4)).astype("float32")


def net(shape: tuple[int, ...] = (1, 3), inner: Any = None, w: np.ndarray = W) -> IRModule:
    """A product of one input."""
    x = Var("x", tensor_type(shape, "float32"))
    h: RelaxExpr = x if inner is None else inner(x)
    y = call("matmul", h, constant(w, "w"), name="product")
    return IRModule({"main": Function((x,), y, {"output_names": ("y",)})})


def good(n: int = 4) -> np.ndarray:
    return RNG.standard_normal((n, 1, 3)).astype("float32")


FULL = (1, 3, 16, 16)


def noisy(x: RelaxExpr) -> RelaxExpr:
    return call("reshape", x, shape=(1, 768))


@pytest.mark.parametrize(("data", "said"), [
    ([], "the calibration data: there are no samples in it; one is the least"),
    (np.zeros((0, 1, 3), "float32"),
     "the calibration data: there are no samples in it; one is the least"),
    (np.zeros((4, 1, 5), "float32"),
     "the calibration data: the input 'x' has the shape (4, 1, 5); legal: (1, 3), or many of them: "
     "(N, 1, 3)"),
    (np.zeros((4, 1, 3)),
     "the calibration data: the input 'x' is float64; the model takes float32"),
    ({"y": np.zeros((1, 3), "float32")},
     "the calibration data: nothing for the input 'x'; it has: y"),
    ({"x": np.zeros((1, 3), "float32"), "z": np.zeros(3)},
     "the calibration data: 'z' is no input of the model; inputs: x"),
    ([np.zeros((1, 3), "float32"), np.full((1, 3), np.nan, "float32")],
     "sample 1: the input 'x' holds NaN or infinite numbers; ranges cannot be found"),
    ("missing.npz", "missing.npz: there is no such file or folder"),
    (None, "there is no calibration data: give samples of the model's inputs (data), or quantize "
     "weights alone (activations='float32')"),
])  # fmt: skip
def test_data_that_is_none(data: Any, said: str) -> None:
    with pytest.raises(CompileError) as e:
        smelt.quantize(net(), data)
    assert str(e.value) == said


@pytest.mark.parametrize(("settings", "said"), [
    ({"method": "entropie"}, "method='entropie'; nearest: entropy; legal: minmax, moving-average, "
     "percentile, entropy, mse"),
    ({"activations": "int16"},
     "activations='int16'; nearest: int8, uint8; legal: uint8, int8, float32, dynamic"),
    ({"weights": "int4"}, "weights='int4' with activations='uint8': products of integers take "
     "weights of int8; legal: activations='float32', 'dynamic'"),
    ({"activations": "dynamic"}, "activations='dynamic' with weights='int8' in blocks of 32; "
     "legal: weights='int4', block one of 16, 32, 64, 128, 256"),
    ({"activations": "dynamic", "weights": "int4", "block": 24}, "activations='dynamic' with "
     "weights='int4' in blocks of 24; legal: weights='int4', block one of 16, 32, 64, 128, 256"),
    ({"activations": "dynamic", "weights": "int4"},
     "activations='dynamic': weights alone need no samples (data)"),
    ({"keep": ("produkt",)},
     "keep: the model has no layer 'produkt'; nearest: product; layers: product"),
    ({"smooth": 2.0}, "smooth=2.0; legal: 0 to 1"),
    ({"max_drop": -1.0}, "max_drop=-1.0; legal: 0 and more"),
    ({"samples": 0}, "samples=0; legal: 1 and more"),
    ({"block": 1}, "block=1 means nothing with activations='uint8'"),
    ({"activations": "float32", "block": 1}, "block=1; legal: 2 and more"),
    ({"activations": "float32", "method": "entropy"},
     "method='entropy' means nothing with activations='float32'"),
    ({"activations": "float32", "max_drop": 1.0},
     "max_drop=1.0 means nothing with activations='float32'"),
    ({"activations": "float32"}, "activations='float32': weights alone need no samples (data)"),
    ({"fixed": 4.0}, "fixed=4.0 says what samples (data) are for; legal: one of them"),
])  # fmt: skip
def test_settings_that_are_none(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(CompileError) as e:
        smelt.quantize(net(), good(), **settings)
    assert str(e.value) == said


def dead(x: RelaxExpr) -> RelaxExpr:
    return call("relu", call("add", x, constant(np.full(3, -1000, "float32"))))


def test_values_that_are_constant() -> None:
    with pytest.raises(CompileError) as e:
        smelt.quantize(net(inner=dead), good())
    assert str(e.value) == (
        "the value 'relu' (of product) is 0 in every sample: its scale would be 0; legal: "
        "samples that let it vary, or keep its layers in floats (keep)"
    )


def test_values_that_are_subnormal() -> None:
    with pytest.raises(CompileError, match=r"its scale would be \d.*e-4"):
        smelt.quantize(net(), good() * np.float32(1e-39))


def test_values_that_are_nan() -> None:
    with pytest.raises(CompileError) as e:
        smelt.quantize(net(inner=lambda x: call("log", x)), good())
    assert str(e.value) == (
        "the value 'log' is NaN or infinite for some sample: no range holds it; legal: samples for "
        "which the model gives numbers"
    )


def test_nothing_to_quantize() -> None:
    x = Var("x", tensor_type((1, 3), "float32"))
    mod = IRModule({"main": Function((x,), call("exp", x))})
    with pytest.raises(Unsupported, match="there is nothing to quantize"):
        smelt.quantize(mod, good())


def test_noise_is_told_apart_from_pictures() -> None:
    w = RNG.standard_normal((768, 4)).astype("float32")
    noise = RNG.standard_normal((8, *FULL)).astype("float32")
    smooth = np.cumsum(noise, axis=-1)
    for data, told in ((noise, True), (smooth, False)):
        notes = smelt.quantize(net(FULL, noisy, w), data).report.notes
        assert any("look like noise" in n for n in notes) == told


# ---------------------------------------------------------------------------------------- files


def test_files_and_folders(tmp_path: Path) -> None:
    data = good(5)
    np.save(tmp_path / "many.npy", data)
    np.savez(tmp_path / "many.npz", x=data)
    folder = tmp_path / "folder"
    folder.mkdir()
    for n, d in enumerate(data):
        np.save(folder / f"{n}.npy", d)
    (folder / "notes.txt").write_text("not a sample")
    for given in (tmp_path / "many.npy", str(tmp_path / "many.npz"), folder, data, data[:, 0],
                  list(data), [{"x": d} for d in data], {"x": data}):  # fmt: skip
        found = Samples(given, [X])
        assert len(found) == 5
        assert all(np.array_equal(a["x"], b) for a, b in zip(found, data, strict=True))
        assert len(list(Samples(given, [X], 2))) == 2


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "cut.npz").write_bytes(b"PK\x03\x04hello")
    (tmp_path / "text.txt").write_text("1, 2, 3")
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "cat.png").write_bytes(b"\x89PNG")
    for name, said in (
        ("cut.npz", "cannot be read as arrays of numbers"),
        ("text.txt", "legal: a folder of .npy or .npz files, or one such file"),
        ("empty", "there are no .npy or .npz files in it; it has cat.png; a sample is a file"),
    ):
        with pytest.raises(SmeltError, match=said):
            Samples(tmp_path / name, [X])


def test_inputs_with_different_numbers_of_samples() -> None:
    inputs = [X, TensorInfo("y", "float32", (2,))]
    with pytest.raises(CompileError) as e:
        Samples({"x": good(4), "y": np.zeros((3, 2), "float32")}, inputs)
    assert str(e.value) == (
        "the calibration data: the inputs have different numbers of samples: 'x' 4, 'y' 3"
    )


def test_rows_are_taken_as_many_as_the_model_takes() -> None:
    info = TensorInfo("x", "float32", (4, 3))
    assert len(Samples(np.zeros((8, 3), "float32"), [info])) == 2
    with pytest.raises(CompileError, match="has 9 rows; the model takes 4 at once"):
        Samples(np.zeros((9, 3), "float32"), [info])
    anything = TensorInfo("x", "float32", ("n", 3))
    assert len(Samples(np.zeros((8, 3), "float32"), [anything])) == 8
