"""Random numbers as pure functions of a key: Threefry, a hash of a counter.

A key is ten uint64 words, as in Relay:

    words 0-3  the key of the hash
    words 4-5  the path: one bit for each split that led here, 1 for the right side
    words 6-7  the counter, the higher word first
    words 8-9  one bit set: where the next split writes into the path

A fresh key for a seed is (0, 0, 0, seed, 0, 0, 0, 0, 2 ** 63, 0). The four words of block number b
are the hash of (path, counter + b): Threefry with four words of 64 bits and 20 rounds (J. Salmon
and others, "Parallel random numbers: as easy as 1, 2, 3", 2011). Keys are split as K. Claessen and
M. Palka say ("Splittable pseudorandom number generators using cryptographic hashing", 2013). A key
that was used or split must not be used again: the results hold its successors.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import all_of, call, ceildiv, equal, select
from smelt.ir.expr import Expr, ExprLike, cast, const
from smelt.te.tensor import Tensor
from smelt.tir.nodes import Stmt

from .common import at, describe, extents, lies_over, one_of, require, row_major, tensor
from .program import Cell, loop_nest, once, product, program, seq, sharing, store, when
from .reduce import scan
from .reference import Array
from .registry import op
from .sort import searchsorted

WORD = "uint64"
KEY_WORDS = 10
BLOCK = 4
ROUNDS = 20
ROTATIONS = ((14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32))
"""Of the two mixes of a round; they repeat after eight rounds."""
PARITY = 0x1BD11BDAA9FC1A22
"""The fifth word of the key is this one and the other four, xor."""
DIGITS = {"float32": 24, "float64": 53}
"""Random binary digits of a number from 0 to 1."""
TOP = 63


def _key(key: Tensor) -> None:
    require(
        key.dtype == WORD and key.fixed_shape() == (KEY_WORDS,),
        f"key is {key.dtype} {describe(key.shape)}; a key is {WORD} [{KEY_WORDS}]",
    )


def _word(value: int) -> Expr:
    return const(value, WORD)


def _hashed(words: Sequence[Cell], key: Tensor) -> Stmt:
    """The words replaced by their hash."""
    own = [key[j] for j in range(BLOCK)]
    fifth = functools.reduce(functools.partial(call, "bitwise_xor"), [_word(PARITY), *own])
    schedule, order = [*own, fifth], list(words)
    steps = []

    def inject(s: int) -> None:
        for j, w in enumerate(order):
            added = schedule[(s + j) % (BLOCK + 1)]
            steps.append(w.set(w.value + (added + _word(s) if j == BLOCK - 1 else added)))

    for r in range(ROUNDS):
        if r % 4 == 0:
            inject(r // 4)
        for (a, b), turn in zip((order[:2], order[2:]), ROTATIONS[r % 8], strict=True):
            high = call("shift_left", b.value, _word(turn))
            low = call("shift_right", b.value, _word(64 - turn))
            steps.append(a.set(a.value + b.value))
            steps.append(b.set(call("bitwise_xor", call("bitwise_or", high, low), a.value)))
        order[1], order[3] = order[3], order[1]
    inject(ROUNDS // 4)
    return seq(*steps)


def _cells() -> list[Cell]:
    return [Cell(WORD, f"word{j}") for j in range(BLOCK)]


def _blocks(key: Tensor, count: Expr) -> Tensor:
    """The hashes of `count` values of the counter."""
    words = _cells()

    def body(result: Tensor) -> Stmt:
        def one(i: tuple[Expr, ...]) -> Stmt:
            low = key[7] + cast(WORD, i[0])
            start = [key[4], key[5], key[6] + cast(WORD, low < key[7]), low]
            begin = [w.set(v) for w, v in zip(words, start, strict=True)]
            kept = [store(result, (i[0], j), w.value) for j, w in enumerate(words)]
            return seq(*begin, _hashed(words, key), *kept)

        return loop_nest([count], words, one, sharing(count * 100), "block")

    return program([(count, BLOCK)], [WORD], [key], body, "threefry")[0]


def _successor(key: Tensor, count: Expr) -> Tensor:
    """The key with its counter behind the blocks that were used."""

    def body(i: Expr) -> Expr:
        low = key[7] + cast(WORD, count)
        high = key[6] + cast(WORD, low < key[7])
        return select(equal(i, 7), low, select(equal(i, 6), high, key[i]))

    return tensor((KEY_WORDS,), body, "threefry_key")


def _generated(key: Tensor, count: Expr) -> tuple[Tensor, Callable[[Expr], Expr]]:
    """The key's successor, and the random words by number."""
    _key(key)
    used = ceildiv(count, BLOCK)
    words = _blocks(key, used)
    return _successor(key, used), lambda i: words[i // BLOCK, i % BLOCK]


@op
def threefry_generate(key: Tensor, *, shape: tuple[ExprLike, ...]) -> tuple[Tensor, Tensor]:
    """Random uint64 words of a shape: (the key's successor, words)."""
    sizes = extents(shape)
    successor, word = _generated(key, product(sizes))
    return successor, tensor(sizes, lambda *i: word(row_major(sizes, i)), "threefry_generate")


MASK = (1 << 64) - 1


def threefry(key: Sequence[int], counter: Sequence[int]) -> list[int]:
    """Threefry 4 x 64 with 20 rounds."""
    k = [*key, PARITY ^ key[0] ^ key[1] ^ key[2] ^ key[3]]
    x = [(a + b) & MASK for a, b in zip(counter, k, strict=False)]
    for r in range(ROUNDS):
        pairs = ((0, 3), (2, 1)) if r % 2 else ((0, 1), (2, 3))
        for (a, b), turn in zip(pairs, ROTATIONS[r % 8], strict=True):
            x[a] = (x[a] + x[b]) & MASK
            x[b] = (x[b] << turn | x[b] >> 64 - turn) & MASK ^ x[a]
        if r % 4 == 3:
            s = r // 4 + 1
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


@threefry_generate.numpy
def _(key: Array, *, shape: Sequence[int]) -> tuple[Array, Array]:
    """Hashes of the counter."""
    successor, words = _words(key, math.prod(shape))
    return successor, np.array(words, np.uint64).reshape(shape)


@op
def threefry_split(key: Tensor) -> tuple[Tensor, ...]:
    """Two keys in place of one, whose numbers have nothing to do with each other.

    Where the path is full, the key of both is the hash of path and counter.
    """
    _key(key)
    words = _cells()

    def body(*outs: Tensor) -> Stmt:
        def written(*keys: Sequence[Expr]) -> list[Stmt]:
            pairs = zip(outs, keys, strict=True)
            return [store(out, (j,), v) for out, own in pairs for j, v in enumerate(own)]

        def fresh(first: int) -> list[Expr]:
            """The key that is the hash, with this first bit of the path."""
            tail = [first << TOP, 0, 0, 0, 1 << (TOP - 1), 0]
            return [*[w.value for w in words], *map(_word, tail)]

        def longer(path: Sequence[Expr]) -> list[Expr]:
            """The same key with this path and the next bit to write."""
            carry = call("shift_left", key[8], _word(TOP))
            high, low = [call("shift_right", key[j], _word(1)) for j in (8, 9)]
            kept = [*[key[j] for j in range(4)], *path, key[6], key[7]]
            return [*kept, high, call("bitwise_or", low, carry)]

        path = [key[4], key[5]]
        marked = [call("bitwise_or", key[j], key[j + 4]) for j in (4, 5)]
        hashed = [*[w.set(key[4 + j]) for j, w in enumerate(words)], _hashed(words, key)]
        full = all_of(equal(key[8], _word(0)), equal(key[9], _word(0)))
        split = seq(*written(longer(path), longer(marked)))
        return once(words, when(full, seq(*hashed, *written(fresh(0), fresh(1))), split))

    return program([(KEY_WORDS,)] * 2, [WORD] * 2, [key], body, "threefry_split")


@threefry_split.numpy
def _(key: Array) -> tuple[Array, Array]:
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


# --------------------------------------------------------------------------------- distributions


def _fraction(word: Expr, dtype: str, digits: int, least: int = 0) -> Expr:
    """The first binary digits of a word, plus `least`, as a number from 0 to 1."""
    top = call("shift_right", word, _word(64 - digits)) + _word(least)
    return cast(dtype, top) * const(2.0**-digits, dtype)


def _fractions_of(
    key: Tensor, shape: Sequence[ExprLike], dtype: str, each: int, **parameters: Tensor
) -> tuple[tuple[Expr, ...], Tensor, Callable[..., Expr]]:
    """The extents, the key's successor, and random numbers by index: of so many to an element,
    (index, which one, digits added) -> `_fraction`."""
    sizes = extents(shape)
    one_of(DIGITS, dtype=dtype)
    for name, t in parameters.items():
        require(t.dtype == dtype, f"{name} is {t.dtype}; dtype={dtype!r} needs {dtype}")
        lies_over(shape=sizes, **{name: t.shape})
    successor, word = _generated(key, product(sizes) * each)

    def fraction(i: Sequence[Expr], which: int = 0, least: int = 0) -> Expr:
        return _fraction(word(row_major(sizes, i) * each + which), dtype, DIGITS[dtype], least)

    return sizes, successor, fraction


@op
def uniform(
    key: Tensor, low: Tensor, high: Tensor, *, shape: tuple[ExprLike, ...], dtype: str = "float32"
) -> tuple[Tensor, Tensor]:
    """Numbers from `low` to `high`, all equally likely: (the key's successor, numbers).

    Shapes  low and high broadcast to `shape`
    dtype   float32 or float64, of low, high and the result

    Number i is low + u * (high - low), where u is made of the first 24 (float64: 53) binary digits
    of word i. u is below 1; rounding may nevertheless give `high`.
    """
    sizes, successor, fraction = _fractions_of(key, shape, dtype, 1, low=low, high=high)

    def body(*i: Expr) -> Expr:
        begin, end = at(low, sizes, i), at(high, sizes, i)
        return begin + fraction(i) * (end - begin)

    return successor, tensor(sizes, body, "uniform")


def _fractions(words: Sequence[int], digits: int, least: int = 0) -> Array:
    return np.array([math.ldexp((w >> 64 - digits) + least, -digits) for w in words])


@uniform.numpy
def _(
    key: Array, low: Array, high: Array, *, shape: Sequence[int], dtype: str
) -> tuple[Array, Array]:
    """low + u * (high - low)."""
    successor, words = _words(key, math.prod(shape))
    u = _fractions(words, DIGITS[dtype]).reshape(shape)
    return successor, np.asarray(
        low + u.astype(dt.to_numpy(dtype)) * (high - low), dt.to_numpy(dtype)
    )


@op
def normal(
    key: Tensor, mean: Tensor, scale: Tensor, *, shape: tuple[ExprLike, ...], dtype: str = "float32"
) -> tuple[Tensor, Tensor]:
    """Numbers of a normal distribution: (the key's successor, numbers).

    Shapes  mean and scale (the standard deviation) broadcast to `shape`
    dtype   float32 or float64, of mean, scale and the result

    Number i is mean + scale * sqrt(-2 log u) cos(2 pi v), by Box and Muller, with u above 0 and up
    to 1 from word 2 i and v below 1 from word 2 i + 1: 24 (float64: 53) binary digits of each.
    """
    sizes, successor, fraction = _fractions_of(key, shape, dtype, 2, mean=mean, scale=scale)

    def body(*i: Expr) -> Expr:
        radius = call("sqrt", const(-2.0, dtype) * call("log", fraction(i, 0, 1)))
        z = radius * call("cos", fraction(i, 1) * const(2 * math.pi, dtype))
        return at(mean, sizes, i) + at(scale, sizes, i) * z

    return successor, tensor(sizes, body, "normal")


@normal.numpy
def _(
    key: Array, mean: Array, scale: Array, *, shape: Sequence[int], dtype: str
) -> tuple[Array, Array]:
    """Box and Muller."""
    successor, words = _words(key, 2 * math.prod(shape))
    u, v = _fractions(words[::2], DIGITS[dtype], 1), _fractions(words[1::2], DIGITS[dtype])
    z = (np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)).reshape(shape)
    return successor, np.asarray(mean + scale * z, dt.to_numpy(dtype))


@op
def multinomial(
    key: Tensor, probs: Tensor, *, num_samples: ExprLike = 1, dtype: str = "int32"
) -> tuple[Tensor, Tensor]:
    """Indices drawn with given weights, each as if it were the first: (the key's successor, drawn).

    Shapes  probs [..., n]; drawn [..., num_samples]
    probs   at least 0, not all 0; they need not sum to 1

    Sample i is the first index whose running sum of weights, in float64, is above u times the
    total, where u is made of the first 52 binary digits of word i.
    """
    rank = len(probs.shape)
    require(rank >= 1, "probs has no dimension")
    wide = tensor(probs.shape, lambda *i: cast("float64", probs[i]), "weights")
    running = scan(wide, rank - 1, lambda a, b: a + b, 0, "running")
    sizes = extents((*probs.shape[:-1], num_samples))
    successor, word = _generated(key, product(sizes))
    last = probs.shape[-1] - 1

    def threshold(*i: Expr) -> Expr:
        # 52 digits and not 53: the product with the total is then below it, also rounded
        return _fraction(word(row_major(sizes, i)), "float64", 52) * running[(*i[:-1], last)]

    found = searchsorted(running, tensor(sizes, threshold, "threshold"), right=True)

    def body(*i: Expr) -> Expr:
        return cast(dtype, select(found[i] < last, found[i], last))

    return successor, tensor(sizes, body, "multinomial")


@multinomial.numpy
def _(key: Array, probs: Array, *, num_samples: int, dtype: str) -> tuple[Array, Array]:
    """One sample after the other."""
    shape = (*probs.shape[:-1], num_samples)
    successor, words = _words(key, math.prod(shape))
    u = _fractions(words, 52).reshape(shape)
    out = np.empty(shape, dt.to_numpy(dtype))
    for row in np.ndindex(*shape[:-1]):
        running = np.cumsum(probs[row].astype(np.float64))
        found = np.searchsorted(running, u[row] * running[-1], "right")
        out[row] = np.minimum(found, probs.shape[-1] - 1)
    return successor, out
