"""Small networks for tests, trained on scikit-learn's digits by smelt's own derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from sklearn.datasets import load_digits

import smelt
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax.compose.common import extents, shape_of
from smelt.relax.derivative import derivatives
from smelt.relax.nodes import Function, RelaxExpr, Tuple, Var, call, constant

Net = Callable[[RelaxExpr, Sequence[RelaxExpr]], RelaxExpr]
BATCH = 32


def conv(x: RelaxExpr, w: RelaxExpr, b: RelaxExpr, groups: int = 1, stride: int = 1) -> RelaxExpr:
    """A convolution that keeps the size, or halves it, and a bias."""
    k = extents(w)[-1] or 1
    y = call("conv2d", x, w, strides=(stride, stride), pads=(k // 2,) * 4, groups=groups)
    return call("add", y, b)


def plain(x: RelaxExpr, w: Sequence[RelaxExpr]) -> RelaxExpr:
    """Convolutions with a residual connection."""
    h = call("relu", conv(x, w[0], w[1]))
    h = call("relu", call("add", conv(h, w[2], w[3]), h))
    h = call("relu", conv(h, w[4], w[5], stride=2))
    h = call("mean", h, axes=(2, 3), keepdims=False)
    return call("add", call("matmul", h, w[6]), w[7])


def separable(x: RelaxExpr, w: Sequence[RelaxExpr]) -> RelaxExpr:
    """Depthwise convolutions and those of single pixels."""
    h = call("relu", conv(x, w[0], w[1]))
    h = call("relu", conv(h, w[2], w[3], groups=16))
    h = call("relu", conv(h, w[4], w[5]))
    h = call("relu", conv(h, w[6], w[7], groups=32, stride=2))
    h = call("relu", conv(h, w[8], w[9]))
    h = call("mean", h, axes=(2, 3), keepdims=False)
    return call("add", call("matmul", h, w[10]), w[11])


def dense(x: RelaxExpr, w: Sequence[RelaxExpr]) -> RelaxExpr:
    """A perceptron with two hidden layers."""
    h = call("reshape", x, shape=(shape_of(x)[0], 64))
    h = call("relu", call("add", call("matmul", h, w[0]), w[1]))
    h = call("relu", call("add", call("matmul", h, w[2]), w[3]))
    return call("add", call("matmul", h, w[4]), w[5])


NETS: dict[str, tuple[Net, list[tuple[int, ...]]]] = {
    "plain": (plain, [(16, 1, 3, 3), (16, 1, 1), (16, 16, 3, 3), (16, 1, 1), (32, 16, 3, 3),
                      (32, 1, 1), (32, 10), (10,)]),
    "separable": (separable, [(16, 1, 3, 3), (16, 1, 1), (16, 1, 3, 3), (16, 1, 1), (32, 16, 1, 1),
                              (32, 1, 1), (32, 1, 3, 3), (32, 1, 1), (64, 32, 1, 1), (64, 1, 1),
                              (64, 10), (10,)]),
    "dense": (dense, [(64, 64), (64,), (64, 32), (32,), (32, 10), (10,)]),
}  # fmt: skip


@cache
def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pictures and labels to train with, and those that no training has seen."""
    found = load_digits()
    x = (found.images / 16).astype("float32")[:, None]
    order = np.random.default_rng(1).permutation(len(x))
    x, y = x[order], found.target[order]
    return x[:1200], y[:1200], x[1200:], y[1200:]


@cache
def trained(name: str) -> tuple[IRModule, list[np.ndarray]]:
    """A network that was trained, for any number of pictures, and its weights."""
    net, shapes = NETS[name]
    rng = np.random.default_rng(0)
    weights = [_start(s, rng) for s in shapes]
    step = smelt.compile(_training(net, shapes))
    x, y, *_ = digits()
    onehot = np.eye(10, dtype="float32")[y]
    speed = [np.zeros_like(w) for w in weights]
    for epoch in range(25):
        rate = 0.1 if epoch < 18 else 0.02
        order = rng.permutation(len(x) // BATCH * BATCH).reshape(-1, BATCH)
        for rows in order:
            _, *changes = step(x[rows], onehot[rows], *weights)
            for w, v, d in zip(weights, speed, changes, strict=True):
                v[...] = 0.9 * v - rate * d.numpy()
                w += v
    return inference(name, weights), weights


def inference(name: str, weights: list[np.ndarray]) -> IRModule:
    """The network on pictures one by one."""
    x = Var("x", tensor_type((1, 1, 8, 8), "float32"))
    made = [constant(w, f"w{n}") for n, w in enumerate(weights)]
    f = Function((x,), NETS[name][0](x, made), {"output_names": ("logits",)})
    return IRModule({"main": f})


def _start(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if len(shape) < 2 or shape[1:] == (1, 1):
        return np.zeros(shape, "float32")
    fan = int(np.prod(shape[1:])) if len(shape) == 4 else shape[0]
    made: np.ndarray = (rng.standard_normal(shape) * np.sqrt(2 / fan)).astype("float32")
    return made


def _training(net: Net, shapes: list[tuple[int, ...]]) -> IRModule:
    """Loss and derivatives of one batch."""
    x = Var("x", tensor_type((BATCH, 1, 8, 8), "float32"))
    y = Var("y", tensor_type((BATCH, 10), "float32"))
    params = [Var(f"w{n}", tensor_type(s, "float32")) for n, s in enumerate(shapes)]
    log = call("log_softmax", net(x, params), axis=1)
    loss = call("negative", call("sum", call("multiply", log, y), axes=None, keepdims=False))
    loss = call("multiply", loss, constant(np.asarray(1 / BATCH, np.float32)))
    body = Tuple((loss, *derivatives(loss, params)))
    return IRModule({"main": Function((x, y, *params), body)})


def accuracy(mod: IRModule) -> float:
    """The share of unseen pictures with the right digit, in percent."""
    exe = smelt.compile(mod)
    *_, x, y = digits()
    found = [int(exe(p[None]).numpy().argmax()) for p in x]
    return 100 * float(np.mean(np.array(found) == y))
