"""Ranges from histograms against what whole arrays say."""

from __future__ import annotations

import numpy as np
import pytest

from smelt.quantization import ranges
from smelt.quantization.numbers import affine_of, quantize_blocks, quantize_weights
from smelt.quantization.statistics import Statistics, count_bins

Array = np.ndarray


def seen(x: Array, parts: int = 1) -> Statistics:
    pieces = np.array_split(x, parts)
    s = Statistics([float(p.min()) for p in pieces], [float(p.max()) for p in pieces])
    s.counts = sum((count_bins(p) for p in pieces), np.zeros(1, np.int64))
    return s


def numbers(kind: str, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    made = {
        "normal": rng.standard_normal(50000),
        "relu": np.maximum(rng.standard_normal(50000), 0),
        "laplace": rng.laplace(size=50000) * 3,
        "uniform": rng.uniform(-1, 3, 50000),
        "outlier": np.append(rng.standard_normal(50000), [400.0]),
        "tiny": rng.standard_normal(5000) * 1e-20,
    }[kind]
    return np.asarray(made, np.float32)


KINDS = ("normal", "relu", "laplace", "uniform", "outlier", "tiny")


def error(x: Array, low: float, high: float, levels: int = 256) -> float:
    """The mean squared error of numbers rounded to so many levels."""
    low, high = min(low, 0.0), max(high, 0.0)
    step = (high - low) / (levels - 1)
    return float(
        np.square(np.round(np.clip(x.astype(np.float64), low, high) / step) * step - x).mean()
    )


@pytest.mark.parametrize("kind", KINDS)
def test_bins_hold_every_number_once(kind: str) -> None:
    x = numbers(kind)
    a, b, n = seen(x, 3).bins()
    assert n.sum() == x.size
    assert np.all(a <= b)
    assert np.all(a[1:] >= b[:-1])
    for low, high, count in zip(a, b, n, strict=True):
        assert count == ((x >= np.float32(low)) & (x <= np.float32(high))).sum()


@pytest.mark.parametrize("kind", KINDS)
def test_minmax_and_moving_average(kind: str) -> None:
    x = numbers(kind)
    s = seen(x, 64)
    assert ranges.minmax(s, 256) == (float(x.min()), float(x.max()))
    low, high = 0.0, 0.0
    batches = np.array_split(x, 64)
    for k in range(0, 64, ranges.BATCH):
        whole = np.concatenate(batches[k : k + ranges.BATCH])
        share = ranges.NEW_SHARE if k else 1.0
        low += share * (float(whole.min()) - low)
        high += share * (float(whole.max()) - high)
    assert ranges.moving_average(s, 256) == pytest.approx((low, high))


@pytest.mark.parametrize("kind", KINDS)
def test_percentile_is_numpys_to_within_a_bin(kind: str) -> None:
    x = numbers(kind)
    low, high = ranges.percentile(seen(x), 256, 99.0)
    for found, share in ((low, 1.0), (high, 99.0)):
        wanted = float(np.percentile(x, share, method="inverted_cdf"))
        assert found == pytest.approx(wanted, rel=1 / 64, abs=1e-30)


@pytest.mark.parametrize("kind", KINDS)
def test_no_cut_has_a_smaller_error_than_mse_finds(kind: str) -> None:
    x = numbers(kind)
    low, high = ranges.squared_error(seen(x), 256)
    best = min(error(x, x.min() * c, x.max() * c) for c in np.linspace(0.3, 1, 36))
    assert error(x, low, high) <= best * 1.05


@pytest.mark.parametrize("kind", KINDS)
def test_entropy_keeps_what_matters(kind: str) -> None:
    x = numbers(kind)
    low, high = ranges.entropy(seen(x), 256)
    inside = (x >= low) & (x <= high)
    assert inside.mean() > 0.99
    assert error(x[inside], low, high) <= 1.01 * error(x[inside], float(x.min()), float(x.max()))


def test_zeros_do_not_count_for_entropy() -> None:
    x = numbers("relu")
    many = np.concatenate([x, np.zeros(10 * x.size, np.float32)])
    assert ranges.entropy(seen(x), 256) == ranges.entropy(seen(many), 256)


def test_shares_beyond_a_range() -> None:
    x = numbers("uniform")
    assert seen(x).beyond(-1, 3) == 0
    assert seen(x).beyond(0, 3) == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("ends", [(-1.0, 3.0), (0.0, 6.0), (2.0, 5.0), (-4.0, -1.0), (-3e-5, 1e-7)])
def test_affine_covers_its_range_and_zero(
    dtype: str, symmetric: bool, ends: tuple[float, float]
) -> None:
    a = affine_of(ends, dtype, symmetric, "x")
    low, high = a.range
    assert low <= min(ends[0], 0) + a.scale / 2
    assert high >= max(ends[1], 0) - a.scale / 2
    info = np.iinfo(dtype)
    assert info.min <= a.zero <= info.max
    assert not symmetric or a.zero == (128 if dtype == "uint8" and ends[0] < 0 else 0)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("search", [False, True])
def test_weights_are_rounded_to_the_nearest(axis: int | None, bits: int, search: bool) -> None:
    w = numbers("laplace")[:1200].reshape(20, 60)
    w[:, 3] = 0
    made = quantize_weights(w, axis, bits, search)
    high = 2 ** (bits - 1) - 1
    assert np.abs(made.data).max() == high
    assert made.scale.shape == (() if axis is None else (w.shape[axis],))
    most = np.abs(w).max() if axis is None else np.abs(w).max(axis=1 - axis)
    if not search:
        step = np.expand_dims(made.scale, 1 - axis) if axis is not None else made.scale
        assert np.all(np.abs(made.floats() - w) <= step / 2 * 1.001)
    assert np.all((most / high >= made.scale * 0.999) | (most == 0))
    plain = quantize_weights(w, axis, bits)
    assert np.square(made.floats() - w).sum() <= np.square(plain.floats() - w).sum() * 1.0001


def test_power_of_two_scales() -> None:
    w = numbers("normal")[:600].reshape(20, 30)
    scale = quantize_weights(w, 0, power2=True).scale
    assert np.all(np.frexp(scale)[0] == 0.5)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("bits", [4, 8])
def test_blocks_have_scales_of_their_own(axis: int, bits: int) -> None:
    w = numbers("laplace")[: 64 * 96].reshape(64, 96)
    made = quantize_blocks(w, axis, 16, bits, False)
    floats = made.data * np.repeat(made.scale, 16, axis)
    assert made.data.shape == w.shape
    assert np.all(np.abs(floats - w) <= np.repeat(made.scale, 16, axis) / 2 * 1.001)
