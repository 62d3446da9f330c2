"""The rules for several reductions, and for programs with contractions in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt import te
from smelt.topi.registry import get_op

from .build import NARROW, NHWC, ONE, TWO, Array, close, data, laid_out, made, run


def softmax(x: Array, axis: int = -1) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    result: Array = e / e.sum(axis, keepdims=True)
    return result


def normed(x: Array, axes: Any, epsilon: float = 1e-5) -> Array:
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    result: Array = (x - mean) / np.sqrt(var + epsilon)
    return result


CASES: list[tuple[tuple[int, ...], int]] = [
    ((64, 128), -1), ((37, 53), -1), ((3, 4), -1), ((1, 1000), -1), ((100,), 0), ((7, 13, 5), 1),
    ((1, 21, 9, 9), 1), ((4, 6, 40), -1), ((70, 6), 0), ((2, 1), -1),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_softmax(shape: tuple[int, ...], axis: int) -> None:
    x = te.placeholder(shape, name="x")
    a = data(*shape)
    close(run(made(x, get_op("softmax")(x, axis=axis)), a)[0], softmax(a, axis))
    found = run(made(x, get_op("log_softmax")(x, axis=axis)), a)[0]
    close(found, np.log(softmax(a.astype("float64"), axis)).astype("float32"))


@pytest.mark.parametrize("n", [1, 5, 37, 100])
def test_softmax_of_a_symbolic_length(n: int) -> None:
    size = te.size_var("n")
    x = te.placeholder((3, size, size), name="x")
    a = data(3, n, n)
    close(run(made(x, get_op("softmax")(x, axis=-1)), a, sizes={"n": n})[0], softmax(a))


def test_softmax_over_channels_that_are_last() -> None:
    x = te.placeholder((1, 21, 8, 8), name="x")
    a = data(1, 21, 8, 8)
    func = laid_out(made(x, get_op("softmax")(x, axis=1)), {"x": NHWC, "softmax": NHWC}, NHWC)
    close(run(func, a)[0], softmax(a, 1))


def test_a_mask_before_softmax() -> None:
    x, m = te.placeholder((4, 20, 33), name="x"), te.placeholder((20, 33), name="m")
    t = te.compute(x.shape, lambda h, i, j: x[h, i, j] * 0.125 + m[i, j], name="t")
    a, b = data(4, 20, 33), data(20, 33)
    close(run(made(x, m, get_op("softmax")(t, axis=-1)), a, b)[0], softmax(a * 0.125 + b))


@pytest.mark.parametrize("machine", [ONE, TWO, NARROW])
@pytest.mark.parametrize("shape", [(16, 768), (7, 37), (2, 5, 64), (3, 2)])
def test_layer_norm(shape: tuple[int, ...], machine: Any) -> None:
    x, y = te.placeholder(shape, name="x"), te.placeholder(shape, name="y")
    g, b = te.placeholder(shape[-1:], name="g"), te.placeholder(shape[-1:], name="b")
    p, q, r, s = data(*shape), data(*shape, seed=1), data(shape[-1]), data(shape[-1], seed=1)
    total = get_op("add")(x, y)
    func = made(x, y, g, b, get_op("layer_norm")(total, g, b))
    close(run(func, p, q, r, s, machine=machine)[0], normed(p + q, -1) * r + s)
    root = np.sqrt((p * p).mean(-1, keepdims=True) + 1e-5)
    func = made(x, g, get_op("rms_norm")(x, g))
    close(run(func, p, r, machine=machine)[0], p / root * r)


def test_layer_norm_of_a_symbolic_number_of_rows() -> None:
    size = te.size_var("n")
    x, g = te.placeholder((size, 96), name="x"), te.placeholder((96,), name="g")
    a, b = data(11, 96), data(96)
    func = made(x, g, get_op("layer_norm")(x, g))
    close(run(func, a, b, sizes={"n": 11})[0], normed(a, -1) * b)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), NHWC])
def test_norms_of_images(order: tuple[int, ...]) -> None:
    x = te.placeholder((2, 32, 7, 7), name="x")
    g, b = te.placeholder((32,), name="g"), te.placeholder((32,), name="b")
    p, q, r = data(2, 32, 7, 7), data(32), data(32, seed=1)
    c = (slice(None), None, None)
    func = made(x, g, b, get_op("instance_norm")(x, g, b))
    found = run(laid_out(func, {"x": order, "instance_norm": order}, order), p, q, r)[0]
    close(found, normed(p, (2, 3)) * q[c] + r[c])
    func = made(x, g, b, get_op("group_norm")(x, g, b, groups=4))
    found = run(laid_out(func, {"x": order, "group_norm": order}, order), p, q, r)[0]
    close(found, normed(p.reshape(2, 4, 8, 7, 7), (2, 3, 4)).reshape(p.shape) * q[c] + r[c])


def test_what_no_single_rule_fits() -> None:
    x = te.placeholder((20, 30), name="x")
    a = data(20, 30)
    close(run(made(x, get_op("cumsum")(x, axis=1)), a)[0], a.cumsum(1))
    found = run(made(x, get_op("reduce_log_sum_exp")(x, axes=(1,), keepdims=False)), a)[0]
    close(found, np.log(np.exp(a).sum(1)))
    y = get_op("argmax")(x, axis=1, keepdims=False)
    z = te.compute(y.shape, lambda i: y[i] * 2, name="z")
    close(run(made(x, z), a)[0], a.argmax(1) * 2)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shape", [(2, 4, 32, 16), (1, 2, 7, 5), (1, 3, 48, 64)])
def test_attention(shape: tuple[int, ...], masked: bool) -> None:
    q, k, v = [te.placeholder(shape, name=n) for n in "qkv"]
    m = te.placeholder((shape[2], shape[2]), name="m")
    a, b, c = [data(*shape, seed=n) for n in range(3)]
    d = data(shape[2], shape[2], seed=3)
    inputs = [q, k, v, m] if masked else [q, k, v]
    scores = np.einsum("bhid,bhjd->bhij", a, b) * 0.25 + (d if masked else 0)
    found = run(
        made(*inputs, get_op("attention")(*inputs, scale=0.25)), *[a, b, c, d][: len(inputs)]
    )
    close(found[0], np.einsum("bhij,bhjd->bhid", softmax(scores), c))


@pytest.mark.parametrize("m", [1, 5, 40])
def test_products_with_work_around_them(m: int) -> None:
    x, y = te.placeholder((m, 48), name="x"), te.placeholder((m, 48), name="y")
    w, b = te.placeholder((48, 37), name="w"), te.placeholder((37,), name="b")
    p, q, r, s = data(m, 48), data(m, 48, seed=1), data(48, 37), data(37)
    before = get_op("add")(x, y)
    func = made(x, y, w, get_op("matmul")(before, w))
    close(run(func, p, q, r)[0], (p + q) @ r)
    behind = get_op("add")(get_op("matmul")(x, w), b)
    z = te.compute(behind.shape, lambda i, j: te.maximum(behind[i, j], 0.0), name="z")
    close(run(made(x, w, b, z), p, r, s)[0], np.maximum(p @ r + s, 0))


@st.composite
def softmaxes(draw: Any) -> tuple[Any, ...]:
    rank = draw(st.integers(1, 4))
    extents = st.sampled_from([1, 2, 5, 8, 17, 40])
    shape = tuple(draw(st.lists(extents, min_size=rank, max_size=rank)))
    return shape, draw(st.integers(0, rank - 1)), draw(st.permutations(range(rank)))


@settings(max_examples=25, deadline=None)
@given(softmaxes())
def test_any_softmax_in_any_layout(case: tuple[Any, ...]) -> None:
    shape, axis, order = case
    x = te.placeholder(shape, name="x")
    func = made(x, get_op("softmax")(x, axis=axis))
    a = data(*shape)
    found = run(laid_out(func, {"x": order, "softmax": order}, order), a)[0]
    close(found, softmax(a, axis))
