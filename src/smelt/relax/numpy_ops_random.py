"""The operators in numpy: random numbers, with Python's integers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from smelt.ir.dtype import to_numpy

from .numpy_ops import Array, numpy_op

MASK = (1 << 64) - 1
EVEN = ((14, 16), (23, 40), (25, 33), (58, 22))
ODD = ((52, 57), (5, 37), (46, 12), (32, 32))


def threefry(key: Sequence[int], counter: Sequence[int]) -> list[int]:
    """Threefry 4 x 64 with 20 rounds, two rounds at a time."""
    k = [*key, 0x1BD11BDAA9FC1A22 ^ key[0] ^ key[1] ^ key[2] ^ key[3]]
    x = [(a + b) & MASK for a, b in zip(counter, k, strict=False)]

    def mix(a: int, b: int, turn: int) -> None:
        x[a] = (x[a] + x[b]) & MASK
        x[b] = (x[b] << turn | x[b] >> 64 - turn) & MASK ^ x[a]

    for pair in range(10):
        mix(0, 1, EVEN[pair % 4][0])
        mix(2, 3, EVEN[pair % 4][1])
        mix(0, 3, ODD[pair % 4][0])
        mix(2, 1, ODD[pair % 4][1])
        if pair % 2:
            s = pair // 2 + 1
            x = [(v + k[(s + j) % 5]) & MASK for j, v in enumerate(x)]
            x[3] = (x[3] + s) & MASK
    return x


def _words(key: Array, count: int) -> tuple[Array, list[int]]:
    """The key's successor and the words."""
    k = [int(v) for v in key]
    counter, blocks = k[6] << 64 | k[7], -(-count // 4)
    words: list[int] = []
    for c in range(counter, counter + blocks):
        words += threefry(k[:4], [k[4], k[5], c >> 64 & MASK, c & MASK])
    after = counter + blocks
    successor = [*k[:6], after >> 64 & MASK, after & MASK, *k[8:]]
    return np.array(successor, np.uint64), words[:count]


@numpy_op
def threefry_generate(key: Array, *, shape: Sequence[int]) -> tuple[Array, Array]:
    """Hashes of the counter."""
    successor, words = _words(key, math.prod(shape))
    return successor, np.array(words, np.uint64).reshape(shape)


@numpy_op
def threefry_split(key: Array) -> tuple[Array, Array]:
    """A bit appended to the path, or a key that is the hash of path and counter."""
    k = [int(v) for v in key]
    path, position = k[4] << 64 | k[5], k[8] << 64 | k[9]
    counter = k[6:8]
    if not position:
        k[:4] = threefry(k[:4], k[4:8])
        path, position, counter = 0, 1 << 127, [0, 0]
    after = position >> 1
    keys = [[*k[:4], p >> 64, p & MASK, *counter, after >> 64, after & MASK]
            for p in (path, path | position)]  # fmt: skip
    return np.array(keys[0], np.uint64), np.array(keys[1], np.uint64)


def _fractions(words: Sequence[int], digits: int, least: int = 0) -> Array:
    return np.array([math.ldexp((w >> 64 - digits) + least, -digits) for w in words])


@numpy_op
def uniform(
    key: Array, low: Array, high: Array, *, shape: Sequence[int], dtype: str
) -> tuple[Array, Array]:
    """low + u * (high - low)."""
    successor, words = _words(key, math.prod(shape))
    u = _fractions(words, 24 if dtype == "float32" else 53).reshape(shape)
    return successor, np.asarray(low + u.astype(to_numpy(dtype)) * (high - low), to_numpy(dtype))


@numpy_op
def normal(
    key: Array, mean: Array, scale: Array, *, shape: Sequence[int], dtype: str
) -> tuple[Array, Array]:
    """Box and Muller."""
    successor, words = _words(key, 2 * math.prod(shape))
    digits = 24 if dtype == "float32" else 53
    u, v = _fractions(words[::2], digits, 1), _fractions(words[1::2], digits)
    z = (np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)).reshape(shape)
    return successor, np.asarray(mean + scale * z, to_numpy(dtype))


@numpy_op
def multinomial(key: Array, probs: Array, *, num_samples: int, dtype: str) -> tuple[Array, Array]:
    """One sample after the other."""
    shape = (*probs.shape[:-1], num_samples)
    successor, words = _words(key, math.prod(shape))
    u = _fractions(words, 52).reshape(shape)
    out = np.empty(shape, to_numpy(dtype))
    for row in np.ndindex(*shape[:-1]):
        running = np.cumsum(probs[row].astype(np.float64))
        for i in range(num_samples):
            above = np.flatnonzero(running > u[(*row, i)] * running[-1])
            out[(*row, i)] = above[0] if above.size else probs.shape[-1] - 1
    return successor, out
