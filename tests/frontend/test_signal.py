"""Fourier transforms, sequences, n-grams, training steps and results of normalisations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import smelt
from smelt.frontend.onnx import from_onnx
from smelt.ir.errors import ImportFailure
from smelt.relax.interpret import interpret

from .models import check, model, node, random, reference

WAVE = random(2, 12, 1)
COMPLEX = random(2, 12, 2, seed=1)


def results(
    op: str, *inputs: Any, known: tuple[Any, ...] = (), outputs: int = 1, opset: int = 22,
    **attrs: Any,
) -> list[np.ndarray]:  # fmt: skip
    """The results of one node; `known` operands are initializers, None one that is left out."""
    given, constants, arrays, names = {}, {}, [], []
    for k, x in enumerate((*inputs, *known)):
        names.append("" if x is None else f"x{k}")
        if x is not None and k < len(inputs):
            arrays.append(np.asarray(x))
            given[f"x{k}"] = (arrays[-1].shape, arrays[-1].dtype)
        elif x is not None:
            constants[f"x{k}"] = np.asarray(x)
    ys = [f"y{k}" for k in range(outputs)]
    made = model([node(op, names, ys, **attrs)], given, ys, constants, opset)
    return interpret(from_onnx(made)["main"], *arrays)


def as_parts(z: np.ndarray) -> np.ndarray:
    return np.stack([z.real, z.imag], -1).astype(np.float32)


def as_numbers(x: np.ndarray) -> np.ndarray:
    return x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0]


@pytest.mark.parametrize("length", [None, 9, 16])
@pytest.mark.parametrize("x", [WAVE, COMPLEX], ids=["real", "complex"])
def test_fourier_transforms(x: np.ndarray, length: int | None) -> None:
    n = () if length is None else (np.int64(length),)
    z = as_numbers(x)
    (got,) = results("DFT", x, known=n)
    np.testing.assert_allclose(got, as_parts(np.fft.fft(z, length, 1)), atol=1e-5)
    (got,) = results("DFT", x, known=n, inverse=1)
    np.testing.assert_allclose(got, as_parts(np.fft.ifft(z, length, 1)), atol=1e-5)
    (got,) = results("DFT", x, known=n, opset=17, axis=1)
    np.testing.assert_allclose(got, as_parts(np.fft.fft(z, length, 1)), atol=1e-5)


@pytest.mark.parametrize("length", [12, 11, 20])
def test_halves_of_spectra(length: int) -> None:
    (half,) = results("DFT", WAVE, known=(np.int64(length),), onesided=1)
    want = np.fft.rfft(WAVE[..., 0], length, 1)
    np.testing.assert_allclose(half, as_parts(want), atol=1e-5)
    (back,) = results("DFT", half, known=(np.int64(length),), onesided=1, inverse=1)
    np.testing.assert_allclose(back[..., 0], np.fft.irfft(want, length, 1), atol=1e-5)


def test_wrong_transforms() -> None:
    with pytest.raises(ImportFailure, match="axis=2 is the dimension of real and imaginary"):
        results("DFT", WAVE, known=(None, np.int64(-1)))
    with pytest.raises(ImportFailure, match="onesided=1 needs a real signal"):
        results("DFT", COMPLEX, onesided=1)


def frames(x: np.ndarray, window: np.ndarray, step: int) -> np.ndarray:
    n = window.size
    starts = range(0, x.shape[1] - n + 1, step)
    return np.stack([x[:, s : s + n] * window for s in starts], 1)


def test_short_transforms() -> None:
    window = np.hanning(5).astype(np.float32)
    operands = (np.int64(3), window)
    (got,) = results("STFT", WAVE, known=operands)
    want = np.fft.rfft(frames(WAVE[..., 0], window, 3), axis=-1)
    np.testing.assert_allclose(got, as_parts(want), atol=1e-5)
    (got,) = results("STFT", COMPLEX, known=operands, onesided=0)
    want = np.fft.fft(frames(as_numbers(COMPLEX), window, 3), axis=-1)
    np.testing.assert_allclose(got, as_parts(want), atol=1e-5)
    (got,) = results("STFT", WAVE, known=(np.int64(4), None, np.int64(4)))
    want = np.fft.rfft(frames(WAVE[..., 0], np.ones(4, np.float32), 4), axis=-1)
    np.testing.assert_allclose(got, as_parts(want), atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 12), (2, 12, 1), (2, 12, 2), (1, 2), (0, 12)])
@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("operands", ["step and length", "window", "both"])
def test_short_transforms_are_those_of_onnxruntime(
    shape: tuple[int, ...], onesided: int, operands: str
) -> None:
    if shape[-1] == 2 and len(shape) == 3 and onesided:
        return
    x, n = random(*shape), min(shape[1], 5)
    window = np.hanning(n + 2)[1:-1].astype(np.float32)
    known: dict[str, tuple[Any, ...]] = {
        "step and length": (np.int64(3), None, np.int64(n)),
        "window": (np.int64(3), window),
        "both": (np.int64(3), window, np.int64(n)),
    }
    constants = {f"k{i}": np.asarray(v) for i, v in enumerate(known[operands]) if v is not None}
    names = ["x", *[f"k{i}" if v is not None else "" for i, v in enumerate(known[operands])]]
    made = model(
        [node("STFT", names, onesided=onesided)], {"x": (shape, np.float32)}, constants=constants
    )
    check(made, {"x": x}, tolerance=1e-5)


def test_mel_weights() -> None:
    known = {n: np.array(v) for n, v in zip("abc", (8, 64, 8000), strict=True)}
    known |= {"d": np.array(100, np.float32), "e": np.array(3500, np.float32)}
    check(model([node("MelWeightMatrix", list("abcde"))], {}, constants=known, opset=17), {})


def test_sequences() -> None:
    past, new, at = random(2, 6, 3), random(2, 2, 3, seed=1), np.array([1, 5])
    (got,) = results("TensorScatter", past, new, at, mode="circular", opset=24)
    want = past.copy()
    for b, begin in enumerate(at):
        want[b, (begin + np.arange(2)) % 6] = new[b]
    np.testing.assert_array_equal(got, want)
    (got,) = results("TensorScatter", past, new, opset=24)
    np.testing.assert_array_equal(got[:, :2], new)
    (got,) = results("CumProd", past, known=(np.int64(1),), reverse=1, opset=26)
    np.testing.assert_allclose(got, np.cumprod(past[:, ::-1], 1)[:, ::-1], rtol=1e-5)
    (got,) = results("Det", random(4, 3, 3))
    np.testing.assert_allclose(got, np.linalg.det(random(4, 3, 3)), rtol=1e-4)
    made = model([node("ReverseSequence", ["x", "n"], batch_axis=1, time_axis=0)],
                 {"x": ((6, 2), np.float32), "n": ((2,), np.int64)}, opset=10)  # fmt: skip
    check(made, {"x": random(6, 2), "n": np.array([4, 6])})


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("skips", [0, 2])
def test_n_grams(mode: str, skips: int) -> None:
    made = model(
        [node("TfIdfVectorizer", ["x"], mode=mode, min_gram_length=1, max_gram_length=2,
              max_skip_count=skips, ngram_counts=[0, 3], ngram_indexes=[4, 0, 1, 3, 2],
              pool_int64s=[2, 3, 5, 5, 6, 3, 3], weights=[1.0, 2.0, 3.0, 4.0, 5.0])],
        {"x": ((2, 7), np.int64)}, opset=9,
    )  # fmt: skip
    check(made, {"x": np.array([[1, 3, 3, 5, 6, 3, 7], [5, 2, 6, 3, 9, 3, 5]])})


def test_repeated_indices() -> None:
    x, y = random(2, 3, 3), random(3, 3, seed=1)
    for equation, arrays in (("bii->bi", (x,)), ("ii", (y,)), ("bii,ij->bj", (x, y))):
        (got,) = results("Einsum", *arrays, equation=equation)
        want = np.einsum(equation, *arrays)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_blocks_behind_each_channel() -> None:
    x = random(1, 2, 4, 6)
    (y,) = results("SpaceToDepth", x, blocksize=2, mode="CRD", opset=28)
    (back,) = results("DepthToSpace", y, blocksize=2, mode="CRD", opset=28)
    np.testing.assert_array_equal(back, x)


# ------------------------------------------------------------------- normalisations and training


@pytest.mark.parametrize("axis", [-1, 1, 0])
def test_statistics_of_layer_normalisation(axis: int) -> None:
    x = random(2, 3, 4)
    tail = x.shape[axis:]
    names = ["y", "mean", "inverse"]
    made = model([node("LayerNormalization", ["x", "s", "b"], names, axis=axis)],
                 {"x": (x.shape, x.dtype)}, names, {"s": random(*tail), "b": random(*tail, seed=1)},
                 17)  # fmt: skip
    check(made, {"x": x}, 1e-5)


def test_batch_normalisation_in_training() -> None:
    x, vectors = random(2, 3, 4), [np.abs(random(3, seed=k)) for k in range(4)]
    names = ["y", "mean", "var"]
    made = model([node("BatchNormalization", ["x", *"sbmv"], names, training_mode=1, momentum=0.8)],
                 {"x": (x.shape, x.dtype)}, names, dict(zip("sbmv", vectors, strict=True)),
                 15)  # fmt: skip
    check(made, {"x": x}, 1e-5)


def trained(op: str, *tensors: np.ndarray, count: int, **attrs: Any) -> list[np.ndarray]:
    names = [f"x{k}" for k in range(len(tensors))]
    ys = [f"y{k}" for k in range(len(tensors) - 1)]
    domain = "ai.onnx.preview.training"
    n = helper.make_node(op, ["r", "t", *names], ys, domain=domain, **attrs)
    given = {n: (x.shape, x.dtype) for n, x in zip(names, tensors, strict=True)}
    m = model([n], given, ys, {"r": np.array(0.1, np.float32), "t": np.array(count)})
    m.opset_import.append(helper.make_opsetid(domain, 1))
    return interpret(from_onnx(m)["main"], *tensors)


def test_steps_of_optimisers() -> None:
    torch = pytest.importorskip("torch")
    x, g1, g2 = random(3), random(3, seed=1), random(3, seed=2)
    zero = np.zeros(3, np.float32)
    for op, make, state, attrs in (
        ("Adagrad", torch.optim.Adagrad, 1, {"epsilon": 1e-10}),
        ("Momentum", lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9, nesterov=True), 1,
         {"alpha": 0.9, "beta": 1.0, "mode": "nesterov", "norm_coefficient": 0.0}),
    ):  # fmt: skip
        weight = torch.tensor(x, requires_grad=True)
        optimiser = make([weight], lr=0.1)
        now = [x, *[zero] * state]
        for step, gradient in enumerate((g1, g2)):
            weight.grad = torch.tensor(gradient)
            optimiser.step()
            now = trained(op, now[0], gradient, now[1], count=step, **attrs)
        np.testing.assert_allclose(now[0], weight.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_adam() -> None:
    x, gradient, zero = random(3), random(3, seed=1), np.zeros(3, np.float32)
    first = trained("Adam", x, gradient, zero, zero, count=1, epsilon=1e-8)
    np.testing.assert_allclose(first[0], x - 0.1 * np.sign(gradient), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(first[1], 0.1 * gradient, rtol=1e-5)
    np.testing.assert_allclose(first[2], 0.001 * gradient**2, rtol=1e-4)


@pytest.mark.parametrize("sorted_", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_distinct_slices(axis: int | None, sorted_: int) -> None:
    x = np.array([[1, 0, 1, 1], [2, 3, 2, 2], [1, 0, 1, 1]], np.float32)
    names = ["y", "first", "inverse", "counts"]
    attrs: dict[str, Any] = {"sorted": sorted_} | ({} if axis is None else {"axis": axis})
    made = model([node("Unique", ["x"], names, **attrs)], {"x": (x.shape, x.dtype)}, names)
    for got, want in zip(smelt.compile(made)(x), reference(made, {"x": x}), strict=True):
        np.testing.assert_array_equal(got.numpy(), want)
