"""What is known of a tensor's numbers after the samples have run: ranges, and a histogram.

The bins of a histogram are the leading 16 bits of a float32: sign, exponent and seven bits of the
fraction. They are the same for every tensor and sample, so histograms are added, whatever comes
first, and no range has to be known beforehand. The widest bin of a range is 1 / 128 of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

BINS = 1 << 16
_SHIFT = 16


def count_bins(x: Array) -> Array:
    """How many elements fall into each bin; NaN and infinity count as their bins, too."""
    bits = np.ascontiguousarray(x, np.float32).reshape(-1).view(np.uint32)
    return np.bincount((bits >> _SHIFT).astype(np.int64), minlength=BINS)


def _edges() -> tuple[Array, Array]:
    """The ends of the finite bins nearer to, and farther from zero, signed."""
    bits = np.arange(BINS, dtype=np.uint32) << _SHIFT
    near, far = bits.view(np.float32), (bits | np.uint32(0xFFFF)).view(np.float32)
    near, far = (np.where(np.isfinite(v), v, np.inf) for v in (near, far))
    return near.astype(np.float64), far.astype(np.float64)


_NEAR, _FAR = _edges()


@dataclass
class Statistics:
    """The numbers of one tensor over all samples.

    lows, highs  the smallest and the largest number of each sample
    counts       the histogram, of a part of the elements; None: nobody asked for it
    sums         sums of each channel, of which there are `elements`; None: nobody asked
    largest      the largest magnitude in each channel; None: nobody asked
    """

    lows: list[float] = field(default_factory=list)
    highs: list[float] = field(default_factory=list)
    counts: Array | None = None
    sums: Array | None = None
    elements: int = 0
    largest: Array | None = None

    @property
    def low(self) -> float:
        """The smallest number."""
        return min(self.lows)

    @property
    def high(self) -> float:
        """The largest number."""
        return max(self.highs)

    @property
    def means(self) -> Array:
        """The mean of each channel."""
        assert self.sums is not None
        return self.sums / max(self.elements, 1)

    def join(self, other: Statistics) -> Statistics:
        """Of two tensors that share one range, sample by sample."""
        counts = None
        if self.counts is not None and other.counts is not None:
            counts = self.counts + other.counts
        lows = [min(p) for p in zip(self.lows, other.lows, strict=True)]
        highs = [max(p) for p in zip(self.highs, other.highs, strict=True)]
        return Statistics(lows, highs, counts)

    def bins(self) -> tuple[Array, Array, Array]:
        """Of the bins that hold something: both ends, the lower one first, and the counts."""
        assert self.counts is not None
        full = np.flatnonzero(self.counts)
        near, far = _NEAR[full], _FAR[full]
        inside = np.isfinite(far)
        a, b = np.minimum(near, far)[inside], np.maximum(near, far)[inside]
        order = np.argsort(a, kind="stable")
        return a[order], b[order], self.counts[full][inside][order]

    def beyond(self, low: float, high: float) -> float:
        """The share of the elements that a range cuts off."""
        a, b, n = self.bins()
        middle = (a + b) / 2
        return float(n[(middle < low) | (middle > high)].sum() / max(n.sum(), 1))
