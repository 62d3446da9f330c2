"""What the meanings of operators in numpy share.

They are the oracle of everything else, so they never look at the tensor expressions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from smelt.ir.dtype import from_numpy, is_int, to_numpy

Array = np.ndarray[Any, Any]
Index = tuple[Any, ...]


def widened(x: Array) -> Array:
    """Narrow floats as float32, in which sums are formed; integers of a few bits as int32."""
    if x.dtype.itemsize >= 4 or x.dtype.kind in "iub":
        return x
    return x.astype(np.int32 if is_int(from_numpy(x.dtype)) else np.float32)


def summed(x: Array, out_dtype: str) -> Array:
    """An operand of a product in the type that products are added up in."""
    if not out_dtype:
        return widened(x)
    to = to_numpy(out_dtype)
    return x.astype(to) if to.kind in "iu" or to.itemsize > 4 else widened(x)


def rounded(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose result has the first operand's element type, computed in a wide one."""

    def run(x: Array, *more: Array, **attrs: Any) -> Array:
        wide = [widened(np.asarray(v)) for v in (x, *more)]
        return np.asarray(fn(*wide, **attrs)).astype(x.dtype)

    return run


def logistic(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow."""
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1 / (1 + e), e / (1 + e)))


def erf_array(x: Array) -> Array:
    """The error function of each element, in float64."""
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x.astype(np.float64)))


def truncated(a: Array, b: Array) -> Array:
    """The quotient of integers rounded toward zero; 0 where b is 0."""
    safe = np.where(b == 0, 1, b)
    down = np.floor_divide(a, safe)
    up = (down < 0) & (down * safe != a)
    return np.where(b == 0, 0, down + up)


def divided(a: Array, b: Array) -> Array:
    """The quotient; of integers rounded toward zero."""
    return truncated(a, b) if a.dtype.kind in "iu" else a / b


def descending(scores: Array) -> list[int]:
    """Where the elements stand in descending order; equal ones keep theirs."""
    return [int(i) for i in np.argsort(-scores.astype(np.float64), kind="stable")]


def box_overlap(a: Array, b: Array, pixel: float = 0.0) -> float:
    """Shared area over covered area of two boxes given by two corners each."""
    corners = [np.asarray(v, np.float64).reshape(2, 2) for v in (a, b)]
    lows, highs = [c.min(0) for c in corners], [c.max(0) + pixel for c in corners]
    shared = np.prod(np.maximum(np.minimum(*highs) - np.maximum(*lows), 0))
    areas = [np.prod(high - low) for low, high in zip(lows, highs, strict=True)]
    covered = areas[0] + areas[1] - shared
    return float(shared / covered) if covered > 0 else 0.0


def greedy(
    boxes: Array, order: Iterable[int], most: int, threshold: float, pixel: float = 0.0
) -> list[int]:
    """The boxes, in an order, that none before it overlaps by more than the threshold."""
    kept: list[int] = []
    for i in order:
        near = [box_overlap(boxes[k], boxes[i], pixel) for k in kept]
        if len(kept) != most and all(v <= threshold for v in near):
            kept.append(i)
    return kept


def basic_slice(
    rank: int, axes: Sequence[int], begin: Sequence[int], end: Sequence[int],
    strides: Sequence[int] | None,
) -> Index:  # fmt: skip
    """A basic slice; end -1 under a negative stride runs through element 0."""
    cut = [slice(None)] * rank
    for a, b, e, s in zip(axes, begin, end, strides or (1,) * len(axes), strict=True):
        cut[a] = slice(b, None if e < 0 else e, s)
    return tuple(cut)


def stored_type(x: Array, out_dtype: str) -> np.dtype[Any]:
    """The type asked for, or the operand's."""
    return to_numpy(out_dtype) if out_dtype else x.dtype


def lowest(x: Array) -> float:
    """What every element is above or equal to."""
    return int(np.iinfo(x.dtype).min) if x.dtype.kind in "iu" else -np.inf


def highest(x: Array) -> float:
    """What every element is below or equal to."""
    return int(np.iinfo(x.dtype).max) if x.dtype.kind in "iu" else np.inf


def padded_image(x: Array, pads: Sequence[int], value: float) -> Array:
    """An image x[n, c, ...] with a border: pads are the begins, then the ends."""
    rank = len(pads) // 2
    border = [(0, 0)] * (x.ndim - rank) + list(zip(pads[:rank], pads[rank:], strict=True))
    return np.pad(x, border, constant_values=value)


def without_border(x: Array, pads: Sequence[int]) -> Array:
    """The image that `padded_image` was given."""
    rank = len(pads) // 2
    ends = zip(pads[:rank], pads[rank:], x.shape[x.ndim - rank :], strict=True)
    keep: Index = (..., *[slice(begin, n - end) for begin, end, n in ends])
    return x[keep]


def taps(
    x: Array, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Iterator[tuple[Index, Array]]:
    """For every element of the kernel: its index and the part of the padded image it meets."""
    rank = len(kernel)
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    each = zip(x.shape[x.ndim - rank :], kernel, strides, dilations, strict=True)
    size = [(h - d * (k - 1) - 1) // s + 1 for h, k, s, d in each]
    for place in itertools.product(*map(range, kernel)):
        ends = zip(place, dilations, size, strides, strict=True)
        cut = [slice(t * d, t * d + max(0, (n - 1) * s + 1), s) for t, d, n, s in ends]
        met: Index = (..., *cut)
        yield (..., *place), x[met]


def taps_on(
    x: Array, border: float, *, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int],
    dilations: Sequence[int],
) -> Iterator[tuple[Index, Array]]:  # fmt: skip
    """`taps` of an image with a border of one value."""
    return taps(padded_image(x, pads, border), kernel, strides, dilations)


def under_window(x: Array, border: float, **window: Any) -> Array:
    """[taps, n, c, ...]: the elements of every window on an image with a border of one value."""
    return np.stack([part for _, part in taps_on(x, border, **window)])


def spread_image(
    shape: Sequence[int], parts: Sequence[Array], *, kernel: Sequence[int], strides: Sequence[int],
    pads: Sequence[int], dilations: Sequence[int],
) -> Array:  # fmt: skip
    """An image of a shape, each tap of all windows having added its part to the pixels it meets."""
    out = padded_image(np.zeros(shape, parts[0].dtype), pads, 0)
    for (_, pixels), part in zip(taps(out, kernel, strides, dilations), parts, strict=True):
        pixels += part.reshape(pixels.shape)
    return without_border(out, pads)
