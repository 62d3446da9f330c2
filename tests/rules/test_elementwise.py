"""The rule for elementwise, broadcast and data-moving groups."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt import te
from smelt.ir.build import call
from smelt.ir.expr import cast
from smelt.rules.cpu import schedule
from smelt.target import Machine
from smelt.tir.printer import script
from smelt.topi.registry import get_op

from .build import NARROW, NHWC, ONE, TWO, close, data, laid_out, made, run, tasks_an_image

MACHINES = [ONE, TWO, NARROW]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    "shape", [(1,), (3,), (37,), (1000,), (5, 7, 3), (1, 64, 9, 9), (300, 333)]
)
def test_a_chain_becomes_one_flat_loop(shape: tuple[int, ...], machine: Machine) -> None:
    x, y = te.placeholder(shape, name="x"), te.placeholder(shape, name="y")
    t = get_op("add")(x, y)
    z = te.compute(shape, lambda *i: te.maximum(t[i], 0.0) * 2.0, name="z")
    a, b = data(*shape), data(*shape, seed=1)
    close(run(made(x, y, z), a, b, machine=machine)[0], np.maximum(a + b, 0) * 2)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "int8"])
def test_element_types(dtype: str) -> None:
    x = te.placeholder((7, 53), dtype, "x")
    a = data(7, 53, dtype=dtype)
    close(run(made(x, get_op("add")(x, x)), a)[0], a + a)
    z = te.compute(x.shape, lambda i, j: x[i, j] > x[i, 0], name="z")
    close(run(made(x, z), a)[0], a > a[:, :1])
    w = te.compute(x.shape, lambda i, j: cast("float64", x[i, j]), name="w")
    close(run(made(x, w), a)[0], a.astype("float64"))


def test_bools() -> None:
    x, y = te.placeholder((41,), "bool", "x"), te.placeholder((41,), "bool", "y")
    a, b = data(41, dtype="bool"), data(41, dtype="bool", seed=1)
    z = te.compute(x.shape, lambda i: te.all_of(x[i], y[i]), name="z")
    close(run(made(x, y, z), a, b)[0], a & b)


@pytest.mark.parametrize("n", [1, 5, 16, 63, 64, 65, 1000])
def test_symbolic_sizes(n: int) -> None:
    size = te.size_var("n")
    x, b = te.placeholder((size, 37), name="x"), te.placeholder((37,), name="b")
    a, c = data(n, 37), data(37)
    close(run(made(x, b, get_op("add")(x, b)), a, c, sizes={"n": n})[0], a + c)
    y = te.placeholder((37, size), name="y")
    z = te.compute(y.shape, lambda i, j: y[i, j] * 2.0 + 1.0, name="z")
    close(run(made(y, z), a.T, sizes={"n": n})[0], a.T * 2 + 1)


def test_tasks_of_a_symbolic_size() -> None:
    """As many for each row as a row alone needs: there may be only one."""
    size = te.size_var("n")
    x, b = te.placeholder((size, 1 << 18), name="x"), te.placeholder((1 << 18,), name="b")
    assert tasks_an_image(script(schedule(made(x, b, get_op("add")(x, b)), TWO).func)) >= 4


def test_an_expensive_value_is_computed_once_a_row() -> None:
    x, y = te.placeholder((64, 1), name="x"), te.placeholder((64, 100), name="y")
    e = te.compute((64, 1), lambda i, j: call("exp", x[i, j]), name="e")
    z = te.compute(y.shape, lambda i, j: y[i, j] * e[i, 0], name="z")
    a, b = data(64, 1), data(64, 100)
    close(run(made(x, y, z), a, b)[0], np.exp(a) * b)


@pytest.mark.parametrize("shape", [(1, 3, 5, 5), (1, 16, 9, 7), (2, 37, 6, 6), (1, 64, 20, 20)])
def test_channels_last(shape: tuple[int, ...]) -> None:
    x, y = te.placeholder(shape, name="x"), te.placeholder(shape, name="y")
    b = te.placeholder((shape[1], 1, 1), name="b")
    t = te.compute(shape, lambda *i: x[i] * b[i[1], 0, 0], name="t")
    z = te.compute(shape, lambda *i: t[i] + y[i], name="z")
    p, q, r = data(*shape), data(*shape, seed=1), data(shape[1], 1, 1)
    everything = {"x": NHWC, "y": NHWC, "z": NHWC}
    close(run(laid_out(made(x, y, b, z), everything, NHWC), p, q, r)[0], p * r + q)
    mixed = {"x": NHWC, "z": NHWC}
    close(run(laid_out(made(x, y, b, z), mixed), p, q, r)[0], p * r + q)


@pytest.mark.parametrize("axes", [(1, 0, 2), (0, 2, 1), (2, 1, 0), (2, 0, 1)])
@pytest.mark.parametrize("shape", [(3, 5, 7), (17, 33, 64), (2, 16, 48), (40, 1, 40)])
def test_transposes(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = te.placeholder(shape, name="x")
    a = data(*shape)
    close(run(made(x, get_op("transpose")(x, axes=axes)), a)[0], a.transpose(axes))


def test_unaligned_memory() -> None:
    x = te.placeholder((31, 45), name="x")
    a = data(31, 45)
    close(run(made(x, get_op("transpose")(x, axes=(1, 0))), a, align=False)[0], a.T)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), NHWC])
@pytest.mark.parametrize("channels", [(3,), (16, 16), (24, 40, 13), (1, 2, 3, 4, 5)])
def test_joined_tensors(channels: tuple[int, ...], order: tuple[int, ...]) -> None:
    xs = [te.placeholder((1, c, 5, 6), name=f"x{n}") for n, c in enumerate(channels)]
    func = made(*xs, get_op("concat")(*xs, axis=1))
    names = [b.name for b in func.buffers]
    arrays = [data(1, c, 5, 6, seed=n) for n, c in enumerate(channels)]
    found = run(laid_out(func, dict.fromkeys(names, order)), *arrays)[0]
    close(found, np.concatenate(arrays, 1))


@pytest.mark.parametrize("axis", [0, 1])
def test_gathered_rows(axis: int) -> None:
    x, i = te.placeholder((50, 37), name="x"), te.placeholder((2, 9), "int64", "i")
    a, b = data(50, 37), np.random.default_rng(0).integers(0, 37, (2, 9))
    close(run(made(x, i, get_op("gather")(x, i, axis=axis)), a, b)[0], np.take(a, b, axis))


def test_slices_padding_and_turned_rows() -> None:
    x = te.placeholder((6, 50), name="x")
    a = data(6, 50)
    cut = get_op("strided_slice")(x, axes=(0, 1), begin=(1, 3), end=(6, 49), strides=(2, 3))
    close(run(made(x, cut), a)[0], a[1:6:2, 3:49:3])
    pad = te.compute((8, 55), lambda i, j: te.if_then_else(
        te.all_of(i >= 1, i < 7, j >= 2, j < 52), x[i - 1, j - 2], 7.0), name="pad")  # fmt: skip
    close(run(made(x, pad), a)[0], np.pad(a, ((1, 1), (2, 3)), constant_values=7))
    back = te.compute(x.shape, lambda i, j: x[i, 49 - j], name="back")
    close(run(made(x, back), a)[0], a[:, ::-1])
    flat = get_op("transpose")(get_op("reshape")(x, shape=(6, 5, 10)), axes=(1, 0, 2))
    close(run(made(x, flat), a)[0], a.reshape(6, 5, 10).transpose(1, 0, 2))


def test_transcendental_functions() -> None:
    x = te.placeholder((33, 17), name="x")
    z = te.compute(x.shape, lambda i, j: 0.5 * x[i, j] * (1.0 + call("erf", x[i, j])), name="z")
    a = data(33, 17)
    erf = np.vectorize(math.erf)(a.astype("float64"))
    close(run(made(x, z), a)[0], (0.5 * a * (1 + erf)).astype("float32"))


def test_several_results() -> None:
    x = te.placeholder((9, 31), name="x")
    y = te.compute(x.shape, lambda i, j: x[i, j] + 1.0, name="y")
    z = te.compute(x.shape, lambda i, j: y[i, j] * y[i, j], name="z")
    a = data(9, 31)
    found = run(made(x, y, z), a)
    close(found[0], a + 1)
    close(found[1], (a + 1) ** 2)


def test_scalars() -> None:
    x = te.placeholder((), name="x")
    z = te.compute((), lambda: x[()] + 1.0, name="z")
    close(run(made(x, z), np.array(2.5, "float32"))[0], np.array(3.5, "float32"))


@st.composite
def broadcasts(draw: Any) -> tuple[Any, ...]:
    """A shape, two operands of which dimensions may repeat, and layouts for all three."""
    rank = draw(st.integers(1, 4))
    shape = tuple(
        draw(st.lists(st.sampled_from([1, 2, 3, 7, 16, 19]), min_size=rank, max_size=rank))
    )
    kept = st.lists(st.booleans(), min_size=rank, max_size=rank)
    one, two = [
        tuple([n if k else 1 for n, k in zip(shape, draw(kept), strict=True)]) for _ in range(2)
    ]
    orders = [draw(st.permutations(range(rank))) for _ in range(3)]
    return shape, one, two, orders, draw(st.sampled_from(MACHINES))


@settings(max_examples=40, deadline=None)
@given(broadcasts())
def test_any_broadcast_in_any_layout(case: tuple[Any, ...]) -> None:
    shape, one, two, orders, machine = case
    x, y = te.placeholder(one, name="x"), te.placeholder(two, name="y")

    def at(t: Any, i: Any) -> Any:
        return t[tuple([v if n != 1 else 0 for v, n in zip(i, t.fixed_shape(), strict=True)])]

    t = te.compute(shape, lambda *i: at(x, i) * 2.0, name="t")
    z = te.compute(shape, lambda *i: t[i] + at(y, i), name="z")
    func = laid_out(made(x, y, z), dict(zip(("x", "y", "z"), orders, strict=True)))
    a, b = data(*one), data(*two, seed=1)
    close(run(func, a, b, machine=machine)[0], np.broadcast_to(a * 2 + b, shape))
