"""Symbolic sizes, and sizes that are operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import relay
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Call, Function, Tuple
from smelt.relax.transform.expand_ops import to_static

from .support import Array, floats, run, same

# operators on [n, 4, 6] of unknown n, and what they give
SYMBOLIC: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Any]]] = {
    "reshape": (lambda x: relay.reshape(x, (-1, 8)), lambda x: x.reshape(-1, 8)),
    "reshape 0": (lambda x: relay.reshape(x, (0, 2, -1)), lambda x: x.reshape(len(x), 2, -1)),
    "reshape -3": (lambda x: relay.reshape(x, (-3, 0)), lambda x: x.reshape(-1, 6)),
    "reshape -4": (lambda x: relay.reshape(x, (0, -4, 2, -1, -2)),
                   lambda x: x.reshape(len(x), 2, 2, 6)),
    "reshape -1 first": (lambda x: relay.reshape(x, (-1, 4, 6)), lambda x: x),
    "batch_flatten": (relay.nn.batch_flatten, lambda x: x.reshape(len(x), 24)),
    "transpose": (lambda x: relay.transpose(x, (2, 0, 1)), lambda x: x.transpose(2, 0, 1)),
    "split": (lambda x: relay.split(x, 2, 1)[1], lambda x: x[:, 2:]),
    "slice": (lambda x: relay.strided_slice(x, [0, 1], [2**31 - 1, -1]), lambda x: x[:, 1:-1]),
    "slice 1": (lambda x: relay.strided_slice(x, [1], [-1], axes=[0]), lambda x: x[1:-1]),
    "take": (lambda x: relay.take(x, relay.const([0, 9]), axis=0),
             lambda x: np.take(x, [0, 9], 0, mode="clip")),
    "concatenate": (lambda x: relay.concatenate([x, x], 0), lambda x: np.concatenate([x, x])),
    "stack": (lambda x: relay.stack([x, x], -1), lambda x: np.stack([x, x], -1)),
    "mean": (lambda x: relay.mean(x, 0), lambda x: x.mean(0)),
    "softmax": (lambda x: relay.nn.softmax(x, 0), lambda x: np.exp(x) / np.exp(x).sum(0)),
    "shape_of": (relay.shape_of, lambda x: np.array(x.shape, "int32")),
    "ndarray_size": (relay.ndarray_size, lambda x: np.array(x.size, "int32")),
    "zeros_like": (relay.zeros_like, np.zeros_like),
    "layer_norm": (lambda x: relay.nn.layer_norm(x, relay.const(np.ones(6, "float32")),
                                                 relay.const(np.zeros(6, "float32"))),
                   lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(
                       x.var(-1, keepdims=True) + 1e-5)),
    "dense": (lambda x: relay.nn.dense(x, relay.const(floats(3, 6))), lambda x: x @ floats(3, 6).T),
}  # fmt: skip


def test_operators_on_a_size_that_is_not_known() -> None:
    x = relay.var("x", shape=(relay.Any(), 4, 6))
    made = [build(x) for build, _ in SYMBOLIC.values()]
    f = Function((x,), Tuple(tuple(made)))
    exe = smelt.compile(relay.IRModule.from_expr(f))
    for n in (3, 5):
        given = floats(n, 4, 6)
        results = [x.numpy() for x in exe(given)]
        for name, ours, theirs, (_, want) in zip(
            SYMBOLIC, results, interpret(f, given), SYMBOLIC.values(), strict=True
        ):
            same(theirs, want(given), 2e-6, name)
            same(ours, want(given), 2e-6, name)


def test_the_interpreter_takes_sizes_from_data() -> None:
    x, shape = relay.var("x", shape=(2, 6)), relay.var("s", shape=(2,), dtype="int64")
    y = relay.nn.relu(relay.reshape(x, shape))
    given = floats(2, 6)
    same(run(y, given, np.array([3, 4]))[0], np.maximum(given, 0).reshape(3, 4))
    z = relay.argwhere(x)
    assert run(z, np.eye(2, 6, dtype="float32"))[0].tolist() == [[0, 0], [1, 1]]


def test_a_call_becomes_static_where_sizes_are_known() -> None:
    x, y = relay.var("x", shape=(2, 6)), relay.var("y", shape=(3, 4))
    dynamic = relay.reshape(x, relay.shape_of(y))
    assert isinstance(dynamic, Call)
    static = to_static(dynamic)
    assert isinstance(static, Call)
    assert relay.op.name_of(static.op) == "reshape"  # type: ignore[arg-type]
    assert static.attrs["newshape"] == (3, 4)
    assert to_static(relay.nn.relu(x)) is None
    assert to_static(relay.reshape(x, relay.var("s", shape=(2,), dtype="int32"))) is None


@pytest.mark.parametrize("count", [2, 3])
def test_results_can_be_unpacked_before_types_are_known(count: int) -> None:
    parts = relay.split(relay.var("x"), count)
    assert len(parts) == count
    assert len(relay.nn.batch_norm(*[relay.var(n) for n in "abcde"])) == 3
    assert len(relay.topk(relay.var("x"))) == 2
