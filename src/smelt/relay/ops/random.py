"""Random numbers from keys: each operator gives the key's successor and the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.relax.nodes import Constant, RelaxExpr, constant

from ..dialect import const, make, relay_function, same, wrapped


@relay_function("random.threefry_key")
def threefry_key(seed: int) -> Constant:
    """A key for a number."""
    words = [int(seed) >> (64 * i) & (2**64 - 1) for i in range(4)]
    return constant(np.array([*words, 0, 0, 0, 0, 1 << 63, 0], "uint64"))


_DRAWN: Any = {"renamed": "out_shape=shape out_dtype=dtype", "results": 2,
               "required": "out_shape", "out_dtype": "float32"}  # fmt: skip
same("random.threefry_generate", "key", core="threefry_generate", renamed="out_shape=shape",
     results=2, required="out_shape")  # fmt: skip
same("random.threefry_split", "key", core="threefry_split", results=2)
same("random.uniform", "key low high", core="uniform", **_DRAWN)
same("random.normal", "key mean scale", core="normal", **_DRAWN)
same("random.multinomial", "key probs", core="multinomial", results=2, num_samples=1)


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
