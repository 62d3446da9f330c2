"""The operator Gradient: derivatives against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import smelt
from smelt.frontend.onnx import from_onnx
from smelt.ir.errors import Unsupported
from smelt.relax.interpret import interpret

from .models import model, node, random

DOMAIN = "ai.onnx.preview.training"
STEP = 1e-5


def with_gradient(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, np.ndarray],
    y: str,
    given: list[str] | None = None,
) -> onnx.ModelProto:
    """The nodes, and derivatives of y by all inputs; `given` are the operands."""
    xs = list(inputs)
    outs = [y, *[f"d_{x}" for x in xs]]
    last = helper.make_node("Gradient", given or xs, outs[1:], name="g", domain=DOMAIN, xs=xs, y=y)
    shapes = {n: (x.shape, x.dtype) for n, x in inputs.items()}
    made = model([*nodes, last], shapes, outs)
    made.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return made


def differences(f: Any, arrays: list[np.ndarray], k: int) -> np.ndarray:
    """How the sum of the first result changes with each element of an operand."""
    out = np.zeros(arrays[k].shape)
    for place in np.ndindex(*out.shape):
        sums = []
        for step in (STEP, -STEP):
            moved = arrays[k].copy()
            moved[place] += step
            sums.append(
                interpret(f, *[moved if i == k else a for i, a in enumerate(arrays)])[0].sum()
            )
        out[place] = (sums[0] - sums[1]) / (2 * STEP)
    return out


def check(nodes: list[onnx.NodeProto], **inputs: np.ndarray) -> None:
    f = from_onnx(with_gradient(nodes, inputs, "y"))["main"]
    arrays = list(inputs.values())
    found = interpret(f, *arrays)[1:]
    for k, got in enumerate(found):
        assert got.dtype == arrays[k].dtype
        np.testing.assert_allclose(got, differences(f, arrays, k), rtol=1e-5, atol=1e-6)


def exact(*shape: int, seed: int = 0) -> np.ndarray:
    return random(*shape, seed=seed).astype(np.float64)


def weighted(op: str, *names: str, **attrs: Any) -> list[onnx.NodeProto]:
    """An operator, its result squared so that elements count differently."""
    return [node(op, names, ["v"], **attrs), node("Mul", ["v", "v"], ["y"])]


A, B, P = exact(2, 3), exact(3, seed=1), np.abs(exact(2, 3, seed=2)) + 0.5


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Max", "Min"])
def test_two_operands(op: str) -> None:
    check(weighted(op, "a", "b"), a=A, b=B)
    check(weighted(op, "a", "b"), a=P, b=exact(2, 1, seed=4))


UNARY = ("Abs", "Cos", "Erf", "Exp", "Neg", "Relu", "Sigmoid", "Sin", "Softplus", "Tanh")


@pytest.mark.parametrize("op", [*UNARY, "Log", "Reciprocal", "Sqrt"])
def test_one_operand(op: str) -> None:
    check(weighted(op, "a"), a=A if op in UNARY else P)


def test_powers_softmax_and_moves() -> None:
    check(weighted("Pow", "a", "b"), a=P, b=B)
    for op in ("Softmax", "LogSoftmax"):
        check(weighted(op, "a", axis=1), a=A)
    check(weighted("Transpose", "a", perm=[1, 0]), a=A)
    check(weighted("Concat", "a", "b", axis=0), a=A, b=P)
    check(weighted("Flatten", "a", axis=0), a=A)
    for op in ("ReduceSum", "ReduceMean", "ReduceSumSquare"):
        check(weighted(op, "a", keepdims=0), a=A)


def test_products() -> None:
    check(weighted("MatMul", "a", "b"), a=A, b=exact(3, 4))
    check(weighted("MatMul", "a", "b"), a=exact(2, 2, 3), b=exact(3, 4))
    check(weighted("Gemm", "a", "b", transA=1, transB=1), a=A, b=exact(4, 2))
    check(weighted("Conv", "a", "b", strides=[2, 1], pads=[1, 0, 1, 2]), a=exact(1, 2, 6, 5),
          b=exact(3, 2, 3, 2))  # fmt: skip


def test_values_used_twice_and_not_at_all() -> None:
    nodes = [node("Mul", ["a", "a"], ["v"]), node("Add", ["v", "a"], ["y"])]
    made = with_gradient(nodes, {"a": A, "b": B}, "y")
    y, da, db = [r.numpy() for r in smelt.compile(made)(A, B)]
    np.testing.assert_allclose(y, A * A + A)
    np.testing.assert_allclose(da, 2 * A + 1)
    assert (db == np.zeros(3)).all()


def test_operands_give_other_values() -> None:
    nodes = [node("Mul", ["a", "a"], ["y"]), node("Neg", ["a"], ["c"])]
    made = with_gradient(nodes, {"a": A}, "y", ["c"])
    _, da = interpret(from_onnx(made)["main"], A)
    np.testing.assert_allclose(da, -2 * A)


def test_an_operator_without_a_rule() -> None:
    made = with_gradient([node("Floor", ["a"], ["y"])], {"a": A}, "y")
    with pytest.raises(Unsupported, match="derivative: floor has no rule"):
        from_onnx(made)
