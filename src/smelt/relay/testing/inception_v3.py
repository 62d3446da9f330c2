"""Inception v3 (Szegedy and others 2015): convolutions of several shapes side by side."""

from __future__ import annotations

from typing import Any

from smelt.relax.nodes import Function, RelaxExpr

from .. import op
from ..expr import var
from .layers import classifier, conv_block, network
from .workload import workload_of

# (channels, kernel, stride, padding) of one convolution after the other
Chain = tuple[tuple[int, Any, int, Any], ...]
WIDE, TALL = ((1, 7), (0, 3)), ((7, 1), (3, 0))


def chain(x: RelaxExpr, name: str, steps: Chain) -> RelaxExpr:
    """One convolution after the other."""
    for n, step in enumerate(steps):
        x = conv_block(x, f"{name}_{n + 1}", *step)
    return x


def one(channels: int) -> tuple[int, Any, int, Any]:
    """A convolution of one pixel."""
    return (channels, 1, 1, 0)


def long(channels: int, shape: tuple[Any, Any]) -> tuple[int, Any, int, Any]:
    """A convolution of a row or a column."""
    return (channels, shape[0], 1, shape[1])


def mixed(x: RelaxExpr, name: str, chains: tuple[Chain, ...], pool: int | None) -> RelaxExpr:
    """Chains side by side, and pooling: averaged into `pool` channels, or (None) the largest of
    every second place."""
    parts = [chain(x, f"{name}_{n + 1}", c) for n, c in enumerate(chains)]
    if pool is None:
        parts.append(op.nn.max_pool2d(x, (3, 3), (2, 2)))
    else:
        y = op.nn.avg_pool2d(x, (3, 3), (1, 1), padding=(1, 1), count_include_pad=True)
        parts.append(chain(y, f"{name}_pool", (one(pool),)))
    return op.concatenate(parts, axis=1)  # type: ignore[no-any-return]


def grids(x: RelaxExpr) -> RelaxExpr:
    """The blocks whose images are as large as those in front, and the two that halve them."""
    for n, pool in enumerate((32, 64, 64)):
        x = mixed(x, f"a{n}", (
            (one(64),), (one(48), (64, 5, 1, 2)), (one(64), (96, 3, 1, 1), (96, 3, 1, 1)),
        ), pool)  # fmt: skip
    x = mixed(x, "b", (((384, 3, 2, 0),), (one(64), (96, 3, 1, 1), (96, 3, 2, 0))), None)
    for n, c in enumerate((128, 160, 160, 192)):
        x = mixed(x, f"c{n}", (
            (one(192),), (one(c), long(c, WIDE), long(192, TALL)),
            (one(c), long(c, TALL), long(c, WIDE), long(c, TALL), long(192, WIDE)),
        ), 192)  # fmt: skip
    return mixed(x, "d", (
        (one(192), (320, 3, 2, 0)), (one(192), long(192, WIDE), long(192, TALL), (192, 3, 2, 0)),
    ), None)  # fmt: skip


def last(x: RelaxExpr, name: str) -> RelaxExpr:
    """A block whose chains end in a row beside a column."""
    row, column = (384, (1, 3), 1, (0, 1)), (384, (3, 1), 1, (1, 0))
    left = chain(x, f"{name}_2", (one(384),))
    right = chain(x, f"{name}_3", (one(448), (384, 3, 1, 1)))
    pooled = op.nn.avg_pool2d(x, (3, 3), (1, 1), padding=(1, 1), count_include_pad=True)
    parts = [chain(x, f"{name}_1", (one(320),))]
    for side, y in (("left", left), ("right", right)):
        parts += [chain(y, f"{name}_{side}_{n}", (c,)) for n, c in enumerate((row, column))]
    return op.concatenate([*parts, chain(pooled, f"{name}_pool", (one(192),))], axis=1)  # type: ignore[no-any-return]


def get_net(
    batch_size: int = 1, num_classes: int = 1000, image_shape: Any = (3, 299, 299),
    dtype: str = "float32",
) -> Function:  # fmt: skip
    """The network, without its auxiliary classifier."""
    x: RelaxExpr = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    x = chain(x, "stem1", ((32, 3, 2, 0), (32, 3, 1, 0), (64, 3, 1, 1)))
    x = op.nn.max_pool2d(x, (3, 3), (2, 2))
    x = chain(x, "stem2", (one(80), (192, 3, 1, 0)))
    x = grids(op.nn.max_pool2d(x, (3, 3), (2, 2)))
    x = last(last(x, "e0"), "e1")
    return network(classifier(op.nn.global_avg_pool2d(x), "fc", num_classes))


get_workload = workload_of(get_net)
