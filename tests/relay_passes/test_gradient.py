"""Reverse-mode derivatives, against differences of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt
from smelt.ir.errors import SmeltError, Unsupported
from smelt.ir.node import postorder
from smelt.relax.graph_op import of_dialect
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Call

from .programs import op_names, relay

T = relay.transform
RNG = np.random.default_rng(3)


def check(params: list[Any], body: Any, low: float = -1.0) -> None:
    """All derivatives agree with central differences in float64."""
    f = relay.Function(params, body)
    g = T.gradient(f)
    given = [RNG.uniform(low, 1.0, [int(e.value) for e in p.type.shape]) for p in params]
    found = interpret(g, *given)
    value, derivatives = found[0], found[1]
    np.testing.assert_allclose(value, interpret(f, *given)[0])
    for i, x in enumerate(given):
        assert derivatives[i].shape == x.shape
        for at in list(np.ndindex(x.shape))[:12]:
            sides = []
            for step in (1e-5, -1e-5):
                moved = [a.copy() for a in given]
                moved[i][at] += step
                sides.append(interpret(f, *moved)[0].sum())
            assert derivatives[i][at] == pytest.approx((sides[0] - sides[1]) / 2e-5, abs=1e-4)


def var(name: str, *shape: int) -> Any:
    return relay.var(name, shape=shape, dtype="float64")


UNARY = ["negative", "exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "sin", "cos", "abs", "erf"]


@pytest.mark.parametrize("name", UNARY)
def test_one_operand(name: str) -> None:
    x = var("x", 3, 4)
    check([x], getattr(relay, name)(x), low=0.2)


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "power", "maximum",
                                  "minimum"])  # fmt: skip
def test_two_operands_that_broadcast(name: str) -> None:
    x, y = var("x", 2, 3, 4), var("y", 3, 1)
    check([x, y], getattr(relay, name)(x, y), low=0.2)


@pytest.mark.parametrize(
    "build",
    [
        lambda x: relay.nn.relu(x) * x,
        lambda x: relay.reshape(x, newshape=(6, 4)) * 2.0,
        lambda x: relay.transpose(x, axes=(2, 0, 1)) * relay.transpose(x, axes=(2, 0, 1)),
        lambda x: relay.sum(x * x, axis=1) * 3.0,
        lambda x: relay.mean(x * x, axis=(0, 2), keepdims=True) + x,
        lambda x: relay.nn.softmax(x) * x,
        lambda x: relay.nn.log_softmax(x, axis=1) * x,
        lambda x: relay.concatenate([x, x * x], axis=1) * 2.0,
        lambda x: relay.clip(x, -0.3, 0.4) * x,
        lambda x: relay.squeeze(relay.expand_dims(x, axis=0), axis=[0]) * x,
        lambda x: relay.broadcast_to(relay.sum(x, axis=0, keepdims=True), shape=(5, 3, 4)),
        lambda x: relay.where(relay.greater(x, relay.zeros((2, 3, 4), "float64")), x * x, x),
    ],
)
def test_shapes_and_sums(build: Callable[[Any], Any]) -> None:
    x = var("x", 2, 3, 4)
    check([x], build(x))


def test_items_of_a_split() -> None:
    x = var("x", 2, 6)
    a, _, c = relay.split(x, 3, axis=1)
    check([x], a * c)


def test_products_of_matrices() -> None:
    x, w, b = var("x", 3, 4), var("w", 5, 4), var("b", 5)
    check([x, w, b], relay.tanh(relay.nn.bias_add(relay.nn.dense(x, w), b, axis=-1)))
    p, q = var("p", 2, 3, 4), var("q", 2, 5, 4)
    check([p, q], relay.nn.batch_matmul(p, q))
    m, n = var("m", 4, 3), var("n", 5, 4)
    check([m, n], relay.nn.matmul(m, n, transpose_a=True, transpose_b=True))


@pytest.mark.parametrize(
    "attrs",
    [
        {"padding": (1, 1)},
        {"strides": (2, 2)},
        {"strides": (2, 3), "padding": (1, 0, 2, 1), "dilation": (2, 1)},
        {"groups": 2},
    ],
)
def test_convolutions(attrs: dict[str, Any]) -> None:
    x, w = var("x", 2, 4, 7, 8), var("w", 6, 4 // attrs.get("groups", 1), 3, 2)
    check([x, w], relay.tanh(relay.nn.conv2d(x, w, **attrs)))


def test_convolutions_of_other_ranks_and_layouts() -> None:
    x, w = var("x", 1, 5, 4, 3), var("w", 3, 2, 3, 5)
    y = relay.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO", padding=(1, 1))
    check([x, w], relay.tanh(y))
    x, w = var("x", 1, 4, 9), var("w", 2, 4, 3)
    check([x, w], relay.tanh(relay.nn.conv1d(x, w, strides=2, padding=1)))
    x, w = var("x", 1, 2, 4, 3, 5), var("w", 3, 2, 2, 3, 2)
    check([x, w], relay.tanh(relay.nn.conv3d(x, w, padding=(1, 0, 1))))


@pytest.mark.parametrize(
    "build",
    [
        lambda x: relay.nn.leaky_relu(x, alpha=0.3) * x,
        lambda x: relay.nn.prelu(x, relay.const(np.array([0.5, 2.0]))) * x,
        lambda x: relay.std(x, axis=2),
        lambda x: relay.nn.l2_normalize(x, eps=1e-3, axis=[1]) * x,
        lambda x: relay.strided_slice(x, begin=[1, 4], end=[2, 0], strides=[1, -2], axes=[0, 3]),
        lambda x: relay.strided_slice(x, begin=[1], end=[6], strides=[3], axes=[2]),
        lambda x: relay.nn.pad(x, pad_width=((0, 0), (1, 0), (0, 2), (0, 0)), pad_value=1.0),
        lambda x: relay.stack([x, x * x], axis=1),
        lambda x: relay.sum(x * x, axis=[1], exclude=True),
        lambda x: relay.nn.batch_flatten(relay.nn.global_avg_pool2d(x * x)),
        lambda x: relay.nn.max_pool2d(x, pool_size=(2, 2), dilation=(2, 1), ceil_mode=True),
        lambda x: relay.nn.avg_pool2d(x, pool_size=(2, 2), strides=(2, 2), layout="NCHW"),
        lambda x: relay.nn.fast_softmax(relay.nn.batch_flatten(x)),
        lambda x: relay.layout_transform(x * x, "NCHW", "NHWC"),
    ],
)  # fmt: skip
def test_operators_that_others_make(build: Callable[[Any], Any]) -> None:
    x = var("x", 2, 2, 6, 5)
    check([x], relay.tanh(build(x)))


def test_the_result_is_in_words_of_relay() -> None:
    x, w = var("x", 1, 4, 7, 7), var("w", 6, 4, 3, 3)
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, w, padding=(1, 1)), var("b", 6)))
    y = relay.nn.avg_pool2d(relay.nn.max_pool2d(y, pool_size=(2, 2)), pool_size=(3, 3))
    f = T.gradient(relay.Function([x, w], relay.nn.softmax(relay.nn.batch_flatten(y))))
    assert all(of_dialect(n.op) for n in postorder(f) if isinstance(n, Call))
    names = op_names(f)
    assert names.count("nn.conv2d") == names.count("nn.max_pool2d") == 1  # computed once


def test_derivatives_can_be_derived() -> None:
    x, w = var("x", 3, 4), var("w", 5, 4)
    f = T.gradient(relay.Function([x, w], relay.tanh(relay.nn.dense(x, w))))
    check([x, w], f.body.fields[1].fields[1])
    a, b = relay.split(x, 2, axis=1)
    f = T.gradient(relay.Function([x], relay.exp(a * b)))
    check([x], f.body.fields[1].fields[0])


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_pooling(kind: str) -> None:
    x = var("x", 1, 2, 6, 6)
    pool = getattr(relay.nn, f"{kind}_pool2d")
    check([x], relay.tanh(pool(x, pool_size=(3, 2), strides=(2, 1), padding=(1, 0))))


def test_names_and_closures_are_resolved() -> None:
    x, v, p = var("x", 3), var("v", 3), var("p", 3)
    f = relay.Function([p], relay.exp(p))
    check([x], relay.Let(v, relay.Call(f, [x]), v * v))


def test_what_is_not_used_has_no_slope() -> None:
    x, y = var("x", 2), var("y", 3)
    _, (_, dy) = interpret(T.gradient(relay.Function([x, y], x * x)), np.ones(2), np.ones(3))
    np.testing.assert_array_equal(dy, np.zeros(3))


def test_a_pass_for_whole_modules() -> None:
    x = var("x", 3)
    made = T.FirstOrderGradient()(smelt.IRModule.from_expr(relay.Function([x], x * x)))
    lib = T.SimplifyExpr()(made)["main"]
    _, (d,) = interpret(lib, np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(d, [2.0, 4.0, 6.0])


def test_what_has_no_rule() -> None:
    x = var("x", 1, 6, 6, 4)
    f = relay.Function([x], relay.cumsum(x, axis=0))
    with pytest.raises(Unsupported, match=r"cumsum has no rule; nearest: sum.*; rules: abs, add"):
        T.gradient(f)
    with pytest.raises(SmeltError, match="mode='third_order'"):
        T.gradient(f, mode="third_order")
    with pytest.raises(SmeltError, match="takes a Function, not RelayVar"):
        T.gradient(x)
