"""Random numbers from keys: each operator gives the key's successor and the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.relax.compose.common import items_of
from smelt.relax.nodes import Constant, RelaxExpr, call, constant

from ..dialect import const, make, relay_function, relay_op, wrapped


@relay_function("random.threefry_key")
def threefry_key(seed: int) -> Constant:
    """A key for a number."""
    words = [int(seed) >> (64 * i) & (2**64 - 1) for i in range(4)]
    return constant(np.array([*words, 0, 0, 0, 0, 1 << 63, 0], "uint64"))


@relay_op("random.threefry_generate", results=2)
def threefry_generate(key: RelaxExpr, *, out_shape: Any) -> list[RelaxExpr]:
    """Random uint64 words."""
    return items_of(call("threefry_generate", key, shape=tuple(out_shape)))


@relay_op("random.threefry_split", results=2)
def threefry_split(key: RelaxExpr) -> list[RelaxExpr]:
    """Two keys in place of one."""
    return items_of(call("threefry_split", key))


@relay_op("random.uniform", results=2)
def uniform(
    key: RelaxExpr, low: RelaxExpr, high: RelaxExpr, *, out_shape: Any, out_dtype: str = "float32"
) -> list[RelaxExpr]:
    """Numbers from low to high, all equally likely."""
    return items_of(call("uniform", key, low, high, shape=tuple(out_shape), dtype=out_dtype))


@relay_op("random.normal", results=2)
def normal(
    key: RelaxExpr, mean: RelaxExpr, scale: RelaxExpr, *, out_shape: Any, out_dtype: str = "float32"
) -> list[RelaxExpr]:
    """Numbers of a normal distribution."""
    return items_of(call("normal", key, mean, scale, shape=tuple(out_shape), dtype=out_dtype))


@relay_op("random.multinomial", results=2)
def multinomial(key: RelaxExpr, probs: RelaxExpr, *, num_samples: int = 1) -> list[RelaxExpr]:
    """Indices drawn with given weights."""
    return items_of(call("multinomial", key, probs, num_samples=num_samples))


def _two(name: str, key: Any, a: Any, b: Any, shape: Any, dtype: str) -> Any:
    given = [v if isinstance(v, RelaxExpr) else const(v, dtype) for v in (a, b)]
    return wrapped(make(name, key, *given, out_shape=tuple(shape), out_dtype=dtype))


@relay_function("random.uniform")
def build_uniform(
    key: Any, shape: Any, dtype: str = "float32", low: Any = 0.0, high: Any = 1.0
) -> Any:
    """Numbers from low to high: (the key's successor, numbers)."""
    return _two("random.uniform", key, low, high, shape, dtype)


@relay_function("random.normal")
def build_normal(
    key: Any, shape: Any, dtype: str = "float32", mean: Any = 0.0, scale: Any = 1.0
) -> Any:
    """Numbers of a normal distribution: (the key's successor, numbers)."""
    return _two("random.normal", key, mean, scale, shape, dtype)
