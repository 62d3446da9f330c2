"""Random numbers: the published values of the hash, keys, distributions."""

from __future__ import annotations

import numpy as np
import pytest

from smelt.ir.errors import TypeMismatch
from smelt.topi.random import threefry

from .cases import Array, Case, data
from .compiled import check_all, check_compiled, run_compiled

ALL_ONES = (1 << 64) - 1
PI = [0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89,
      0x452821E638D01377, 0xBE5466CF34E90C6C, 0xC0AC29B7C97C50DD, 0x3F84D5B5B5470917]  # fmt: skip


def key(*words: int) -> Array:
    return np.array(words, np.uint64)


def fresh(seed: int) -> Array:
    return key(0, 0, 0, seed, 0, 0, 0, 0, 1 << 63, 0)


def test_the_hash_of_the_paper() -> None:
    assert threefry([0] * 4, [0] * 4) == [
        0x09218EBDE6C85537, 0x55941F5266D86105, 0x4BD25E16282434DC, 0xEE29EC846BD2E40B,
    ]  # fmt: skip
    assert threefry([ALL_ONES] * 4, [ALL_ONES] * 4) == [
        0x29C24097942BBA1B, 0x0371BBFB0F6F4E11, 0x3C231FFA33F83A1C, 0xCD29113FDE32D168,
    ]  # fmt: skip
    twice = PI[5]  # the published key has this word twice
    assert threefry([PI[4], twice, twice, PI[6]], PI[:4]) == [
        0xA7E8FDE591651BD9, 0xBAAFD0C30138319B, 0x84A5C1A729E685B9, 0x901D406CCEBC1BA4,
    ]  # fmt: skip
    zero = run_compiled([Case("threefry_generate", key(*[0] * 10), shape=(4,))])[0][1]
    assert zero.tolist() == threefry([0] * 4, [0] * 4)
    other = run_compiled([Case("threefry_generate", key(*PI[4:], *PI[:4], 0, 0), shape=(4,))])
    assert other[0][1].tolist() == threefry(PI[4:], PI[:4])


KEYS = [
    fresh(1), fresh(ALL_ONES),
    key(1, 2, 3, 4, 5, 6, 7, ALL_ONES - 1, 0, 1 << 63),  # the counter's carry
    key(1, 2, 3, 4, 5, 6, ALL_ONES, ALL_ONES, 0, 0),  # its end, and a full path
    key(1, 2, 3, 4, 1 << 63, 0, 7, 9, 1, 0),  # the path's carry
    key(1, 2, 3, 4, 5, 6, 7, 9, 0, 1),  # the last bit of the path
]  # fmt: skip


@pytest.mark.parametrize("start", KEYS, ids=range(len(KEYS)))
def test_words_and_splits(start: Array) -> None:
    check_all([
        *[Case("threefry_generate", start, shape=shape) for shape in ((3, 4), (7,), ())],
        Case("threefry_split", start),
    ])  # fmt: skip


def test_many_words_are_made_in_parallel() -> None:
    check_compiled([Case("threefry_generate", fresh(3), shape=(4, 500))])


def test_what_follows_does_not_repeat() -> None:
    words, current = [], fresh(7)
    for _ in range(140):  # longer than a path
        left, right = Case("threefry_split", current).numpy()
        used, made = Case("threefry_generate", left, shape=(6,)).numpy()
        words += made.tolist() + Case("threefry_generate", used, shape=(4,)).numpy()[1].tolist()
        current = right
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distributions(dtype: str) -> None:
    low, high = data((3, 1), dtype, -2, 0), data((4,), dtype, 1, 2)
    weights = data((2, 5), dtype, 0, 1)
    check_all([
        Case("uniform", fresh(5), low, high, shape=(3, 4), dtype=dtype),
        Case("uniform", fresh(5), low[0, 0], high[0], shape=(2, 3), dtype=dtype),
        Case("normal", fresh(6), low, high, shape=(3, 4), dtype=dtype),
        Case("multinomial", fresh(8), weights, num_samples=9),
        Case("multinomial", fresh(8), weights[0], num_samples=3, dtype="int64"),
    ])  # fmt: skip


def test_distributions_have_their_moments() -> None:
    n, zero, one = 20000, np.float32(0), np.float32(1)
    weights = np.array([0, 1, 2, 0, 5, 0], np.float32)
    found = run_compiled([
        Case("uniform", fresh(1), np.array(zero), np.array(one), shape=(n,)),
        Case("normal", fresh(2), np.array(zero), np.array(one), shape=(n,)),
        Case("multinomial", fresh(3), weights, num_samples=n),
    ])  # fmt: skip
    u, z, drawn = [results[1] for results in found]
    assert u.min() >= 0
    assert u.max() < 1
    moments = [u.mean(), u.var(), z.mean(), z.var(), (z**3).mean()]
    np.testing.assert_allclose(moments, [1 / 2, 1 / 12, 0, 1, 0], atol=0.05)
    share = np.bincount(drawn, minlength=6) / n
    np.testing.assert_allclose(share, weights / 8, atol=0.015)
    assert not share[weights == 0].any()


def test_texts_of_mistakes() -> None:
    x, two = np.zeros((), np.float32), np.zeros((2,), np.float32)
    texts = [
        (Case("threefry_generate", key(1, 2, 3), shape=(4,)),
         "threefry_generate: key is uint64 [3]; a key is uint64 [10]"),
        (Case("threefry_split", np.zeros(10, np.int64)),
         "threefry_split: key is int64 [10]; a key is uint64 [10]"),
        (Case("uniform", fresh(1), x, x, shape=(4,), dtype="float16"),
         "uniform: dtype='float16'; legal: float32, float64"),
        (Case("normal", fresh(1), x, x, shape=(4,), dtype="float64"),
         "normal: mean is float32; dtype='float64' needs float64"),
        (Case("normal", fresh(1), two, x, shape=(), dtype="float32"),
         "normal: mean [2] has to broadcast to shape []"),
    ]  # fmt: skip
    for case, text in texts:
        with pytest.raises(TypeMismatch) as caught:
            case.numpy()
        assert str(caught.value) == text
