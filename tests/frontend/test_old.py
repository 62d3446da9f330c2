"""Operators as operator sets 1 to 6 had them, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smelt.frontend.onnx import from_onnx
from smelt.ir.errors import ImportFailure, Unsupported
from smelt.relax.interpret import interpret

from .models import Arrays, model, node, random

X, V, C = random(2, 3, 4, 5), random(3, seed=1), random(4, 5, seed=2)


def results(
    op: str, *inputs: Any, opset: int = 6, known: tuple[Any, ...] = (), outputs: int = 1,
    **attrs: Any,
) -> list[np.ndarray]:  # fmt: skip
    """The results of one node; `known` operands are initializers."""
    arrays = [np.asarray(x) for x in (*inputs, *known)]
    names = [f"x{k}" for k in range(len(arrays))]
    given = {n: (a.shape, a.dtype) for n, a in zip(names[: len(inputs)], arrays, strict=False)}
    constants: Arrays = dict(zip(names[len(inputs) :], arrays[len(inputs) :], strict=True))
    ys = [f"y{k}" for k in range(outputs)]
    f = from_onnx(model([node(op, names, ys, **attrs)], given, ys, constants, opset))["main"]
    return interpret(f, *arrays[: len(inputs)])


def gives(want: Any, op: str, *inputs: Any, **more: Any) -> None:
    (got,) = results(op, *inputs, **more)
    want = np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


ARITHMETIC = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}


@pytest.mark.parametrize("op", ARITHMETIC)
@pytest.mark.parametrize("opset", [1, 6])
def test_an_axis_says_where_the_second_operand_begins(op: str, opset: int) -> None:
    fn = ARITHMETIC[op]
    more: dict[str, Any] = {"opset": opset, "broadcast": 1}
    if opset == 1:
        more["consumed_inputs"] = [0, 0]
    gives(fn(X, V[:, None, None]), op, X, V, axis=1, **more)
    gives(fn(X, C), op, X, C, **more)
    gives(fn(X, C), op, X, C, axis=-2, **more)
    gives(fn(X, X + 1), op, X, X + 1, opset=opset)


def test_an_axis_counts_for_known_operands_too() -> None:
    a, b = np.arange(6, dtype=np.int64).reshape(2, 3), np.array([10, 20])
    for known in ((a, b), (b,)):
        given = () if len(known) == 2 else (a,)
        gives(a + b[:, None], "Add", *given, known=known, axis=0, broadcast=1)


def test_comparisons_and_logic() -> None:
    gives(V[:, None, None] < X, "Greater", X, V, axis=1, broadcast=1)
    gives(X < C, "Less", X, C, broadcast=1)
    gives((X > 0) ^ (C > 0), "Xor", X > 0, C > 0, broadcast=1)
    gives(np.abs(X) ** C, "Pow", np.abs(X), C, broadcast=1)


def test_operands_of_different_rank_need_broadcast() -> None:
    with pytest.raises(ImportFailure, match="operands of 4 and 1 dimensions without broadcast=1"):
        results("Add", X, V)
    with pytest.raises(ImportFailure, match="axis=3: 2 dimensions do not fit into 4 from there on"):
        results("Add", X, C, broadcast=1, axis=3)


def test_operands_that_were_attributes() -> None:
    gives(X.astype(np.int64), "Cast", X, opset=1, to="INT64")
    gives(np.concatenate([X, X], 1), "Concat", X, X, opset=1)
    gives(X.reshape(2, 12, 5), "Reshape", X, opset=1, shape=[0, -1, 5])
    gives(np.pad(X, ((0, 0), (0, 0), (1, 0), (0, 2))), "Pad", X, opset=1,
          paddings=[0, 0, 1, 0, 0, 0, 0, 2])  # fmt: skip
    gives(np.tile(X, (1, 1, 3, 1)), "Tile", X, opset=1, known=(np.int64(3), np.int64(2)))
    gives(X.repeat(2, 2).repeat(3, 3), "Upsample", X, opset=1, height_scale=2.0, width_scale=3.0)
    best, where = results("TopK", X, opset=1, k=2, outputs=2)
    np.testing.assert_array_equal(best, np.sort(X)[..., :-3:-1])
    np.testing.assert_array_equal(np.take_along_axis(X, where, -1), best)
    for sizes in ({"split": [1, 2]}, {"known": (np.array([1, 2]),)}):
        parts = results("Split", X, opset=1, axis=1, outputs=2, **sizes)
        np.testing.assert_array_equal(np.concatenate(parts, 1), X)
        assert parts[0].shape == (2, 1, 4, 5)


def test_an_element_type_that_is_none() -> None:
    with pytest.raises(Unsupported, match="to='FLOAT99'"):
        results("Cast", X, opset=1, to="FLOAT99")


def test_consumed_inputs_say_nothing_about_results() -> None:
    more: dict[str, Any] = {"opset": 1, "consumed_inputs": [0]}
    gives(np.maximum(X, 0), "Relu", X, **more)
    gives(np.tanh(X), "Tanh", X, **more)
    gives(np.clip(X, -0.5, 0.25), "Clip", X, min=-0.5, max=0.25, **more)
    gives(np.where(X > 0, X, X * np.float32(0.3)), "LeakyRelu", X, alpha=0.3, **more)
    gives((X + C + 1) / np.float32(3), "Mean", X, np.broadcast_to(C, X.shape), np.ones_like(X),
          opset=1, consumed_inputs=[0, 0, 0])  # fmt: skip


def test_slopes_and_products() -> None:
    gives(np.where(X > 0, X, X * V[:, None, None]), "PRelu", X, V)
    a, b = random(3, 4), random(4, 5, seed=1)
    gives(2 * a @ b + 3 * C[0], "Gemm", a, b, C[0], alpha=2.0, beta=3.0, broadcast=1)


STATISTICS = [np.abs(random(3, seed=k)) + 0.5 for k in range(4)]


def normal(x: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
    scale, bias = [v[:, None, None] for v in STATISTICS[:2]]
    centred = (x - mean[:, None, None]) / np.sqrt(var[:, None, None] + 1e-5)
    return np.asarray(centred * scale + bias, np.float32)


def test_batch_normalisation() -> None:
    gives(normal(X, *STATISTICS[2:]), "BatchNormalization", X, *STATISTICS, is_test=1)
    gives(normal(X, *STATISTICS[2:]), "BatchNormalization", X, *STATISTICS, opset=1, is_test=1,
          consumed_inputs=[0, 0, 0, 1, 1])  # fmt: skip
    whole = [np.abs(random(3, 4, 5, seed=k)) + 0.5 for k in range(4)]
    scale, bias, mean, var = whole
    gives((X - mean) / np.sqrt(var + 1e-5) * scale + bias, "BatchNormalization", X, *whole,
          is_test=1, spatial=0)  # fmt: skip


@pytest.mark.parametrize("opset", [6, 9])
def test_batch_normalisation_in_training(opset: int) -> None:
    found = results("BatchNormalization", X, *STATISTICS, opset=opset, outputs=5, momentum=0.75)
    now, spread = X.mean((0, 2, 3)), X.var((0, 2, 3))
    running = [o * 0.75 + n * 0.25 for o, n in zip(STATISTICS[2:], (now, spread), strict=True)]
    for got, want in zip(found, (normal(X, now, spread), *running, now, spread), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_dropout() -> None:
    gives(X, "Dropout", X, is_test=1)
    (kept,) = results("Dropout", X, ratio=0.4)
    assert 0.3 < (kept == 0).mean() < 0.5
    np.testing.assert_allclose(kept[kept != 0], (X / np.float32(0.6))[kept != 0], rtol=1e-6)


@pytest.mark.parametrize("x", [random(2, 3), np.float32(3)], ids=["matrix", "scalar"])
def test_reductions_over_no_axes_still_square(x: Any) -> None:
    more: dict[str, Any] = {"opset": 18, "known": (np.array([], np.int64),)}
    more["noop_with_empty_axes"] = 1
    gives(x * x, "ReduceSumSquare", x, **more)
    gives(np.abs(x), "ReduceL2", x, **more)
    gives(np.log(np.abs(x)), "ReduceLogSum", np.abs(x), **more)
    gives(x, "ReduceMax", x, **more)


def test_integers_pass_through_floats() -> None:
    x = np.array([[1, 2, 3], [4, 5, 7]])
    gives(np.array([[3], [7]]), "ReduceLogSumExp", x, opset=13, axes=[1])
