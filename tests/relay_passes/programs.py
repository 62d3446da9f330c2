"""Random Relay programs, and what it means that a pass keeps their results."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import smelt
from smelt import relay as relay_face
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Call, Function
from smelt.topi.registry import Op

Array = np.ndarray

relay: Any = relay_face
"""Its classes are names for nodes of the core, which a type checker does not see through."""


def array(rng: random.Random, *shape: int, low: float = -1.0, high: float = 1.0) -> Array:
    made = np.random.default_rng(rng.randrange(1 << 30)).uniform(low, high, shape)
    return made.astype("float32")


class Programs:
    """Builds a program step by step from values of two kinds: images and rows."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.image_var = relay.var("x", shape=(1, 4, 6, 6))
        self.row_var = relay.var("r", shape=(3, 8))
        self.flag = relay.var("c", shape=(), dtype="bool")
        self.images: list[Any] = [self.image_var]
        self.rows: list[Any] = [self.row_var]

    def program(self, steps: int, *, scopes: bool = True) -> Any:
        image = [self.conv, self.pool, self.norm, self.bias, self.join, self.scale, self.unary]
        rows = [self.dense, self.cut, self.softmax, self.row_sum, self.row_unary, self.shapes]
        kinds: list[Callable[[], None]] = [*image, *rows]
        if scopes:
            kinds += [self.branch, self.closure]
        for _ in range(steps):
            self.rng.choice(kinds)()
        body = relay.Tuple([*self.images[-3:], *self.rows[-3:]])
        if scopes and self.rng.random() < 0.5:
            v = relay.var("v", self.images[-1].type)
            body = relay.Let(
                v, self.images[-1], relay.Tuple([v + v, *self.images[-3:], *self.rows[-3:]])
            )
        return relay.Function([self.image_var, self.row_var, self.flag], body)

    def image(self) -> Any:
        return self.rng.choice(self.images[-3:])

    def row(self) -> Any:
        return self.rng.choice(self.rows[-3:])

    def conv(self) -> None:
        w = relay.const(array(self.rng, 4, 4, 3, 3))
        y = relay.nn.conv2d(self.image(), w, padding=(1, 1), channels=4, kernel_size=(3, 3))
        self.images.append(y)

    def pool(self) -> None:
        fn = self.rng.choice([relay.nn.max_pool2d, relay.nn.avg_pool2d])
        self.images.append(fn(self.image(), pool_size=(3, 3), padding=(1, 1)))

    def norm(self) -> None:
        r = self.rng
        stats = [array(r, 4), array(r, 4), array(r, 4), array(r, 4, low=0.5, high=2.0)]
        self.images.append(relay.nn.batch_norm(self.image(), *map(relay.const, stats))[0])

    def bias(self) -> None:
        self.images.append(relay.nn.bias_add(self.image(), relay.const(array(self.rng, 4))))

    def join(self) -> None:
        a, b = self.image(), self.image()
        whole = relay.concatenate([a, b], axis=1)
        first, second = relay.split(whole, 2, axis=1)
        self.images.append(self.rng.choice([first, second, a + b]))

    def scale(self) -> None:
        self.images.append(self.image() * relay.const(array(self.rng, 4, 1, 1, low=0.2)))

    def unary(self) -> None:
        fn = self.rng.choice([relay.nn.relu, relay.tanh, relay.sigmoid, relay.negative])
        self.images.append(fn(self.image()))

    def dense(self) -> None:
        self.rows.append(relay.nn.dense(self.row(), relay.const(array(self.rng, 8, 8))))

    def cut(self) -> None:
        a, b = relay.split(self.row(), 2, axis=1)
        self.rows.append(relay.concatenate([b, a], axis=1))

    def softmax(self) -> None:
        self.rows.append(relay.nn.softmax(self.row()))

    def row_sum(self) -> None:
        self.rows.append(self.row() - relay.mean(self.row(), axis=1, keepdims=True))

    def row_unary(self) -> None:
        fn = self.rng.choice([relay.nn.relu, relay.exp, relay.erf, relay.abs])
        self.rows.append(fn(relay.clip(self.row(), -4.0, 4.0)))

    def shapes(self) -> None:
        x = relay.reshape(relay.transpose(self.row(), axes=(1, 0)), newshape=(3, 8))
        self.rows.append(relay.squeeze(relay.expand_dims(x, axis=0), axis=[0]))

    def branch(self) -> None:
        a, b = self.row(), self.row()
        self.rows.append(relay.If(self.flag, relay.nn.relu(a) + b, b * 0.5))

    def closure(self) -> None:
        p = relay.var("p", shape=(3, 8))
        f = relay.Function([p], relay.tanh(p) + self.row())
        self.rows.append(relay.Call(f, [self.row()]))


def program(seed: int, steps: int = 8, *, scopes: bool = True) -> Any:
    return Programs(seed).program(steps, scopes=scopes)


def module(seed: int, steps: int = 8, *, scopes: bool = True) -> Any:
    return smelt.IRModule.from_expr(program(seed, steps, scopes=scopes))


def inputs(seed: int) -> list[Any]:
    rng = random.Random(seed)
    return [array(rng, 1, 4, 6, 6), array(rng, 3, 8), np.asarray(rng.random() < 0.5)]


def results(mod: Any, given: list[Any]) -> list[Any]:
    return interpret(mod["main"], *given, module=mod)


def agree(before: Any, after: Any, seed: int, tolerance: float = 1e-5) -> None:
    """The interpreter gives the same before and after."""
    given = inputs(seed)
    for a, b in zip(results(before, given), results(after, given), strict=True):
        top = max(float(np.abs(a).max()), 1e-3)
        assert np.abs(a.astype("float32") - b.astype("float32")).max() <= tolerance * top


def op_names(e: Any) -> list[str]:
    """The names of the operators called, in the order of the graph."""
    found: list[str] = []
    relay.analysis.post_order_visit(
        e["main"] if isinstance(e, smelt.IRModule) else e,
        lambda n: found.append(n.op.name) if isinstance(n, Call) and isinstance(n.op, Op) else None,
    )
    return found


def functions_in(e: Any) -> list[Any]:
    found: list[Any] = []
    relay.analysis.post_order_visit(
        e, lambda n: found.append(n) if isinstance(n, Function) and n is not e else None
    )
    return found
