"""Models of every family of element types against onnxruntime, or numpy where that has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontend.models import model, node, reference
from tests.models.compare import compiled, run
from tests.models.net import Array

N = 37  # no multiple of a vector
INTEGERS = ("int8", "uint8", "int32", "int64")
FLOATS = ("float16", "float32", "float64")
BOUNDS = {"float16": 2e-3, "float32": 2e-6, "float64": 2e-7}
"""Of max |a - b| / max |b|."""


def tensor_type(dtype: Any) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


class Many:
    """A model of single operators on two operands, with a result of each."""

    def __init__(self, a: Array, b: Array, **constants: Array) -> None:
        self.feeds = {"a": a, "b": b}
        self.constants: dict[str, Array] = dict(constants)
        self.nodes: list[onnx.NodeProto] = []
        self.results: list[str] = []

    def ask(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op}{len(self.nodes)}"
        self.nodes.append(node(op, inputs, [name], **attributes))
        self.results.append(name)
        return name

    def model(self) -> onnx.ModelProto:
        inputs: Mapping[str, tuple[tuple[int, ...], Any]] = {
            n: (v.shape, v.dtype) for n, v in self.feeds.items()
        }
        return model(self.nodes, inputs, self.results, self.constants)

    def check(self, cache: str, bound: float = 0.0) -> None:
        made = self.model()
        ours, theirs = run(compiled(made, cache), self.feeds), reference(made, self.feeds)
        wrong = {}
        for name, a, b in zip(self.results, ours, theirs, strict=True):
            if (a.dtype, a.shape) != (b.dtype, b.shape):
                wrong[name] = f"{a.dtype}{a.shape} for {b.dtype}{b.shape}"
            elif not close(a, b, bound):
                at = np.flatnonzero(a.reshape(-1) != b.reshape(-1))[:4]
                wrong[name] = f"{a.reshape(-1)[at]} for {b.reshape(-1)[at]}"
        assert not wrong


def close(a: Array, b: Array, bound: float) -> bool:
    if bound == 0 or b.dtype.kind != "f" or not b.size:
        return bool(np.array_equal(a, b, equal_nan=b.dtype.kind == "f"))
    wide = b.astype(np.float64)
    scale = float(np.abs(wide[np.isfinite(wide)]).max(initial=1e-30))
    return bool(np.allclose(a.astype(np.float64), wide, rtol=0, atol=bound * scale, equal_nan=True))


def integers(dtype: str, seed: int) -> Array:
    low = 0 if dtype.startswith("u") else -9
    return np.random.default_rng(seed).integers(low, 10, (5, N)).astype(dtype)


def common(m: Many, dtype: str) -> None:
    """What every number can do."""
    condition = m.ask("Greater", "a", "b")
    m.ask("Less", "a", "b")
    m.ask("Equal", "a", "b")
    m.ask("Where", condition, "a", "b")
    m.ask("Concat", "a", "b", axis=0)
    m.ask("Transpose", "a", perm=[1, 0])
    m.ask("Slice", "a", "starts", "ends", "axes", "steps")
    m.ask("Gather", "a", "picks", axis=1)
    for kind in ("Max", "Min"):
        m.ask(kind, "a", "b")
    for op in ("ArgMax", "ArgMin"):
        m.ask(op, "a", axis=1, keepdims=0)
    for to in ("float32", "float64", "int32", "int64", "bool"):
        if to != dtype:
            m.ask("Cast", "a", to=tensor_type(to))


def picks() -> dict[str, Array]:
    return {
        "picks": np.array([[0, 3], [-1, N - 1]], np.int64),
        "starts": np.array([N, 0], np.int64),
        "ends": np.array([-100, 5], np.int64),
        "axes": np.array([1, 0], np.int64),
        "steps": np.array([-2, 2], np.int64),
        "last": np.array([-1], np.int64),
    }


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(dtype: str, cache: str) -> None:
    b = integers(dtype, 2)
    m = Many(integers(dtype, 1), np.where(b == 0, 3, b).astype(dtype), **picks())
    common(m, dtype)
    for op in ("Add", "Sub", "Mul", "Div"):
        m.ask(op, "a", "b")
    m.ask("Mod", "a", "b")
    m.ask("Mod", "a", "b", fmod=1)
    if dtype != "uint8":
        m.ask("Abs", "a")
        m.ask("Neg", "a")
        m.ask("Sign", "a")
    if dtype in ("int32", "int64"):
        m.ask("ReduceSum", "a", "last", keepdims=0)
        m.ask("ReduceMax", "a", "last", keepdims=1)
        m.ask("ReduceMin", "a", "last", keepdims=1)
        m.ask("ReduceProd", m.ask("Sign", "b"), "last", keepdims=0)
    m.check(cache)


def test_integers_wrap_around(cache: str) -> None:
    for dtype in ("int32", "int64"):
        info = np.iinfo(dtype)
        a = np.array([info.max, info.min, info.max, -7, 7, info.min + 1], dtype)
        b = np.array([1, -1, info.max, 2, -2, 3], dtype)
        made = model(
            [node("Add", ["a", "b"], ["s"]), node("Mul", ["a", "b"], ["p"])],
            {"a": (a.shape, dtype), "b": (b.shape, dtype)},
            ["s", "p"],
        )
        s, p = run(compiled(made, cache), {"a": a, "b": b})
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(s, a + b)
            np.testing.assert_array_equal(p, a * b)


def test_large_int64_are_exact(cache: str) -> None:
    big = np.array([2**53 + 1, 2**62 + 3, -(2**60) - 7, 5], np.int64)
    m = Many(big, big[::-1].copy(), last=np.array([0], np.int64))
    for op in ("Add", "Max", "Min", "Equal", "Less"):
        m.ask(op, "a", "b")
    m.ask("ReduceMax", "a", "last", keepdims=0)
    m.check(cache)


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats(dtype: str, cache: str) -> None:
    random = np.random.default_rng(3)
    a, b = (random.standard_normal((5, N)).astype(dtype) for _ in range(2))
    m = Many(a, b, **picks())
    common(m, dtype)
    for op in ("Add", "Sub", "Mul", "Div"):
        m.ask(op, "a", "b")
    absolute = m.ask("Abs", "a")
    for op in ("Neg", "Exp", "Tanh", "Sigmoid", "Erf", "Floor", "Ceil", "Round", "Relu"):
        if dtype == "float32" or op != "Erf":  # of which onnxruntime has no other
            m.ask(op, "a")
    for op in ("Sqrt", "Log"):
        m.ask(op, absolute)
    m.ask("Softmax", "a", axis=-1)
    m.ask("ReduceSum", "a", "last", keepdims=0)
    m.ask("ReduceMean", "a", "last", keepdims=1)
    m.ask("ReduceMax", "a", "last", keepdims=1)
    m.ask("MatMul", "a", m.ask("Transpose", "b", perm=[1, 0]))
    m.ask("Cast", "a", to=tensor_type("float16"))
    m.check(cache, BOUNDS[dtype])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_that_are_no_numbers(dtype: str, cache: str) -> None:
    values = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5, 3e38]
    a, b = (np.array(v, dtype) for v in zip(*[(x, y) for x in values for y in values], strict=True))
    m = Many(a, b, low=np.array(-1, dtype), high=np.array(2, dtype))
    for op in ("Add", "Sub", "Mul", "Max", "Min", "Equal", "Less", "LessOrEqual"):
        m.ask(op, "a", "b")
    for op in ("Abs", "Neg", "Sqrt", "Exp", "Tanh", "Sigmoid", "Floor", "Round", "IsNaN", "Relu"):
        m.ask(op, "a")
    m.ask("Clip", "a", "low", "high")
    m.ask("Cast", "a", to=tensor_type("bool"))
    m.check(cache, 2e-6)


def test_bool(cache: str) -> None:
    random = np.random.default_rng(4)
    a, b = (random.integers(0, 2, (5, N)).astype(bool) for _ in range(2))
    m = Many(a, b, **picks(), x=random.standard_normal((5, N)).astype(np.float32))
    for op in ("And", "Or", "Xor", "Equal"):
        m.ask(op, "a", "b")
    m.ask("Not", "a")
    m.ask("Where", "a", "x", m.ask("Cast", "b", to=tensor_type("float32")))
    m.ask("Cast", "a", to=tensor_type("int64"))
    m.ask("Cast", "a", to=tensor_type("int32"))
    m.ask("Gather", "a", "picks", axis=1)
    m.ask("Concat", "a", "b", axis=1)
    m.ask("Transpose", "a", perm=[1, 0])
    m.ask("Slice", "a", "starts", "ends", "axes", "steps")
    m.check(cache)


def test_ids_that_are_given_choose_rows(cache: str) -> None:
    random = np.random.default_rng(5)
    table = random.standard_normal((11, 6)).astype(np.float32)
    for dtype in ("int32", "int64"):
        ids = random.integers(-11, 11, (3, 5)).astype(dtype)
        found = Many(ids, ids, table=table)
        rows = found.ask("Gather", "table", "a", axis=0)
        found.ask("GatherElements", "table", "b", axis=0)
        found.ask("ArgMax", rows, axis=2, keepdims=1)
        found.check(cache, 2e-6)


def test_argmax_takes_the_first_or_the_last_of_equals(cache: str) -> None:
    a = np.array([[1, 3, 3, 2], [5, 5, 5, 5], [0, -1, -1, 0]], np.float32)
    m = Many(a, a)
    for op in ("ArgMax", "ArgMin"):
        for last in (0, 1):
            for axis in (0, 1):
                m.ask(op, "a", axis=axis, select_last_index=last)
    m.check(cache)
