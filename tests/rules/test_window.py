"""The rule for depthwise convolutions and pooling."""

from __future__ import annotations

import numpy as np
import pytest

from smelt import te
from smelt.rules.cpu import plan, schedule
from smelt.target import Machine
from smelt.te import Tensor
from smelt.tir.printer import script
from smelt.topi.registry import get_op

from .build import (
    NARROW,
    NCHW,
    NHWC,
    ONE,
    TWO,
    Array,
    Order,
    close,
    data,
    laid_out,
    made,
    run,
    tasks_an_image,
)  # fmt: skip


def depthwise(x: Array, w: Array, stride: int, pad: int, dilation: int = 1) -> Array:
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad))).astype("float64")
    k = w.shape[2]
    size = (x.shape[2] - dilation * (k - 1) - 1) // stride + 1
    out = np.zeros((*x.shape[:2], size, size))
    for a in range(k):
        for b in range(k):
            i, j = a * dilation, b * dilation
            end = (size - 1) * stride + 1
            out += x[:, :, i : i + end : stride, j : j + end : stride] * w[:, 0, a, b, None, None]
    return out.astype("float32")


def clipped(y: Tensor, b: Tensor) -> Tensor:
    """Bias, then relu6."""
    z: Tensor = te.compute(
        y.shape,
        lambda n, c, i, j: te.minimum(te.maximum(y[n, c, i, j] + b[c, 0, 0], 0.0), 6.0),
        name="z",
    )
    return z


@pytest.mark.parametrize("order", [NHWC, NCHW])
@pytest.mark.parametrize(
    ("c", "h", "k", "stride", "pad", "dilation"),
    [
        (32, 14, 3, 1, 1, 1), (37, 13, 3, 1, 1, 1), (48, 13, 3, 2, 1, 1), (3, 9, 3, 1, 1, 1),
        (24, 12, 5, 2, 2, 1), (16, 14, 7, 1, 3, 1), (20, 15, 3, 1, 2, 2), (16, 8, 3, 1, 0, 1),
        (33, 30, 3, 1, 1, 1), (5, 4, 3, 1, 1, 1), (16, 3, 3, 1, 1, 1),
    ],
)  # fmt: skip
def test_depthwise(
    c: int, h: int, k: int, stride: int, pad: int, dilation: int, order: Order
) -> None:
    x, w = te.placeholder((1, c, h, h), name="x"), te.placeholder((c, 1, k, k), name="w")
    b = te.placeholder((c, 1, 1), name="b")
    y = get_op("conv2d")(
        x, w, strides=(stride,) * 2, pads=(pad,) * 4, dilations=(dilation,) * 2, groups=c
    )
    func = laid_out(made(x, w, b, clipped(y, b)), {"x": order, "z": order}, order)
    p, q, r = data(1, c, h, h), data(c, 1, k, k), data(c, 1, 1)
    expected = np.clip(depthwise(p, q, stride, pad, dilation) + r, 0, 6)
    packed = frozenset({"w"}) if order == NHWC else frozenset[str]()
    close(run(func, p, q, r, constants=packed)[0], expected)


@pytest.mark.parametrize("machine", [ONE, TWO, NARROW])
def test_weights_given_at_run_time(machine: Machine) -> None:
    x, w = te.placeholder((2, 40, 11, 11), name="x"), te.placeholder((40, 1, 3, 3), name="w")
    y = get_op("conv2d")(x, w, strides=(1, 1), pads=(1,) * 4, dilations=(1, 1), groups=40)
    func = laid_out(made(x, w, y), {"x": NHWC, "conv": NHWC}, NHWC)
    p, q = data(2, 40, 11, 11), data(40, 1, 3, 3)
    close(run(func, p, q, machine=machine)[0], depthwise(p, q, 1, 1))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    ("groups", "inputs", "outputs"),
    [(4, 2, 3), (8, 4, 4), (6, 8, 8), (5, 4, 8), (8, 1, 2), (4, 16, 16), (3, 4, 24), (4, 3, 6)],
)
def test_groups_of_channels(groups: int, inputs: int, outputs: int, stride: int) -> None:
    c, o = groups * inputs, groups * outputs
    x, w = te.placeholder((1, c, 9, 9), name="x"), te.placeholder((o, inputs, 3, 3), name="w")
    y = get_op("conv2d")(x, w, strides=(stride,) * 2, pads=(1,) * 4, groups=groups)
    p, q = data(1, c, 9, 9), data(o, inputs, 3, 3)
    parts = []
    for g in range(groups):
        own = p[:, g * inputs : (g + 1) * inputs]
        for f in q[g * outputs : (g + 1) * outputs]:
            parts.append(depthwise(own, f[:, None], stride, 1).sum(1))
    expected = np.stack(parts, 1)
    for order in (NCHW, NHWC):
        func = laid_out(made(x, w, y), {"x": order, "conv": order}, order)
        for machine in (ONE, TWO):
            close(run(func, p, q, machine=machine)[0], expected)


def test_columns_of_a_tile_are_no_parts_of_groups() -> None:
    """Where groups are the only other axis, loads depend on which one a column is in."""
    x, w = te.placeholder((1, 63, 7, 7), name="x"), te.placeholder((63, 7, 1, 1), name="w")
    y = get_op("conv2d")(x, w, strides=(1, 1), pads=(0,) * 4, groups=9)
    (part,) = plan(made(x, w, y), ONE, frozenset({"w"})).parts
    scored = next(s for sketch, s in part.scored if sketch.name == "window")
    assert {scored.decision(r)["columns"] for r in range(len(scored.order))} <= set(range(1, 8))
    assert part.choices[0].sketch.name == "contraction"


def pooled(x: Array, k: int, stride: int, pad: int, largest: bool, everything: bool) -> Array:
    inside = np.pad(np.ones(x.shape), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    fill = -np.inf if largest else 0
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=fill)
    size = (x.shape[2] - k) // stride + 1
    out = np.zeros((*x.shape[:2], size, size), x.dtype)
    for i in range(size):
        for j in range(size):
            at = (..., slice(i * stride, i * stride + k), slice(j * stride, j * stride + k))
            if largest:
                out[..., i, j] = x[at].max((2, 3))
            else:
                count = k * k if everything else inside[at].sum((2, 3))
                out[..., i, j] = x[at].sum((2, 3)) / count
    return out


@pytest.mark.parametrize("order", [NHWC, NCHW])
@pytest.mark.parametrize("kind", ["max", "avg", "avg with border"])
@pytest.mark.parametrize(
    ("c", "h", "k", "stride", "pad"),
    [(64, 14, 3, 2, 1), (37, 13, 2, 2, 0), (5, 9, 3, 1, 1), (32, 7, 7, 1, 0), (16, 10, 3, 3, 1)],
)
def test_pooling(kind: str, c: int, h: int, k: int, stride: int, pad: int, order: Order) -> None:
    x = te.placeholder((1, c, h, h), name="x")
    extra = {"count_include_pad": True} if kind == "avg with border" else {}
    op = get_op("max_pool" if kind == "max" else "avg_pool")
    y = op(x, kernel=(k, k), strides=(stride,) * 2, pads=(pad,) * 4, **extra)
    func = laid_out(made(x, y), {"x": order, y.name: order}, order)
    a = data(1, c, h, h)
    expected = pooled(a, k, stride, pad, kind == "max", bool(extra))
    close(run(func, a)[0], expected)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_symbolic_batch_is_pooled_in_registers(n: int) -> None:
    """The parallel loop has tasks enough for one image, and more with more of them."""
    size = te.size_var("n")
    x = te.placeholder((size, 64, 56, 56), name="x")
    y = get_op("max_pool")(x, kernel=(3, 3), strides=(2, 2), pads=(1,) * 4)
    func = laid_out(made(x, y), {"x": NHWC, y.name: NHWC}, NHWC)
    text = script(schedule(func, TWO).func)
    assert tasks_an_image(text) >= 4
    assert 'scope="local"' in text
    a = data(n, 64, 56, 56)
    close(run(func, a, sizes={"n": n})[0], pooled(a, 3, 2, 1, True, False))


def test_integer_and_double_pooling() -> None:
    for dtype in ("int32", "float64"):
        x = te.placeholder((1, 19, 9, 9), dtype, "x")
        y = get_op("max_pool")(x, kernel=(3, 3), strides=(2, 2))
        a = data(1, 19, 9, 9, dtype=dtype)
        func = laid_out(made(x, y), {"x": NHWC, y.name: NHWC}, NHWC)
        close(run(func, a)[0], pooled(a.astype("float64"), 3, 2, 0, True, False).astype(dtype))


def test_one_dimensional_pooling() -> None:
    x = te.placeholder((2, 10, 33), name="x")
    y = get_op("max_pool")(x, kernel=(3,), strides=(1,), pads=(1, 1))
    a = data(2, 10, 33)
    wide = np.pad(a, ((0, 0), (0, 0), (1, 1)), constant_values=-np.inf)
    close(run(made(x, y), a)[0], np.max([wide[..., i : i + 33] for i in range(3)], 0))
