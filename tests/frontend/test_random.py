"""Operators with random numbers: what they promise of their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import smelt
from smelt.frontend.onnx import from_onnx
from smelt.ir.errors import Unsupported
from smelt.relax.interpret import interpret

from .models import model, node, random

WIDE = np.zeros((40, 50), np.float32)


def made(op: str, *inputs: np.ndarray, outputs: int = 1, name: str = "n", **attrs: Any) -> Any:
    names = [f"x{k}" for k in range(len(inputs))]
    given = {n: (x.shape, x.dtype) for n, x in zip(names, inputs, strict=True)}
    ys = [f"y{k}" for k in range(outputs)]
    n = node(op, names, ys, **attrs)
    n.name = name
    return model([n], given, ys, opset=22)


def numbers(op: str, *inputs: np.ndarray, **more: Any) -> np.ndarray:
    return interpret(from_onnx(made(op, *inputs, **more))["main"], *inputs)[0]


def test_numbers_of_the_distributions() -> None:
    x = numbers("RandomNormal", shape=[60, 70], mean=2.0, scale=3.0, seed=1.0)
    assert x.shape == (60, 70)
    assert x.dtype == np.float32
    assert abs(x.mean() - 2) < 0.2
    assert abs(x.std() - 3) < 0.2
    x = numbers("RandomUniform", shape=[60, 70], low=-1.0, high=3.0, dtype=TensorProto.DOUBLE)
    assert x.dtype == np.float64
    assert -1 <= x.min() < -0.9
    assert 2.9 < x.max() <= 3
    assert abs(x.mean() - 1) < 0.1
    x = numbers("RandomNormalLike", WIDE, dtype=TensorProto.FLOAT16)
    assert x.shape == WIDE.shape
    assert x.dtype == np.float16
    assert numbers("RandomUniformLike", WIDE.astype(np.float64)).dtype == np.float64


def test_probabilities() -> None:
    share = np.full((40, 50), 0.3, np.float32)
    x = numbers("Bernoulli", share, seed=4.0)
    assert set(np.unique(x)) == {0, 1}
    assert abs(x.mean() - 0.3) < 0.05
    assert numbers("Bernoulli", share, dtype=TensorProto.INT32).dtype == np.int32
    weights = np.log(np.array([[0.1, 0.6, 0.3], [0.0, 0.0, 1.0]], np.float32) + 1e-30)
    drawn = numbers("Multinomial", weights, sample_size=2000, seed=5.0)
    assert drawn.shape == (2, 2000)
    assert drawn.dtype == np.int32
    assert np.abs(np.bincount(drawn[0], minlength=3) / 2000 - [0.1, 0.6, 0.3]).max() < 0.05
    assert (drawn[1] == 2).all()


def test_a_seed_is_the_same_numbers_and_names_are_others() -> None:
    def draw(**more: Any) -> np.ndarray:
        return numbers("RandomUniform", shape=[8], **more)

    assert (draw(seed=1.5) == draw(seed=1.5, name="m")).all()
    assert (draw(seed=1.5) != draw(seed=2.5)).any()
    assert (draw() == draw()).all()
    assert (draw() != draw(name="m")).any()


def test_compiled_numbers_repeat() -> None:
    exe = smelt.compile(made("RandomNormal", shape=[5], seed=3.0))
    first, again = exe().numpy(), exe().numpy()
    assert (first == again).all()
    np.testing.assert_allclose(first, numbers("RandomNormal", shape=[5], seed=3.0), rtol=1e-5)


def test_integers_are_refused() -> None:
    with pytest.raises(Unsupported, match="random numbers of int32"):
        numbers("RandomNormal", shape=[2], dtype=TensorProto.INT32)


# --------------------------------------------------------------------------------------- dropout


def dropout(ratio: float, training: bool, **attrs: Any) -> tuple[onnx.ModelProto, np.ndarray]:
    n = node("Dropout", ["x", "r", "t"], ["y", "mask"], **attrs)
    x = random(40, 50)
    known = {"r": np.array(ratio, np.float32), "t": np.array(training)}
    return model([n], {"x": (x.shape, x.dtype)}, ["y", "mask"], known, 22), x


def test_dropout_in_training() -> None:
    m, x = dropout(0.25, True, seed=7)
    y, mask = interpret(from_onnx(m)["main"], x)
    assert mask.dtype == np.bool_
    assert abs(mask.mean() - 0.75) < 0.05
    np.testing.assert_allclose(y, np.where(mask, x / np.float32(0.75), 0), rtol=1e-6)


@pytest.mark.parametrize(("ratio", "training"), [(0.5, False), (0.0, True)])
def test_dropout_that_drops_nothing(ratio: float, training: bool) -> None:
    m, x = dropout(ratio, training)
    y, mask = interpret(from_onnx(m)["main"], x)
    np.testing.assert_array_equal(y, x)
    assert mask.all()
    assert mask.shape == x.shape


def test_masks_of_old() -> None:
    for opset, kind in ((7, np.float32), (10, np.bool_)):
        m = model([node("Dropout", ["x"], ["y", "mask"])], {"x": ((2, 3), np.float32)},
                  ["y", "mask"], opset=opset)  # fmt: skip
        _, mask = interpret(from_onnx(m)["main"], random(2, 3))
        assert mask.dtype == kind
        assert mask.all()
