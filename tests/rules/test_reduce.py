"""The rule for single reductions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt import te
from smelt.ir.expr import cast
from smelt.topi.registry import get_op

from .build import NARROW, NHWC, ONE, TWO, close, data, laid_out, made, run

SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((64, 96), (1,)), ((64, 96), (0,)), ((37, 53), (1,)), ((37, 53), (0,)), ((3, 3), (1,)),
    ((5, 1), (1,)), ((1, 300), (1,)), ((4, 19, 24), (1,)), ((6, 8, 9, 16), (1, 3)),
    ((2, 16, 7, 7), (2, 3)), ((1000,), (0,)), ((9, 7), (0, 1)), ((300, 500), (0, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "axes"), SHAPES)
@pytest.mark.parametrize("name", ["sum", "max", "mean"])
def test_reductions(name: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = te.placeholder(shape, name="x")
    a = data(*shape)
    found = run(made(x, get_op(name)(x, axes=axes, keepdims=False)), a)[0]
    expected = getattr(np, name)(a.astype("float64"), axis=axes).astype("float32")
    close(found, expected, 1e-4)


@pytest.mark.parametrize("dtype", ["float64", "int64", "int32", "int8"])
@pytest.mark.parametrize("axis", [0, 1])
def test_element_types(dtype: str, axis: int) -> None:
    x = te.placeholder((21, 77), dtype, "x")
    a = data(21, 77, dtype=dtype)
    for name in ("sum", "min"):
        expected = a.sum(axis, dtype=a.dtype) if name == "sum" else a.min(axis)
        close(run(made(x, get_op(name)(x, axes=(axis,), keepdims=False)), a)[0], expected, 1e-12)


@pytest.mark.parametrize("axis", [0, 1])
def test_bools(axis: int) -> None:
    x = te.placeholder((21, 77), "bool", "x")
    a = data(21, 77, dtype="bool")
    a[3], a[5] = True, False
    a[:, 3], a[:, 5] = True, False
    for name in ("all", "any"):
        expected = getattr(np, name)(a, axis)
        close(run(made(x, get_op(name)(x, axes=(axis,), keepdims=False)), a)[0], expected)


def test_products_and_norms() -> None:
    x = te.placeholder((13, 70), name="x")
    a = data(13, 70)
    close(run(made(x, get_op("prod")(x, axes=(1,))), a)[0], a.prod(1, keepdims=True), 1e-4)
    close(run(made(x, get_op("reduce_l1")(x, axes=(1,))), a)[0], np.abs(a).sum(1, keepdims=True))
    norm = np.sqrt((a * a).sum(1, keepdims=True))
    close(run(made(x, get_op("reduce_l2")(x, axes=(1,))), a)[0], norm)


@pytest.mark.parametrize("n", [1, 5, 64, 100, 1000])
def test_symbolic_sizes(n: int) -> None:
    size = te.size_var("n")
    a = data(7, n)
    x = te.placeholder((7, size), name="x")
    for axis in (0, 1):
        y = get_op("sum")(x, axes=(axis,), keepdims=False)
        close(run(made(x, y), a, sizes={"n": n})[0], a.sum(axis), 1e-4)


@pytest.mark.parametrize("machine", [ONE, TWO, NARROW])
@pytest.mark.parametrize("c", [3, 16, 37, 128])
def test_global_average_pooling_with_channels_last(c: int, machine: Any) -> None:
    x = te.placeholder((2, c, 7, 7), name="x")
    y = get_op("mean")(x, axes=(2, 3), keepdims=True)
    z = te.compute(y.shape, lambda *i: te.maximum(y[i], 0.0), name="z")
    a = data(2, c, 7, 7)
    func = laid_out(made(x, z), {"x": NHWC, "z": NHWC}, NHWC)
    expected = np.maximum(a.mean((2, 3), keepdims=True), 0)
    close(run(func, a, machine=machine)[0], expected)


@pytest.mark.parametrize("shape", [(4, 10), (20, 33), (70, 5), (1, 40), (100, 128)])
@pytest.mark.parametrize("axis", [0, 1])
def test_positions_of_extremes(shape: tuple[int, int], axis: int) -> None:
    x = te.placeholder(shape, name="x")
    a = np.round(data(*shape), 1)
    for name in ("argmax", "argmin"):
        found = run(made(x, get_op(name)(x, axis=axis, keepdims=False)), a)[0]
        close(found, getattr(np, name)(a, axis))


def test_work_before_and_behind() -> None:
    x, b = te.placeholder((16, 200), name="x"), te.placeholder((200,), name="b")
    p = te.compute(x.shape, lambda i, j: te.maximum(x[i, j] + b[j], 0.0), name="p")
    s = get_op("sum")(p, axes=(1,), keepdims=False)
    z = te.compute(s.shape, lambda i: s[i] * 0.5 - 1.0, name="z")
    w = te.compute(s.shape, lambda i: cast("float64", z[i]), name="w")
    a, c = data(16, 200), data(200)
    expected = (np.maximum(a + c, 0).sum(1) * 0.5 - 1).astype("float64")
    close(run(made(x, b, w), a, c)[0], expected, 1e-6)


@st.composite
def reductions(draw: Any) -> tuple[Any, ...]:
    rank = draw(st.integers(1, 4))
    extents = st.sampled_from([1, 2, 5, 8, 17, 40])
    shape = tuple(draw(st.lists(extents, min_size=rank, max_size=rank)))
    axes = tuple(sorted(draw(st.sets(st.integers(0, rank - 1), min_size=1))))
    name = draw(st.sampled_from(["sum", "max", "min"]))
    return shape, axes, name, draw(st.permutations(range(rank))), draw(st.booleans())


@settings(max_examples=40, deadline=None)
@given(reductions())
def test_any_reduction_in_any_layout(case: tuple[Any, ...]) -> None:
    shape, axes, name, order, keep = case
    x = te.placeholder(shape, name="x")
    y = get_op(name)(x, axes=axes, keepdims=keep)
    a = data(*shape)
    orders = {"x": order, **({y.name: order} if keep else {})}
    found = run(laid_out(made(x, y), orders), a)[0]
    expected = getattr(np, name)(a.astype("float64"), axis=axes, keepdims=keep)
    close(found, expected.astype("float32"), 1e-4)
