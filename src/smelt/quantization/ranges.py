"""From what is known of a tensor to the range that its integers cover."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from smelt.ir.errors import CompileError
from smelt.runtime.errors import nearest

from .statistics import Array, Statistics

Range = tuple[float, float]

PERCENTILE = 99.99
"""The share of the elements, in percent, that lies below the upper end of a range."""
NEW_SHARE = 0.1
"""How much of a moving average a new batch of samples is."""
BATCH = 16
"""So many samples are one batch of a moving average."""
_CUTS = np.linspace(0.3, 1.0, 71)
"""The shares of the whole range that a search tries."""
_FINE = 2048
"""Bins of one width, between 0 and the largest magnitude, for the search by entropy."""


def minmax(s: Statistics, levels: int) -> Range:
    """Everything that was seen."""
    return s.low, s.high


def moving_average(s: Statistics, levels: int) -> Range:
    """The ends of batches of samples, averaged; each batch counts as much as a tenth of all before
    it."""
    low, high = min(s.lows[:BATCH]), max(s.highs[:BATCH])
    for k in range(BATCH, len(s.lows), BATCH):
        low += NEW_SHARE * (min(s.lows[k : k + BATCH]) - low)
        high += NEW_SHARE * (max(s.highs[k : k + BATCH]) - high)
    return low, high


def percentile(s: Statistics, levels: int, percent: float = PERCENTILE) -> Range:
    """All but the smallest and the largest numbers: `percent` below the upper end, and as many
    above the lower one."""
    a, b, n = s.bins()
    reached = np.cumsum(n) / max(n.sum(), 1)
    share = percent / 100
    high = b[np.searchsorted(reached, share).clip(max=len(b) - 1)]
    low = a[np.searchsorted(reached, 1 - share, side="right").clip(max=len(a) - 1)]
    return max(float(low), s.low), min(float(high), s.high)


def squared_error(s: Statistics, levels: int) -> Range:
    """The least mean squared difference between the numbers and what stands for them.

    Within a bin numbers are taken to be spread evenly: at four places.
    """
    a, b, n = s.bins()
    places = (np.arange(4) + 0.5) / 4
    x = (a[:, None] + (b - a)[:, None] * places).reshape(-1)
    weight = np.repeat(n / 4, 4)
    low, high = min(s.low, 0.0), max(s.high, 0.0)
    best, found = np.inf, (low, high)
    for cut in _CUTS[::-1]:
        at = low * cut, high * cut
        step = (at[1] - at[0]) / (levels - 1)
        if not step > 0:
            continue
        near = np.round(np.clip(x, *at) / step) * step
        error = float(weight @ np.square(x - near))
        if error < best:
            best, found = error, at
    return found


def entropy(s: Statistics, levels: int) -> Range:
    """The least information lost (Kullback and Leibler's divergence) by the magnitudes.

    For each threshold the numbers beyond it count as the threshold; what is left is merged into as
    many bins as there are integers. Zeros, which a ReLU makes many of, lose nothing at all, and are
    not looked at.
    """
    a, b, n = s.bins()
    a, b, n = (v[(a != 0) & (b != 0)] for v in (a, b, n))
    most = max(abs(s.low), abs(s.high))
    if not n.size:
        return s.low, s.high
    far = np.maximum(np.abs(a), np.abs(b))
    near = np.minimum(np.abs(a), np.abs(b))
    counts = _evenly(near, far, n, most)
    merged = levels if s.low >= 0 else levels // 2
    lost = {i: _divergence(counts, i, merged) for i in range(min(merged, _FINE), _FINE + 1, 16)}
    best = min(lost, key=lambda i: (lost[i], -i))
    threshold = (best + 0.5) / _FINE * most if best < _FINE else most
    return max(s.low, -threshold), min(s.high, threshold)


def _evenly(near: Array, far: Array, n: Array, most: float) -> Array:
    """The histogram of magnitudes in bins of one width."""
    width = most / _FINE
    edges = np.arange(_FINE + 1) * width
    order = np.argsort(far, kind="stable")
    below = np.zeros(_FINE + 1)
    spread = np.maximum(far - near, np.finfo(np.float64).tiny)
    for k in range(0, len(order), 4096):  # a piece at a time: the table has few columns
        part = order[k : k + 4096]
        share = (edges[:, None] - near[part]) / spread[part]
        below += np.clip(share, 0, 1) @ n[part]
    counts: Array = np.diff(below)
    counts[-1] += n.sum() - below[-1]
    return counts


def _divergence(counts: Array, kept: int, levels: int) -> float:
    """What is lost where the first `kept` bins are merged into `levels`."""
    inside = counts[:kept]
    p = inside.copy()
    p[-1] += counts[kept:].sum()
    group = np.arange(kept) * levels // kept
    full = inside > 0
    sums = np.bincount(group, inside, levels)
    filled = np.bincount(group, full, levels)
    q = np.where(full, (sums / np.maximum(filled, 1))[group], 0.0)
    p, q = p / max(p.sum(), 1e-300), q / max(q.sum(), 1e-300)
    at = p > 0
    return float(np.sum(p[at] * np.log(p[at] / np.maximum(q[at], 1e-12))))


METHODS: dict[str, Callable[[Statistics, int], Range]] = {
    "minmax": minmax,
    "moving-average": moving_average,
    "percentile": percentile,
    "entropy": entropy,
    "mse": squared_error,
}
"""The ways to find a range, by name. Each gets the statistics and the number of integers."""

WITHOUT_HISTOGRAM = ("minmax", "moving-average")


def check_method(method: str) -> None:
    """Refuse a method that does not exist."""
    if method not in METHODS:
        raise CompileError(
            f"method={method!r}{nearest(method, METHODS)}; legal: {', '.join(METHODS)}"
        )
